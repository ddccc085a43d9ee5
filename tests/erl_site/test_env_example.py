"""Every setting is shown in .env.example and in the documentation, with the default that settings.py has."""

import pytest
from environ import Env

from tests.erl_site.env_example import Read, examples, page_table, reads, table

CASTS = {"bool": bool, "int": int, "float": float, "str": str, "list": list}


def test_env_example_names_exactly_the_variables_settings_read() -> None:
    shown = [example.name for example in examples()]

    assert sorted(shown) == sorted({read.name for read in reads()})
    assert len(shown) > 20


@pytest.mark.parametrize("read", [read for read in reads() if read.default is not None], ids=lambda read: read.name)
def test_env_example_shows_the_default_of_settings(read: Read) -> None:
    shown = {example.name: example.default for example in examples()}[read.name]

    parsed = Env.parse_value(shown, CASTS[read.method]) if shown else type(read.default)()

    assert parsed == read.default


def test_every_variable_is_explained() -> None:
    assert [example.name for example in examples() if not example.comment] == []


def test_documentation_has_the_same_table() -> None:
    assert page_table() == table(), "Run: uv run python -m tests.erl_site.env_example"
