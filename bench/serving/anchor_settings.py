"""The product's settings without what stands around a view."""

from erl_site.settings import *  # noqa: F403

MIDDLEWARE = []
ROOT_URLCONF = "bench.serving.anchor"
