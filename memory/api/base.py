"""The view every endpoint of the API is made of."""

from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import unquote, unquote_to_bytes
from uuid import UUID

import structlog
from django.db.models import QuerySet
from django.http import HttpRequest
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import NotAcceptable
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.authentication import ApiKeyAuthentication, HasScope
from memory.api.errors import ErrorCode, Refusal
from memory.api.exception_handler import exception_handler
from memory.api.idempotency import SAFE_METHODS, IdempotentMixin
from memory.api.input import has_body, read_body
from memory.api.pagination import LimitOffset
from memory.api.throttling import ScopeThrottle
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project
from memory.projects.tenancy import confined

BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})


class ApiView(IdempotentMixin, GenericAPIView[Any]):
    """A view of the API: key, scope, strict body, known query parameters, one transaction, one error shape.

    Subclasses say:

    - `required_scopes`: the scope of each method, for example `{"GET": ApiKey.Scope.HEURISTICS_READ}`;
    - `further_scopes`: those that every method needs besides it;
    - on lists `pagination_class = LimitOffset` and `filterset_class`, whose parameters are known then;
    - `allowed_query_params`: other parameters of GET;
    - `body_optional = True` where POST needs no body;
    - handlers (`get`, `post`, …), which read `self.body`, start every queryset from `self.project` and pass
      `by=self.actor` on. After making something they set `response.resource_id`, so that its erasure also empties the
      stored answer;
    - `after_commit(request, response)` where the sent answer may wait for something, with no transaction open.
    """

    authentication_classes = [ApiKeyAuthentication]
    permission_classes = [HasScope]
    throttle_classes = [ScopeThrottle]
    parser_classes = []  # the body is read by memory.api.input
    pagination_class: Any = None
    filter_backends = [DjangoFilterBackend]
    filterset_class: Any = None
    required_scopes: ClassVar[dict[str, str]] = {}
    further_scopes: ClassVar[tuple[str, ...]] = ()
    allowed_query_params: ClassVar[frozenset[str]] = frozenset()
    body_optional = False

    scope: str | None
    api_key: ApiKey
    project: Project  # the only one that this request may see
    actor: Actor
    request_id: str
    body: dict[str, Any]  # of POST, PUT, PATCH and DELETE
    rate_headers: dict[str, str]

    def get_exception_handler(self) -> Any:
        return exception_handler

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        try:
            return super().perform_content_negotiation(request, force)
        except (ValueError, LookupError) as error:  # an Accept header that cannot be read
            raise NotAcceptable from error

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse what may not come in, before anything of the body is read."""
        # Before `super()`, whose permission and throttle checks read it.
        self.scope = self.required_scopes.get("GET" if request.method == "HEAD" else request.method or "")
        super().initial(request, *args, **kwargs)
        self.api_key = request.auth  # type: ignore[assignment]  # HasScope has seen to it
        self.project = self.api_key.project
        self.actor = Actor.key(self.api_key)
        self.request_id = structlog.contextvars.get_contextvars().get("request_id", "")
        if request.method in self.allowed_methods:  # else it is a 405, whatever the query and the body
            self._check_query(request)
            if request.method in BODY_METHODS and not self.body_optional and not has_body(request):
                raise Refusal(ErrorCode.BODY_REQUIRED, "Send a JSON object in the body.")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Do as APIView does, but let `run` call the handler: it owns the transaction."""
        self.args, self.kwargs = args, kwargs
        self.headers = self.default_response_headers
        self.rate_headers = {}
        self.request = drf = self.initialize_request(request, *args, **kwargs)
        try:
            self.initial(drf, *args, **kwargs)
            # From here on as APIView, so that a method that the view lacks is a 405 of the usual form.
            name = (drf.method or "").lower()
            handler = getattr(self, name, None) if name in self.http_method_names else None
            if handler is None:
                self.http_method_not_allowed(drf, *args, **kwargs)
            if drf.method not in SAFE_METHODS:
                self.body = self.read(request)  # before a transaction opens: its sender may be slow
            with confined(self.project.pk):
                response = self.run(handler, drf, *args, **kwargs)  # type: ignore[arg-type]
        except Exception as exc:
            response = self.handle_exception(exc)
        self.response = self.finalize_response(drf, response, *args, **kwargs)  # type: ignore[arg-type]
        for name, value in self.rate_headers.items():
            # An error answer of the throttle has these headers already.
            self.response.headers.setdefault(name, value)
        return self.response

    def read(self, request: HttpRequest) -> dict[str, Any]:
        """Return the body. A view that takes another form than JSON overrides this."""
        return read_body(request)

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Name the methods; the schema at /api/schema says the rest."""
        return Response(status=204)

    def answer_rows(self, rows: QuerySet[Any], describe: Callable[[Any], Any]) -> Response:
        """Answer with the page of the rows that the query asks for, after its filters, each as it is described."""
        page = self.paginate_queryset(self.filter_queryset(rows)) or ()
        return self.get_paginated_response([describe(row) for row in page])

    def get_named(self, model: Any, id: UUID | None, member: str) -> Any:
        """Return the row of this project that a member of the body names, None where it names none, or answer 404."""
        if id is None:
            return None
        row = model.objects.filter(project=self.project, pk=id).first()
        if row is None:
            detail = f"No {model._meta.verbose_name} {id} exists in this project. Check the {member}."
            raise Refusal(ErrorCode.NOT_FOUND, detail, fields={f"/{member}": [detail]})
        return row

    def _check_query(self, request: Request) -> None:
        for pair in request.META.get("QUERY_STRING", "").encode("latin-1").split(b"&"):  # as WSGI has bytes
            try:
                unquote_to_bytes(pair).decode()
            except UnicodeDecodeError:
                name, fault = unquote(pair.partition(b"=")[0].decode("latin-1")), "Write this in UTF-8."
                raise Refusal(ErrorCode.INVALID_QUERY, f"{name}: {fault}", fields={name: [fault]}) from None
        allowed: set[str] = set()
        if request.method in SAFE_METHODS:
            paging = LimitOffset.query_params if self.pagination_class else ()
            filters = self.filterset_class.base_filters if self.filterset_class else ()
            allowed = {*self.allowed_query_params, *paging, *filters}
        for name, values in request.query_params.lists():
            if name not in allowed:
                fault = "This parameter is unknown. Leave it out."
            elif len(values) > 1:
                fault = "Send this parameter once."
            elif "\x00" in values[0]:
                fault = "Leave out the character U+0000."
            else:
                continue
            raise Refusal(ErrorCode.INVALID_QUERY, f"{name}: {fault}", fields={name: [fault]})
