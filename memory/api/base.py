"""The view every endpoint of the API is made of."""

from typing import Any, ClassVar
from urllib.parse import unquote, unquote_to_bytes

import structlog
from django.http import HttpRequest
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from memory.api.authentication import ApiKeyAuthentication, key_of
from memory.api.errors import ErrorCode, Refusal
from memory.api.exceptions import exception_handler
from memory.api.idempotency import SAFE_METHODS, IdempotentMixin
from memory.api.pagination import LimitOffset
from memory.api.parsers import BodyRequest, JsonNegotiation, StrictJSONParser
from memory.api.permissions import HasScope
from memory.api.throttling import ScopeThrottle, count_failed_key
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project
from memory.projects.tenancy import confined

BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})


class ApiView(IdempotentMixin, GenericAPIView[Any]):
    """A view of the API: key, scope, strict body, known query parameters, one transaction, one error shape.

    Subclasses say:

    - `required_scopes`: the scope of each method, for example `{"GET": ApiKey.Scope.HEURISTICS_READ}`;
    - `allowed_query_params`: what GET may carry; paging parameters are known wherever `pagination_class` is set;
    - `pagination_class = LimitOffset` on lists (none by default);
    - `body_optional = True` where POST needs no body;
    - handlers (`get`, `post`, …), which start every queryset from `self.project` and pass `by=self.actor` on. After
      making something they set `response.resource_id`, so that its erasure also empties the stored answer;
    - `after_commit(request, response)` where the sent answer may wait for something, with no transaction open.
    """

    authentication_classes = [ApiKeyAuthentication]
    permission_classes = [HasScope]
    throttle_classes = [ScopeThrottle]
    parser_classes = [StrictJSONParser]
    content_negotiation_class = JsonNegotiation
    pagination_class: Any = None
    required_scopes: ClassVar[dict[str, str]] = {}
    allowed_query_params: ClassVar[frozenset[str]] = frozenset()
    body_optional = False
    rate_headers: ClassVar[dict[str, str]] = {}

    @property
    def api_key(self) -> ApiKey:
        return key_of(self.request)

    @property
    def project(self) -> Project:
        """The only project this request may see."""
        return self.api_key.project

    @property
    def actor(self) -> Actor:
        return Actor(label=f"key:{self.api_key.client}", api_key_id=self.api_key.pk)

    @property
    def request_id(self) -> str:
        value: str = structlog.contextvars.get_contextvars().get("request_id", "")
        return value

    def get_exception_handler(self) -> Any:
        return exception_handler

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        drf: Request = super().initialize_request(request, *args, **kwargs)
        return BodyRequest(
            request,
            parsers=drf.parsers,
            authenticators=drf.authenticators,  # type: ignore[arg-type]
            negotiator=drf.negotiator,
            parser_context=drf.parser_context,
        )

    def perform_authentication(self, request: Request) -> None:
        try:
            super().perform_authentication(request)
        except AuthenticationFailed:
            count_failed_key(request.META.get("REMOTE_ADDR", ""))
            raise

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in self.allowed_methods:  # else it is a 405, whatever the query and the body
            self._check_query(request)
            if request.method in BODY_METHODS and not self.body_optional and not _has_body(request):
                raise Refusal(ErrorCode.BODY_REQUIRED, "Send a JSON object in the body.")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Do as APIView does, but let `run` call the handler: it owns the transaction."""
        self.args, self.kwargs = args, kwargs
        self.headers = self.default_response_headers
        self.request = drf = self.initialize_request(request, *args, **kwargs)
        try:
            self.initial(drf, *args, **kwargs)
            name = (drf.method or "").lower()
            handler = getattr(self, name, None) if name in self.http_method_names else None
            if handler is None:
                self.http_method_not_allowed(drf, *args, **kwargs)
            with confined(lambda: self.project.pk):
                response = self.run(handler, drf, *args, **kwargs)  # type: ignore[arg-type]
        except Exception as exc:
            response = self.handle_exception(exc)
        self.response = self.finalize_response(drf, response, *args, **kwargs)  # type: ignore[arg-type]
        for name, value in self.rate_headers.items():
            self.response.headers.setdefault(name, value)
        return self.response

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Name the methods; the schema at /api/schema says the rest."""
        return Response(status=204)

    def _check_query(self, request: Request) -> None:
        known = self.get_allowed_query_params(request)
        for pair in request.META.get("QUERY_STRING", "").encode("latin-1").split(b"&"):  # as WSGI has bytes
            try:
                unquote_to_bytes(pair).decode()
            except UnicodeDecodeError:
                name, fault = unquote(pair.partition(b"=")[0].decode("latin-1")), "Write this in UTF-8."
                raise Refusal(ErrorCode.INVALID_QUERY, f"{name}: {fault}", fields={name: [fault]}) from None
        for name, values in request.query_params.lists():
            if name not in known:
                fault = "Leave this parameter out: it is not known here."
            elif len(values) > 1:
                fault = "Send this parameter once."
            elif "\x00" in values[0]:
                fault = "Leave out the character U+0000."
            else:
                continue
            raise Refusal(ErrorCode.INVALID_QUERY, f"{name}: {fault}", fields={name: [fault]})

    def get_allowed_query_params(self, request: Request) -> frozenset[str]:
        """Return the parameters this request may carry."""
        if request.method not in SAFE_METHODS:
            return frozenset()
        paging = LimitOffset.query_params if self.pagination_class else ()
        return self.allowed_query_params.union(paging)


class ApiViewSet(ViewSetMixin, ApiView):
    """An ApiView with actions (`list`, `retrieve`, `approve`, …); `required_scopes` may name them."""


def _has_body(request: Request) -> bool:
    return isinstance(request, BodyRequest) and request.has_body
