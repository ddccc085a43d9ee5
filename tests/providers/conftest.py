"""One server for all imitations, and a laboratory for each of them, plain and streamed."""

from collections.abc import Iterator

import pytest

from runtime.tools.catalogue import core_tools
from tests.providers.catalogue import IMITATIONS
from tests.providers.imitation import Imitation
from tests.providers.laboratory import Imitations, Laboratory, make_tool, open_laboratory


@pytest.fixture(scope="session")
def imitations() -> Iterator[Imitations]:
    imitations = Imitations()
    with imitations.server:
        yield imitations


@pytest.fixture(params=IMITATIONS, ids=lambda imitation: imitation.name)
def imitation(request: pytest.FixtureRequest) -> Imitation:
    made: Imitation = request.param()
    return made


@pytest.fixture(params=[False, True], ids=["plain", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def lab(
    imitations: Imitations, imitation: Imitation, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Laboratory]:
    """A laboratory in which no request may break a rule of its provider or be none for the vendor's own types."""
    monkeypatch.setitem(core_tools(), "look", make_tool())
    with open_laboratory(imitations, imitation, streamed=streamed) as lab:
        yield lab
    assert imitation.broken_rules == []
