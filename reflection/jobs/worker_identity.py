"""What a worker calls itself on the reflections it holds: `name@host/process of the worker/process that works`."""

import os
import socket

_worker = ""


def name_worker(nodename: str) -> str:
    """Name this process as a worker; the processes it starts from now on inherit the name. Return it."""
    global _worker
    _worker = f"{nodename}/{os.getpid()}"
    return _worker


def worker_name() -> str:
    """Return the worker this process belongs to, or the process itself where it belongs to none."""
    return _worker or f"{socket.gethostname()}/{os.getpid()}"


def owner_name() -> str:
    """Return the name under which this process claims reflections."""
    return f"{worker_name()}/{os.getpid()}"
