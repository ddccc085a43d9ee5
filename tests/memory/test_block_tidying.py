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
    assert tidied.replaced == (("Seat: 12A by the window", "Seat: 30C on the aisle"),)
    assert tidied.reason == (
        "“Pays with a company card.” is said twice. “Seat: 12A by the window” is replaced by “Seat: 30C on the aisle”."
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Seat: 12A", "Seat: 30C"),
        ("- Status: gold", "- Status: silver"),
        ("Preferred language = de", "Preferred language = en"),
        ("Home airport: HAM", "Home airport: BRE"),
        ("Budget: 200 EUR", "Budget: 350 EUR"),
        ("Python version: 3.11", "Python version: 3.12"),
        ("Email: ana@example.org", "Email: ana@example.com"),
        ("User's age: 41", "User's age: 42"),
        ("Deployment URL: https://a.example", "Deployment URL: https://b.example"),
        ("Current goal: finish the thesis", "Current goal: publish the thesis"),
    ],
)
def test_value_of_which_there_is_one_at_a_time_is_replaced(old: str, new: str) -> None:
    assert tidy(f"{old}\nLikes tea\n{new}").replaced == ((old, new),)


@pytest.mark.parametrize(
    "value",
    [
        "Allergy: nuts\nAllergy: penicillin",
        "Meeting: Mon 9:00 with Ana\nMeeting: Tue 9:00 with Ben",
        "Seat: 12A (Ana)\nSeat: 14C (Ben)",
        "Seat: 12A for Ana\nSeat: 14C",
        "Seat: 12A\nSeat: 14C Ben",
        "Likes: tea\nLikes: coffee",
        "Dislikes: olives\nDislikes: capers",
        "Child: Mia\nChild: Tom",
        "Pet: a dog called Rex\nPet: a cat",
        "Phone: 0151 1 (work)\nPhone: 0170 2 (private)",
        "Phone: work 0151 1\nPhone: private 0170 2",
        "Address: 1 Elm Street, Boston\nAddress: 2 Oak Street, Boston",
        "Order: A1 delayed\nOrder: B2 shipped",
        "Ticket: #12\nTicket: #14",
        "Language: German and English\nLanguage: French",
        "Name: Ana Lima\nName: Ben Roth",
        "Project: Apollo\nProject: Hermes",
        "Deadline: Friday for the draft\nDeadline: Monday for the final text",
        "Medication: aspirin\nMedication: ibuprofen",
        "Prefers: short answers\nPrefers: bullet points",
        "Rule: never push to main\nRule: run the tests",
        "Host: db-1 if primary\nHost: db-2 if replica",
        "Port: 8000 for web\nPort: 5432 for the database",
        "Price: 20 EUR per month, or 200 per year\nPrice: 5 EUR",
        "Location: Berlin in summer\nLocation: Lisbon in winter",
        "Contact: ana@example.org\nContact: ben@example.org",
        "TODO: call the bank\nTODO: book the train",
        "Birthday: 3 May (Mia)\nBirthday: 9 June (Tom)",
    ],
)
def test_values_that_may_hold_together_stay(value: str) -> None:
    assert tidy(value).replaced == ()


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
