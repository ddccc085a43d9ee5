"""Work that waits for the end of the transaction. Nothing else in ERL calls `transaction.on_commit`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

import structlog
from django.db import connection, transaction

log = structlog.get_logger(__name__)
Parameters = ParamSpec("Parameters")


@dataclass(frozen=True, slots=True)
class DeferredCall:
    """A function and what to call it with. Calls of one function with equal arguments are equal."""

    function: Callable[..., object]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> None:
        """Call the function; an error is logged and goes no further.

        Django's `robust=True` does the same only for functions with a `__qualname__`, which a partial has not: there
        the error, in place of being logged, reaches the client and stops the calls after it.
        """
        try:
            self.function(*self.args, **self.kwargs)
        except Exception:
            log.exception(
                "after_commit_failed", function=getattr(self.function, "__qualname__", repr(type(self.function)))
            )


def after_commit(function: Callable[Parameters, object], *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
    """Call a function when the transaction is committed, once however often this is asked; without one, at once.

    What is called has to be work that can fail: the commit stands, and the periodic work makes up for it.
    """
    call = DeferredCall(function, args, kwargs)
    # Django keeps (savepoint ids, function, robust) in this list; only the function is compared.
    if not any(waiting == call for _, waiting, *_ in connection.run_on_commit):
        transaction.on_commit(call)
