"""The vendors' own packages as judges of the requests that are sent to them."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError


class Judge:
    """Keeps what the official types say is wrong with requests. `extra` are members that a vendor adds to a format."""

    def __init__(self, extra: frozenset[str]) -> None:
        self.faults: list[str] = []
        self._extra = extra

    def openai_chat(self, body: dict[str, Any]) -> None:
        from openai.types.chat.completion_create_params import CompletionCreateParams

        self._look(CompletionCreateParams, body)

    def openai_responses(self, body: dict[str, Any]) -> None:
        from openai.types.responses.response_create_params import ResponseCreateParams

        self._look(ResponseCreateParams, body)

    def anthropic(self, body: dict[str, Any], *, is_beta: bool) -> None:
        from anthropic.types import MessageCreateParams
        from anthropic.types.beta import MessageCreateParams as BetaParams

        self._look(BetaParams if is_beta else MessageCreateParams, body)

    def google(self, body: dict[str, Any]) -> None:
        from google.genai import types

        forms: dict[str, Any] = {
            "contents": list[types.Content],
            "systemInstruction": types.Content,
            "tools": list[types.Tool],
            "toolConfig": types.ToolConfig,
            "generationConfig": types.GenerationConfig,
        }
        self._refuse_unknown(body, forms)
        for name, form in forms.items():
            self._validate(form, body[name]) if name in body else None

    def model(self, form: Any, body: dict[str, Any]) -> None:
        """Let a pydantic model read a request."""
        self._validate(form, body)

    def _look(self, form: Any, body: dict[str, Any]) -> None:
        forms = get_args(form) or (form,)
        self._refuse_unknown(body, {name for each in forms for name in _members(each)} | self._extra)
        self._validate(form, body)

    def _refuse_unknown(self, body: dict[str, Any], names: Iterable[str]) -> None:
        self.faults += [f"{name} is no member of the request" for name in sorted({*body} - {*names})]

    def _validate(self, form: Any, value: Any) -> None:
        try:
            _exhaust(_adapter(form).validate_python(value))
        except ValidationError as error:
            self.faults.append(str(error)[:2_000])


@lru_cache
def _members(form: Any) -> frozenset[str]:
    return frozenset(name for base in form.__mro__ for name in getattr(base, "__annotations__", {}))


@lru_cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def _exhaust(value: Any) -> None:
    """Read what is validated only when it is read: the SDKs' types take any iterable of messages."""
    if isinstance(value, str | bytes):
        return
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, Iterable) else ()
    for part in parts:
        _exhaust(part)
