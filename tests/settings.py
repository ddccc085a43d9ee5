"""The product's settings, with what tests change in processes that they start: TEST_REFLECTION_LEASE_SECONDS=5.

Deployments have no such variables; two of them would not differ in these.
"""

import os

from erl_site.settings import *  # noqa: F403
from erl_site.settings import DATABASES

if "TEST_DATABASE_CONN_MAX_AGE" in os.environ:
    DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ["TEST_DATABASE_CONN_MAX_AGE"])
ERL_EMBEDDED_DURABLE = os.environ.get("TEST_EMBEDDED_DURABLE") != "0"
ERL_FAILPOINTS = [point for point in os.environ.get("TEST_FAILPOINTS", "").split(",") if point]
ERL_API_MAX_WAIT_SECONDS = float(os.environ.get("TEST_API_MAX_WAIT_SECONDS", "0.25"))
ERL_IDEMPOTENCY_HOURS = int(os.environ.get("TEST_IDEMPOTENCY_HOURS", "72"))
ERL_REFLECTION_LEASE_SECONDS = float(os.environ.get("TEST_REFLECTION_LEASE_SECONDS", "30"))
ERL_REFLECTION_MAX_ATTEMPTS = int(os.environ.get("TEST_REFLECTION_MAX_ATTEMPTS", "5"))
