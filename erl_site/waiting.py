"""How long the request at hand waited for a thread: the web worker measures it, the middleware acts on it."""

from contextvars import ContextVar

waited_seconds: ContextVar[float] = ContextVar("waited_seconds", default=0.0)
