"""Blocks: edits, limits, policies, history, undo, decisions."""

import uuid

import pytest
from django.db import IntegrityError, connection, transaction

from memory.blocks.decisions import decide_block_revision, propose_overlays
from memory.blocks.edits import (
    Edit,
    NewBlock,
    append_to_block,
    change_block,
    create_block,
    patch_block,
    replace_in_block,
    set_block,
    undo_block,
)
from memory.blocks.models import Block, BlockRevision
from memory.blocks.reading import read_block
from memory.errors import (
    AlreadyDecided,
    BlockFull,
    ChangedMeanwhile,
    MemoryAppError,
    NoSingleMatch,
    NotAllowed,
    NothingChanged,
    PatchDoesNotApply,
    SecondReviewerNeeded,
    UnusableText,
)
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from tests.factories import make_api_key, make_member, make_project, require_two

pytestmark = pytest.mark.django_db
AGENT = Actor(label="agent:helper")
EDIT = Edit(by=AGENT)
BY_PERSON = Edit(by=AGENT, by_agent=False)


def make_block(project: Project, value: str = "", **options: object) -> Block:
    return create_block(project, NewBlock(label="human", value=value, **options), by=AGENT)  # type: ignore[arg-type]


def say(block: Block, conversation: uuid.UUID | None = None) -> str:
    return read_block(block, conversation).value


def refuse(error: type[MemoryAppError], block: Block, **edit: str) -> str:
    """Replace in a block, and return why it was refused."""
    with pytest.raises(error) as refused:
        replace_in_block(block, edit=EDIT, **edit)
    return str(refused.value)


def test_append_stands_on_a_line_of_its_own(project: Project) -> None:
    block = make_block(project)

    append_to_block(block, text="Name: Ana", edit=EDIT)
    append_to_block(block, text="Likes tea", edit=EDIT)

    assert say(block) == "Name: Ana\nLikes tea"


@pytest.mark.parametrize(("old", "found"), [("Bob", "does not occur"), ("a", "occurs 3 times"), ("", "does not occur")])
def test_replace_needs_exactly_one_match(project: Project, old: str, found: str) -> None:
    block = make_block(project, "Ana and Anna")

    assert found in refuse(NoSingleMatch, block, old=old, new="x")
    assert say(block) == "Ana and Anna"


def test_replace_counts_matches_that_overlap(project: Project) -> None:
    block = make_block(project, "aaa")

    assert "2 times" in refuse(NoSingleMatch, block, old="aa", new="b")


PATCH = "--- a\n+++ b\n@@ -{line},2 +{line},2 @@\n {kept}\n-{old}\n+tea with milk\n"


@pytest.mark.parametrize("line", [1, 2, 40])
def test_patch_is_applied_where_its_lines_are(project: Project, line: int) -> None:
    block = make_block(project, "Name: Ana\nDrinks\ntea\n")

    patch_block(block, patch=PATCH.format(line=line, kept="Drinks", old="tea"), edit=EDIT)

    assert say(block) == "Name: Ana\nDrinks\ntea with milk\n"


def test_patch_with_repeated_lines_goes_by_its_line_number(project: Project) -> None:
    block = make_block(project, "a\nb\na\nb")

    patch_block(block, patch="@@ -3,2 +3,1 @@\n a\n-b\n", edit=EDIT)

    assert say(block) == "a\nb\na"


@pytest.mark.parametrize(
    "patch",
    ["no diff", "", "@@ -1 +1 @@\n-coffee\n+tea", "@@ -9,2 +9,2 @@\n a\n-b\n+c", "@@ -1 +1 @@\n*a"],
    ids=["text", "empty", "other lines", "two places", "no sign"],
)
def test_patch_that_does_not_apply_is_refused(project: Project, patch: str) -> None:
    block = make_block(project, "a\nb\na\nb")

    with pytest.raises(PatchDoesNotApply):
        patch_block(block, patch=patch, edit=EDIT)

    assert say(block) == "a\nb\na\nb"


