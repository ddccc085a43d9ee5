"""A key and a request to repeat."""

from typing import Any

KEY: dict[str, Any] = {"HTTP_IDEMPOTENCY_KEY": "run-1"}
BODY = {"task": "Cancel", "id": 9223372036854775807}
