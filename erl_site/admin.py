"""Hide admin pages that installed apps register."""

from django.contrib import admin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

# These pages would show secrets; use `manage.py reset_second_factor` instead.
admin.site.unregister([StaticDevice, TOTPDevice])
