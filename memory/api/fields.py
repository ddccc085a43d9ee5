"""Fields that take JSON at its word: a number is not a text, `"yes"` is not true, and unknown members are refused."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

MAX_TASK_CHARS = 60_000
MAX_NAME_CHARS = 200
MAX_TAGS, MAX_TAG_CHARS = 50, 100


class StrictSerializer(serializers.Serializer[Any]):
    """An object whose every member is known."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if isinstance(data, Mapping):
            unknown = [str(name) for name in data if name not in self.fields]
            if unknown:
                known = ", ".join(name for name, field in self.fields.items() if not field.read_only)
                message = f"Leave this member out: it is not known here. Known are {known}."
                raise serializers.ValidationError({name: [message] for name in unknown})
        values: dict[str, Any] = super().to_internal_value(data)
        return values


class Text(serializers.CharField):
    """A text, kept as it is sent."""

    default_error_messages = {"invalid": "Send a text."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False} | options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if isinstance(data, str) and data and not data.strip() and not self.allow_blank:
            self.fail("blank")
        return super().run_validation(data)


class OptionalText(Text):
    """A text that may be left out or empty."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"required": False, "allow_blank": True} | options)


class Name(OptionalText):
    """A short text that is searched by: an id, a family, an agent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_length": MAX_NAME_CHARS} | options)


class Number(serializers.FloatField):
    """A JSON number."""

    default_error_messages = {"invalid": "Send a number."}

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return float(data)


class Whole(serializers.IntegerField):
    """A whole JSON number."""

    default_error_messages = {"invalid": "Send a whole number."}

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float) or data != int(data):
            self.fail("invalid")
        return int(data)


class Money(serializers.DecimalField):
    """An amount in US dollars, as a JSON number."""

    default_error_messages = {"invalid": "Send a number."}

    def __init__(self, **options: Any) -> None:
        super().__init__(
            max_digits=14, decimal_places=6, coerce_to_string=False, min_value=0, normalize_output=True, **options
        )

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        # Costs computed in binary have digits nobody meant; a millionth of a dollar is as fine as we keep.
        return super().to_internal_value(f"{data:.6f}")

    def to_representation(self, value: Any) -> Any:
        return None if value is None else float(value)


class Flag(serializers.BooleanField):
    """true or false."""

    default_error_messages = {"invalid": "Send true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class Choice(serializers.ChoiceField):
    """One of a few words."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=type(data).__name__)
        return super().to_internal_value(data)


class Id(serializers.UUIDField):
    """An id as this API writes it."""

    default_error_messages = {"invalid": "Send an id as this API returned it."}

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            self.fail("invalid", value=data)
        return super().to_internal_value(data)


class Texts(serializers.ListField):
    """A list of texts."""

    def __init__(self, *, max_text_chars: int = 8_000, **options: Any) -> None:
        child = Text(max_length=max_text_chars)
        super().__init__(child=child, **{"required": False, "max_length": 200} | options)


class Tags(Texts):
    """A list of short words to filter by."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_text_chars=MAX_TAG_CHARS, **{"max_length": MAX_TAGS} | options)


@extend_schema_field({"type": "object", "additionalProperties": True})
class JsonObject(serializers.JSONField):
    """An object with members of the client's own choice."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError("Send an object.")
        return data