def test_patch_adds_to_an_empty_block(project: Project) -> None:
    block = make_block(project)

    patch_block(block, patch="@@ -0,0 +1,2 @@\n+Name: Ana\n+Likes tea", edit=EDIT)

    assert say(block) == "Name: Ana\nLikes tea"


def test_limit_counts_characters_as_the_database_does(project: Project) -> None:
    assert say(make_block(project, "🌍ä" * 5, char_limit=10)) == "🌍ä" * 5


def test_database_refuses_a_value_over_the_limit(project: Project) -> None:
    block = make_block(project, char_limit=3)

    with pytest.raises(IntegrityError, match="longer than the limit"), transaction.atomic():
        write_row(block, value="1234")


def test_limit_below_the_value_is_refused(project: Project) -> None:
    block = make_block(project, "12345")

    with pytest.raises(BlockFull):
        change_block(block, edit=BY_PERSON, char_limit=4)
    with pytest.raises(IntegrityError), transaction.atomic():
        Block.objects.filter(pk=block.pk).update(char_limit=4)


@pytest.mark.parametrize(("limit", "value"), [(3, "123"), (8, "12345678")])
def test_limit_and_value_change_together(project: Project, limit: int, value: str) -> None:
    block = make_block(project, "12345", char_limit=5)

    changed = change_block(block, edit=BY_PERSON, value=value, char_limit=limit)

    assert (changed.char_limit, say(block)) == (limit, value)


def test_same_value_makes_no_revision(project: Project) -> None:
    block = make_block(project, "a")

    with pytest.raises(NothingChanged):
        set_block(block, value="a", edit=EDIT)


def test_secrets_are_removed_from_value_and_edit(project: Project) -> None:
    block = make_block(project)

    revision = append_to_block(block, text="The key is sk-proj-Abc123Def456Ghi789Jkl012Mno345", edit=EDIT)

    assert "Abc123" not in revision.value + str(revision.edit)
    assert "REDACTED" in revision.value


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_text_that_cannot_be_stored_is_refused(project: Project, text: str) -> None:
    with pytest.raises(UnusableText):
        append_to_block(make_block(project), text=text, edit=EDIT)


def test_undo_restores_the_bytes(project: Project) -> None:
    value = " \tEnd with spaces  \n\n[REDACTED:email:12345678] ü"
    block = make_block(project, value)
    set_block(block, value="x", edit=EDIT)

    undone = undo_block(block, edit=EDIT)

    assert undone.value == value
    assert undone.content_sha256 == block.revisions.get(number=1).content_sha256


def test_undo_after_undo_goes_further_back(project: Project) -> None:
    block = make_block(project, "1")
    for value in ("2", "3"):
        set_block(block, value=value, edit=EDIT)

    assert [undo_block(block, edit=EDIT).value for _ in range(2)] == ["2", "1"]
    with pytest.raises(NothingChanged):
        undo_block(block, edit=EDIT)
    assert undo_block(block, edit=EDIT, to=3).value == "3"
    assert block.revisions.count() == 6


def test_undo_to_a_revision_never_in_effect_is_refused(project: Project) -> None:
    block = make_block(project, "a", policy="propose")
    set_block(block, value="b", edit=EDIT)

    with pytest.raises(NothingChanged):
        undo_block(block, edit=EDIT, to=2)


def test_overlay_is_seen_in_its_conversation_only(project: Project) -> None:
    block, conversation = make_block(project, "shared", policy="overlay"), uuid.uuid4()
    edit = Edit(by=AGENT, conversation=conversation)

    append_to_block(block, text="mine", edit=edit)
    append_to_block(block, text="again", edit=edit)

    assert say(block, conversation) == "shared\nmine\nagain"
    assert say(block) == say(block, uuid.uuid4()) == "shared"
    assert undo_block(block, edit=edit).value == "shared\nmine"


