"""Many things in one request: each takes effect or is refused by itself, and the answer says which."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django.db import transaction
from rest_framework.response import Response

from memory.api.errors import RETRYABLE, Refusal
from memory.api.exception_handler import find_refusal
from memory.errors import InvalidInput, MemoryAppError

Item = TypeVar("Item")


def answer_each(items: Sequence[Any], do: Callable[[Any], Mapping[str, Any]]) -> Response:
    """Do something with each item, in a savepoint of its own, and answer what became of each, in their order.

    The answer and the record under an `Idempotency-Key` hold ids, hashes and reasons but none of the words sent, so
    that erasing one of many leaves nothing of it there.

    Args:
        do: returns the members of the result; what it raises refuses this item and no other.
    """
    results = [{"index": index, **_do(item, do)} for index, item in enumerate(items)]
    response = Response({"results": results})
    # The stored request would keep the words of an item after its erasure.
    response.keeps_request = False  # type: ignore[attr-defined]
    return response


def _do(item: Any, do: Callable[[Any], Mapping[str, Any]]) -> dict[str, Any]:
    try:
        if not isinstance(item, Mapping):
            raise InvalidInput({"/": ["This should be an object."]})
        # A savepoint: what one item did goes back alone, and the transaction of the request stays usable.
        with transaction.atomic():
            return {**do(item), "error": None}
    except (MemoryAppError, Refusal) as error:
        refusal = find_refusal(error)
        assert refusal is not None, "every refusal of ours has an answer"
        return {
            "status": refusal.status_code,
            "heuristic_id": None,
            "heuristic_status": None,
            "content_sha256": None,
            "error": {
                "code": refusal.error_code.value,
                "message": refusal.message,
                "retryable": refusal.error_code in RETRYABLE,
                "fields": {field: list(texts) for field, texts in refusal.fields.items()},
            },
        }
