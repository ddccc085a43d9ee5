"""What installed apps put into the admin and nobody edits there."""

from django.contrib import admin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

# Their pages show secrets and write them by hand; `manage.py reset_second_factor` does what an operator needs.
admin.site.unregister([StaticDevice, TOTPDevice])
