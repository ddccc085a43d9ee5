"""Whom to look for: a user id, texts as they were before redaction, or words; and which rows hold them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

from django.contrib.postgres.fields import ArrayField
from django.db.models import BinaryField, BooleanField, Exists, Field, Func, JSONField, Model, Q, TextField
from django.db.models.expressions import F

from memory.errors import InvalidInput
from memory.projects.models import Project
from memory.redaction import find_placeholders, redact_text
from memory.stored_text import TextLifetime

MIN_TEXT_CHARS = 3  # shorter ones would be found everywhere

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
NOWHERE = Q(Exists(Project.objects.none()))  # no row has it

Forms = tuple[str, ...]  # in which one text may be stored


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A person, by the client's own id, and by texts of which each is a reason by itself.

    A text may have several parts, all of which a row has to hold; a part has the forms in which it may be stored.
    """

    user_id: str = ""
    texts: tuple[tuple[Forms, ...], ...] = ()

    def is_in(self, text: str) -> bool:
        """Tell whether a text holds one of the texts."""
        lowered = text.lower()
        return any(all(any(form in lowered for form in forms) for forms in parts) for parts in self.texts)

    def in_columns(self, model: type[Model], *names: str) -> Q:
        """Return the condition that a row holds one of the texts in these columns, or else in all of people's text."""
        fields = [field for field in model._meta.local_concrete_fields if _is_wanted(field, names)]
        found = NOWHERE
        for parts in self.texts:
            every = Q()
            for forms in parts:
                some = NOWHERE
                for field in fields:
                    some |= Q(_Holds(field, forms))
                every &= some
            found |= every
        return found

    def of_user(self) -> Q:
        """Return the condition that a row is of the user."""
        return Q(user_id=self.user_id) if self.user_id else NOWHERE


def read_person(*, user_id: str = "", texts: tuple[str, ...] = (), words: str = "") -> Person:
    """Return whom to look for.

    Args:
        user_id: the client's own id, as the client sends it.
        texts: such as a name, an address or a number, as they were before redaction.
        words: all of which a row has to hold, anywhere.

    Raises:
        InvalidInput: nothing is named, or a text is so short that it would be found everywhere.
    """
    faults = {}
    for number, text in enumerate(texts):
        if len(text.strip()) < MIN_TEXT_CHARS:
            faults[f"/texts/{number}"] = [f"Give at least {MIN_TEXT_CHARS} characters."]
    if words and not any(len(word) >= MIN_TEXT_CHARS for word in words.split()):
        faults["/search"] = [f"Give at least one word of {MIN_TEXT_CHARS} characters."]
    named = {"/user_id": user_id, "/search": words} | {f"/texts/{number}": text for number, text in enumerate(texts)}
    for place, text in named.items():
        if _UNSTORABLE.search(text):  # from a terminal in another encoding
            faults[place] = [
                "No row can hold this, since it has bytes that are not UTF-8, or U+0000. Give it in UTF-8."
            ]
    if not (user_id or texts or words):
        faults[""] = ["Name a user_id, texts, or words to search for."]
    if faults:
        raise InvalidInput(faults)
    alternatives: list[tuple[Forms, ...]] = [(_find_forms(text.strip()),) for text in texts]
    if words:
        alternatives.append(tuple(_find_forms(word) for word in words.split()))
    return Person(user_id=redact_text(user_id), texts=tuple(alternatives))


def _find_forms(text: str) -> Forms:
    """Return the forms in which a text may be stored, in small letters: as it is, without its secrets, as a secret."""
    forms = []
    # An é may be one character or two, and is stored as it was sent.
    for spelled in dict.fromkeys((text, normalize("NFC", text), normalize("NFD", text))):
        cases = (spelled, spelled.lower(), spelled.upper(), spelled.title())
        forms += [spelled.lower(), redact_text(spelled).lower()]
        forms += [end for case in cases for end in find_placeholders(case)]
    return tuple(dict.fromkeys(forms))


def _is_wanted(field: Any, names: tuple[str, ...]) -> bool:
    return field.name in names if names else isinstance(field, TextLifetime)


class _Holds(Func):
    """Whether a column holds one of these texts, in whatever case."""

    output_field = BooleanField()

    def __init__(self, field: "Field[Any, Any]", forms: Forms) -> None:
        super().__init__(F(field.name))
        self._field, self._forms = field, forms

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        column, _ = compiler.compile(self.source_expressions[0])
        values = list(self._forms)
        match self._field:
            case BinaryField():
                test = f"position(convert_to(%s, 'UTF8') in {column}) > 0"
            case JSONField():
                test = f"strpos(lower({column}::text), %s) > 0"
                values = [json.dumps(form, ensure_ascii=False)[1:-1] for form in values]
            case ArrayField():
                test = f"strpos(lower(array_to_string({column}, ' ')), %s) > 0"
            case _:
                test = f"strpos(lower({column}::text), %s) > 0"
        return f"({' OR '.join([test] * len(values))})", values


def text_columns(model: type[Model]) -> Iterator[str]:
    """Yield the columns of a model that can hold text of any origin."""
    for field in model._meta.local_concrete_fields:
        base = field.base_field if isinstance(field, ArrayField) else field
        if isinstance(base, TextField | JSONField | BinaryField) and not field.choices:
            yield field.name
