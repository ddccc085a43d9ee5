"""The fixtures of the API's tests, for what has to stay true from outside."""

from tests.api.conftest import *  # noqa: F403
from tests.api.conftest import _forget_verified_keys  # noqa: F401
