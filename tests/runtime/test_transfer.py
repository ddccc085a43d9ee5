"""An import finds agents and tools that are not what was approved."""

import pytest

from runtime.definitions.storage import propose_tool
from runtime.transfer import find_changed_revisions
from tests.factories import make_project
from tests.runtime.changing import refund_order
from tests.runtime.rows import store_agent
from tests.runtime.running import BY, make_agent

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("temperature", [None, 0.5, 1, 1.0])
def test_revisions_that_the_product_wrote_have_their_hash(temperature: float | None) -> None:
    project = make_project()
    make_agent(project=project, temperature=temperature)
    propose_tool(project, refund_order(), by=BY)

    assert list(find_changed_revisions(project)) == []


def test_revisions_with_another_hash_are_found() -> None:
    project = make_project()
    store_agent(project, "words")

    changed = list(find_changed_revisions(project))

    assert sorted(table for table, _, _ in changed) == ["agents_agentrevision"] * 2 + ["agents_toolrevision"] * 2