def test_end_of_conversation_proposes_its_view(project: Project) -> None:
    block, conversation = make_block(project, "shared", policy="overlay"), uuid.uuid4()
    for text in ("one", "two"):
        append_to_block(block, text=text, edit=Edit(by=AGENT, conversation=conversation))

    (proposed,) = propose_overlays(project.pk, conversation=conversation, by=AGENT)

    assert (proposed.status, proposed.value, proposed.base) == ("proposed", "shared\none\ntwo", block.current)
    assert say(block) == "shared"
    assert say(block, conversation) == "shared\none\ntwo"
    assert propose_overlays(project.pk, conversation=conversation, by=AGENT) == []
    decide(proposed)
    assert say(block) == "shared\none\ntwo"


def test_view_that_came_back_to_the_block_proposes_nothing(project: Project) -> None:
    block, conversation = make_block(project, "shared", policy="overlay"), uuid.uuid4()
    append_to_block(block, text="one", edit=Edit(by=AGENT, conversation=conversation))
    undo_block(block, edit=Edit(by=AGENT, conversation=conversation))

    assert propose_overlays(project.pk, conversation=conversation, by=AGENT) == []
    assert not block.revisions.waiting().exists()


def decide(revision: BlockRevision, decision: str = "approve", **more: object) -> BlockRevision:
    by = Actor.policy("test")
    fields = {"content_sha256": revision.content_sha256, "by": by} | more
    return decide_block_revision(revision, decision=decision, **fields)  # type: ignore[arg-type]


def test_proposal_is_in_effect_after_approval_only(project: Project) -> None:
    block = make_block(project, "a", policy="propose")
    revision = append_to_block(block, text="b", edit=Edit(by=AGENT, conversation=uuid.uuid4()))
    assert say(block, revision.conversation_id) == say(block) == "a"

    decide(revision)

    assert say(block) == "a\nb"
    assert Review.objects.get().content_sha256 == revision.content_sha256
    undo = undo_block(block, edit=EDIT)
    assert (undo.status, undo.value, say(block)) == ("proposed", "a", "a\nb")


def test_rejected_proposal_stays_in_the_history(project: Project) -> None:
    block = make_block(project, "a", policy="propose")
    revision = append_to_block(block, text="b", edit=EDIT)

    decide(revision, "reject")

    assert say(block) == "a"
    assert block.revisions.get(number=2).status == "rejected"
    with pytest.raises(AlreadyDecided):
        decide(revision)


def test_approval_of_another_text_is_refused(project: Project) -> None:
    revision = append_to_block(make_block(project, policy="propose"), text="b", edit=EDIT)

    with pytest.raises(ChangedMeanwhile):
        decide(revision, content_sha256="0" * 64)


def test_second_proposal_is_made_again_on_the_first(project: Project) -> None:
    block = make_block(project, "a", policy="propose")
    first, second = (append_to_block(block, text=text, edit=EDIT) for text in ("b", "c"))

    decide(first)

    second.refresh_from_db()
    again = block.revisions.waiting().get()
    assert (second.status, again.value, again.created_by) == ("superseded", "a\nb\nc", "agent:helper")
    decide(again)
    assert say(block) == "a\nb\nc"


def test_stale_proposal_needs_the_revision_it_was_compared_with(project: Project) -> None:
    block = make_block(project, "a", policy="propose")
    first = append_to_block(block, text="b", edit=EDIT)
    second = set_block(block, value="c", edit=EDIT)
    decide(first)

    with pytest.raises(ChangedMeanwhile, match="revision 1 of the block human, which is at revision 2"):
        decide(second)
    decide(second, expected_revision=2)

    assert say(block) == "c"


def test_person_without_the_permission_does_not_decide(project: Project) -> None:
    revision = append_to_block(make_block(project, policy="propose"), text="b", edit=EDIT)
    stranger = make_member("eve", project=make_project(), permissions=["review_block"])
    reader = make_member("rob", project=project, permissions=["view_block"])

    for person in (stranger, reader):
        with pytest.raises(NotAllowed):
            decide(revision, by=Actor.person(person))


