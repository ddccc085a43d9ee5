"""The pages of tables, which are those of Django's admin. One module for each table, with its forms beside it."""

from django.contrib import admin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from desk.admin import (  # noqa: F401  # each registers its pages
    agent,
    api_key,
    approval,
    block,
    change,
    consolidation,
    deployment,
    evaluation_run,
    evolution,
    experiment,
    heuristic,
    mistake,
    passage,
    project,
    quarantine_order,
    records,
    reflection,
    release,
    retrieval,
    rule_change,
    run,
    shadow_answer,
    tool,
    trajectory,
    webhook,
)

# These pages would show secrets; use `manage.py reset_second_factor` instead.
admin.site.unregister([StaticDevice, TOTPDevice])
