"""What a key may do: every view names the scope of each of its methods."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from memory.api.authentication import key_of
from memory.api.errors import ErrorCode, Refusal


class HasScope(BasePermission):
    """Lets a request through if its key has the scope that the view asks for.

    `view.required_scopes` maps methods ("GET") or viewset actions ("approve") to scopes; HEAD counts as GET, and
    OPTIONS only needs a key. What a view forgot to map is refused.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.auth is None:
            return False  # DRF turns this into 401
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS" or method not in view.allowed_methods:
            return True  # the latter is answered with 405
        scopes: dict[str, str] = getattr(view, "required_scopes", {})
        scope = scopes.get(getattr(view, "action", None) or "") or scopes.get(method or "")
        if scope is None:
            return False
        if scope not in key_of(request).scopes:
            raise Refusal(
                ErrorCode.MISSING_SCOPE,
                f"This needs the scope {scope}, which the API key lacks. Ask the operator for a key that has it.",
                headers={"WWW-Authenticate": f'Bearer realm="erl", error="insufficient_scope", scope="{scope}"'},
            )
        return True
