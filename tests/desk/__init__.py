"""Tests of the pages."""

import erl_site.urls  # noqa: F401 - all pages register with the admin
