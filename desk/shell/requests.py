"""What a request says: who acts, which ids and numbers it names, and where the person came from."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme

from memory.projects.actors import Actor


def get_actor(request: HttpRequest) -> Actor:
    """Return the person who is signed in, as every page of the desk requires."""
    assert request.user.is_authenticated
    return Actor.person(request.user)


def read_id(text: Any) -> UUID | None:
    """Return the id that a form or an address names; None if it is not an id."""
    try:
        return UUID(str(text))
    except ValueError:
        return None


def read_number(text: Any) -> int | None:
    """Return a number of a form or an address; None if it is not one, or larger than any column."""
    digits = str(text or "")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else None


def find_way_back(request: HttpRequest, field: str, default: str) -> str:
    """Return the address in a field of the form if it is one of this site, else the default."""
    back = request.POST.get(field, "")
    hosts = {request.get_host()}
    is_own = url_has_allowed_host_and_scheme(back, allowed_hosts=hosts, require_https=request.is_secure())
    return back if is_own else default
