"""The product as gunicorn serves it, plus the endpoints that are broken on purpose."""

import os
from importlib import import_module

from django.conf import settings
from django.test import Client

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
settings.ROOT_URLCONF = "tests.chaos.urls"
application = import_module("erl_site.asgi").application

# Everything a request needs is loaded before the workers are forked, so that a killed one is back in milliseconds.
Client().get("/health", headers={"Host": "localhost"})
