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
        "1 line repeats another one. “Seat: 12A by the window” is replaced by “Seat: 30C on the aisle”."
    )


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


KEPT_PAIRS = """
Allergy: nuts | Allergy: penicillin
Allergies: peanuts | Allergies: shellfish
Meeting: Mon 9:00 with Ana | Meeting: Mon 9:00 with Ben
Meeting: Monday | Meeting: Tuesday
Seat: 12A (Ana) | Seat: 30C (Ben)
Seat: 12A (Ana) | Seat: 30C
Seat: 12A | Seat: 30C for Ben
Seat: 12A on LH400 | Seat: 30C on LH401
Seat: 12A on the outbound flight | Seat: 30C on the return flight
Seat: 12A on Monday | Seat: 30C on Tuesday
Seat: Ana 12A | Seat: Ben 30C
Seat: 12A/12B | Seat: 30C
Seat(s): 12A | Seat(s): 12B
Ana's seat: 12A | Ben's seat: 30C
Contact: ana@example.org | Contact: ben@example.org
Phone: 832-330-6880 | Phone: 832-330-6881
Email: work@example.org | Email: home@example.org
Likes: dogs | Likes: cats
Favorite food: sushi | Favorite food: pizza
Hobby: climbing | Hobby: chess
Son: Garrett | Son: Noah
Pet: Miso the cat | Pet: Rex the dog
Language: English | Language: French
Nationality: Italian | Nationality: Argentine
Medication: ibuprofen | Medication: aspirin
Goal: run a marathon | Goal: learn Spanish
Project: ERL | Project: Letta
Deadline: 1 March | Deadline: 1 April
Deadline: essay on Monday | Deadline: exam on Friday
Address: 1 Main Street | Address: 2 Side Street
Order: 1041 | Order: 1042
Status: checkout works | Status: search is broken
Profession: data engineer | Profession: teacher
Name: Ana | Name: Ben
Decision: use uv | Decision: use ruff
Error: timeout in payments | Error: timeout in search
Friend: Tim | Friend: Tom
Budget: 500 for flights | Budget: 800 for hotels
Budget: 500 in May | Budget: 800 in June
Age: 4 (Mia) | Age: 7 (Leo)
Age: 34 | Age: Leo is 7
Weight: 70 kg in 2024 | Weight: 72 kg in 2025
Time zone: CET in winter | Time zone: CEST in summer
Default branch: main for api | Default branch: trunk for web
Package manager: uv for Python | Package manager: pnpm for the site
Employer: Acme, until 2020 | Employer: Globex, since 2021
Theme: dark at night | Theme: light by day
Currency: EUR in Germany | Currency: USD in Texas
Todo: book the hotel | Todo: call Ana
2024-04-26: User loves dogs | 2024-04-26: User loves cats
"""
REPLACED_PAIRS = """
Seat: 12A | Seat: 30C
- Seat: 12A | - Seat: 30C
Ana's seat: 12A | Ana's seat: 30C
Age: 34 | Age: 35
Timezone: CET | Timezone: JST
Marital status: single | Marital status: married
Package manager: pip | Package manager: uv
Current mood: tired | Current mood: cheerful
Weight: 70 kg | Weight: 72 kg
Theme: light | Theme: dark
"""


def pairs(text: str) -> list[list[str]]:
    return [line.split(" | ") for line in text.strip().splitlines()]


@pytest.mark.parametrize(("older", "newer"), pairs(KEPT_PAIRS))
def test_line_that_may_hold_beside_a_newer_one_stays(older: str, newer: str) -> None:
    assert tidy(f"{older}\n{newer}").replaced == ()


@pytest.mark.parametrize(("older", "newer"), pairs(REPLACED_PAIRS))
def test_line_of_a_key_with_one_value_is_replaced(older: str, newer: str) -> None:
    assert tidy(f"{older}\nPays with a company card.\n{newer}").replaced == ((older, newer),)


@pytest.mark.parametrize(
    "value",
    [
        "Name: Ana\nSeat: 12A\nName: Ben\nSeat: 30C",
        "Seat: 12A\nPassenger: Ben\nSeat: 30C",
        "Ana\nSeat: 12A\nBen\nSeat: 30C",
        "- Ana\n  - Seat: 12A\n- Ben\n  - Seat: 30C",
        "Ana is vegan and flies often.\nSeat: 12A\nBen is vegan and flies often.\nSeat: 30C",
        "Seat: 12A\n\nSeat: 30C",
        "Seat: 12A\n  Seat: 30C",
    ],
)
def test_lines_that_may_be_about_two_subjects_stay(value: str) -> None:
    assert tidy(value).replaced == ()


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
