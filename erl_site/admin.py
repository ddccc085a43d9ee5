"""Hides pages that installed apps register in the admin."""

from django.contrib import admin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

# Their pages show and edit secrets; operators use `manage.py reset_second_factor` instead.
admin.site.unregister([StaticDevice, TOTPDevice])