def test_second_person_decides_where_two_are_required() -> None:
    project = make_project()
    ana, ben = (make_member(name, project=project, permissions=["review_block"]) for name in ("ana", "ben"))
    require_two(project)
    block = make_block(project, policy="propose")
    revision = append_to_block(block, text="b", edit=Edit(by=Actor.person(ana)))

    with pytest.raises(NotAllowed, match="two reviewers"):
        decide(revision)
    with pytest.raises(SecondReviewerNeeded):
        decide(revision, by=Actor.person(ana))
    decide(revision, by=Actor.person(ben))

    assert say(block) == "b"


# ── What the database refuses ─────────────────────────────────────────────────────────────────────────────────────────
def write_row(block: Block, **overrides: object) -> BlockRevision:
    fields = {
        "project": block.project,
        "block": block,
        "number": 99,
        "value": "x",
        "operation": "set",
        "status": "applied",
        "created_by": "test",
    }
    return BlockRevision.objects.create(**fields | overrides)


@pytest.mark.parametrize("policy", ["overlay", "propose"])
def test_database_lets_nothing_unreviewed_take_effect(project: Project, policy: str) -> None:
    block = make_block(project, policy=policy)

    with pytest.raises(IntegrityError, match="after a review"), transaction.atomic():
        write_row(block)
    waiting = write_row(block, status="proposed")
    with pytest.raises(IntegrityError, match="cannot be in effect"), transaction.atomic():
        Block.objects.filter(pk=block.pk).update(current=waiting)
    with pytest.raises(IntegrityError, match="approve exactly this text"), transaction.atomic():
        BlockRevision.objects.filter(pk=waiting.pk).update(status="approved")
    with pytest.raises(IntegrityError, match="policy of a block"), transaction.atomic():
        Block.objects.filter(pk=block.pk).update(policy="direct")


@pytest.mark.parametrize(
    "change",
    [{"value": "y"}, {"content_sha256": "0" * 64}, {"created_by": "eve"}, {"number": 7}, {"status": "overlay"}],
)
def test_revision_never_changes(project: Project, change: dict[str, object]) -> None:
    block = make_block(project, "a")

    with pytest.raises(IntegrityError), transaction.atomic():
        block.revisions.update(**change)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        block.revisions.all().delete()


@pytest.mark.parametrize(
    "wrong",
    [
        {"label": ""},
        {"label": "<persona>"},
        {"label": "a" * 101},
        {"policy": "other"},
        {"char_limit": 0},
        {"char_limit": 1_000_000},
    ],
)
def test_constraints_of_a_block(project: Project, wrong: dict[str, object]) -> None:
    fields = {"label": "human", "policy": "direct", "char_limit": 5} | wrong

    with pytest.raises(IntegrityError), transaction.atomic():
        Block.objects.create(project=project, **fields)


@pytest.mark.parametrize(
    "wrong", [{"operation": "x"}, {"created_by": ""}, {"status": "overlay"}, {"status": "x"}, {"number": 1}]
)
def test_constraints_of_a_revision(project: Project, wrong: dict[str, object]) -> None:
    block = make_block(project)

    with pytest.raises(IntegrityError), transaction.atomic():
        write_row(block, **wrong)


def test_revision_of_another_block_is_refused(project: Project) -> None:
    block, other = make_block(project), make_block(project)

    write_row(block, base=other.current)
    with pytest.raises(IntegrityError, match="base_id_within"):
        connection.check_constraints()


def test_review_names_the_hash_of_a_waiting_revision(project: Project) -> None:
    block = make_block(project, policy="propose")
    key = make_api_key(project=project).api_key
    assert block.current is not None

    with pytest.raises(IntegrityError, match="hash of its revision"), transaction.atomic():
        Review.objects.create(
            project=project,
            kind="block",
            subject_id=block.pk,
            revision_id=block.current.pk,
            decision="approve",
            content_sha256=block.current.content_sha256,
            reviewer="key:agent",
            reviewer_key=key,
        )
