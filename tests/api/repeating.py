"""A key and a request to repeat."""

KEY = {"HTTP_IDEMPOTENCY_KEY": "run-1"}
BODY = {"task": "Cancel", "id": 9223372036854775807}
