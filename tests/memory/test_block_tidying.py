"""A block is tidied by leaving out what repeats and what a newer line replaces; a person decides."""

import pytest

from memory.blocks.decisions import decide_block_revision
from memory.blocks.edits import Edit, NewBlock, append_to_block, create_block
from memory.blocks.models import Block, BlockRevision
from memory.blocks.reading import read_block
from memory.blocks.tidying import propose_tidied, tidy
from memory.projects.actors import Actor
from memory.projects.models import Project

SLEEP = Actor.policy("sleep")
UNTIDY = "Seat: 12A by the window\nPays with a company card.\n- Pays with a company card.\nSeat: 30C on the aisle\n"
TIDY = "Pays with a company card.\nSeat: 30C on the aisle\n"


def make_block(project: Project, value: str = UNTIDY, **options: object) -> Block:
    new = NewBlock(label="human", value=value, **options)  # type: ignore[arg-type]
    return create_block(project, new, by=Actor(label="agent:helper"))


def decide(revision: BlockRevision, decision: str) -> None:
    by = Actor.policy("test")
    decide_block_revision(revision, by=by, decision=decision, content_sha256=revision.content_sha256)


def test_repeated_and_replaced_lines_are_left_out() -> None:
    tidied = tidy(UNTIDY)

    assert tidied.value == TIDY
    assert tidied.repeated == ("- Pays with a company card.",)
    assert tidied.replaced == ("Seat: 12A by the window",)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Ana:\nSeat: 12A by the window\nBen:\nSeat: 30C on the aisle",  # about two people
        "# Ana\nPays with a company card.\n# Ben\nPays with a company card.",
        "Airport: Hamburg\nAirport: Bremen\nAirport: Kiel",  # a list
        "Note: calls at night\nNote: writes in French",
        "- none\n- none",
        "https://example.org/a\nhttps://example.org/b",
    ],
)
def test_what_is_said_once_stays(value: str) -> None:
    assert tidy(value).value == value


@pytest.mark.django_db
def test_tidied_value_is_in_effect_once_a_person_approves_it(project: Project) -> None:
    block = make_block(project)

    proposed = propose_tidied(block, by=SLEEP)

    assert proposed is not None
    assert (read_block(block).value, proposed.status, proposed.created_by) == (UNTIDY, "proposed", "policy:sleep")
    decide(proposed, "approve")
    assert read_block(block).value == TIDY


@pytest.mark.django_db
def test_same_value_is_proposed_once(project: Project) -> None:
    block = make_block(project)
    proposed = propose_tidied(block, by=SLEEP)
    assert proposed is not None

    assert propose_tidied(block, by=SLEEP) is None
    decide(proposed, "reject")
    assert propose_tidied(block, by=SLEEP) is None
    append_to_block(block, text="Seat: 1A in front", edit=Edit(by=SLEEP))
    assert propose_tidied(block, by=SLEEP) is not None


@pytest.mark.django_db
def test_block_that_only_people_write_is_left_alone(project: Project) -> None:
    assert propose_tidied(make_block(project, read_only=True), by=SLEEP) is None
