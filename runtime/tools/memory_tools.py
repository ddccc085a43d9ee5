"""The tools by which an agent keeps its own memory: blocks, which stand in its prompt, and passages, which it searches.

What a block's policy says holds here too: an edit may be in effect at once, in this conversation only, or after review.
"""

from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_date, parse_datetime
from django.utils.timezone import is_naive, make_aware

from memory.blocks.edits import Edit, append_to_block, patch_block, replace_in_block
from memory.blocks.models import Block, BlockRevision
from memory.limits import MAX_FOUND_PASSAGES, MAX_PASSAGE_CHARS, MAX_TAG_CHARS, MAX_TAGS, MAX_TASK_CHARS
from memory.passages.search import PassageQuery, list_passages, search_passages
from memory.passages.storage import NewPassage, insert_passage
from memory.projects.actors import Actor
from memory.redaction import redact
from memory.retrieval.safe_text import clean, clean_text, needs_cleaning
from runtime.errors import ToolError
from runtime.models.effects import Effect
from runtime.tools.catalogue import LoopTool
from runtime.tools.core import object_schema

_SAID = {
    BlockRevision.Status.APPLIED: "Done. Your memory shows it from now on.",
    BlockRevision.Status.OVERLAY: "Done, for this conversation only. A person will decide whether to keep it.",
    BlockRevision.Status.PROPOSED: "Proposed for review. Your memory will show it once a person has approved it.",
}
CLEANED = (
    " Some characters were changed because they are invisible or could be mistaken for the end of a message or of your "
    "memory."
)


REDACTED = " What looked like secrets or personal data was replaced before it was stored: {kinds}."
BLOCK_TOOLS = ("memory_append", "memory_replace", "memory_patch")


def append_block(effect: Effect) -> str:
    """Add a text at the end of a block."""
    text = effect.arguments["text"]
    return _say(append_to_block(_get_block(effect), text=text, edit=_edit(effect)), text)


def replace_block(effect: Effect) -> str:
    """Replace a text in a block."""
    block, sent = _get_block(effect), effect.arguments
    return _say(replace_in_block(block, old=sent["old"], new=sent["new"], edit=_edit(effect)), sent["new"])


def patch(effect: Effect) -> str:
    """Apply a unified diff to a block."""
    sent = effect.arguments["patch"]
    return _say(patch_block(_get_block(effect), patch=sent, edit=_edit(effect)), sent)


def insert_archival(effect: Effect) -> str:
    """Keep a text as a passage of the agent."""
    text = effect.arguments["text"]
    if not text.strip():
        raise ToolError("text is empty.")
    if len(text) > MAX_PASSAGE_CHARS:
        raise ToolError(f"The text has {len(text):,} characters; at most {MAX_PASSAGE_CHARS:,} can be saved at once.")
    tags = effect.arguments.get("tags", [])
    if len(tags) > MAX_TAGS or not all(0 < len(tag.strip()) <= len(tag) <= MAX_TAG_CHARS for tag in tags):
        raise ToolError(f"Use at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARS} characters each.")
    user_id = effect.run.conversation.user_id
    new = NewPassage(text=text, tags=tags, user_id=user_id, owner=effect.run.agent_id, run_id=effect.run_id)
    _, is_new = insert_passage(effect.run.project, new, by=_actor(effect))
    return ("Saved." if is_new else "This was already saved.") + _say_changed(text, *tags)


def search_archival(effect: Effect) -> str:
    """Search the passages of the agent and those that all share."""
    sent, count = effect.arguments, int(effect.arguments.get("count", 5))  # 5.0 is a whole number, too
    if not 0 < count <= MAX_FOUND_PASSAGES:
        raise ToolError(f"count has to be a number from 1 to {MAX_FOUND_PASSAGES}.")
    text = sent.get("query", "").strip()
    if not text and not sent.get("tags"):
        raise ToolError(
            "Say in query what you are looking for, or name tags to list the passages that have one of them."
        )
    query = PassageQuery(
        text=text[:MAX_TASK_CHARS],
        owner=effect.run.agent_id,
        tags=sent.get("tags", []),
        since=_moment(sent.get("since", "")),
        until=_moment(sent.get("until", "")),
    )
    if text:
        passages = [passage.passage for passage in search_passages(effect.run.project, query, limit=count).passages]
    else:
        passages = list(list_passages(effect.run.project, query)[:count])
    if not passages:
        return "Nothing found."
    return "\n\n".join(
        f"{passage.created_at:%Y-%m-%d} {' '.join(f'#{clean(tag)}' for tag in passage.tags)}".strip()
        + f"\n{clean_text(passage.text)}"
        for passage in passages
    )


def _get_block(effect: Effect) -> Block:
    label = effect.arguments["label"]
    ids = {entry["label"]: entry["block"] for entry in effect.run.revision.blocks}
    block = Block.objects.filter(project=effect.project_id, pk=ids[label]).first() if label in ids else None
    if block is None:
        raise ToolError(f"You have no block {label!r}. Your blocks are {', '.join(ids) or 'none'}.")
    return block


def _edit(effect: Effect) -> Edit:
    return Edit(by=_actor(effect), conversation=effect.run.conversation_id, run_id=effect.run_id)


def _actor(effect: Effect) -> Actor:
    return Actor(label=f"agent:{effect.run.agent.name}", api_key_id=effect.run.api_key_id)


def _say(revision: BlockRevision, sent: str) -> str:
    return _SAID[BlockRevision.Status(revision.status)] + _say_changed(sent)


def _say_changed(*sent: str) -> str:
    """Say what of a text is stored in another form."""
    counts = redact(list(sent)).counts
    kinds = ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items()))
    return (REDACTED.format(kinds=kinds) if kinds else "") + (CLEANED if needs_cleaning(*sent) else "")


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        day = parse_date(text)
        # A day alone stands for its first moment.
        moment = parse_datetime(f"{text}T00:00:00" if day else text)
    except ValueError:
        moment = None
    if moment is None:
        raise ToolError(f"{text!r} is not a valid time. Write it like 2026-11-23 or 2026-11-23T10:00:00Z.")
    return make_aware(moment) if is_naive(moment) else moment


_LABEL: dict[str, Any] = {"type": "string", "description": "The label of the block."}
_TEXT: dict[str, Any] = {"type": "string"}
_TAGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_LOCAL, _PURE = Effect.Kind.LOCAL, Effect.Kind.PURE
TOOLS = (
    LoopTool(
        name="memory_append",
        description="Add a line to a block of your memory.",
        parameters=object_schema(["label", "text"], label=_LABEL, text=_TEXT),
        kind=_LOCAL,
        execute=append_block,
    ),
    LoopTool(
        name="memory_replace",
        description="Replace a text that occurs exactly once in a block of your memory.",
        parameters=object_schema(["label", "old", "new"], label=_LABEL, old=_TEXT, new=_TEXT),
        kind=_LOCAL,
        execute=replace_block,
    ),
    LoopTool(
        name="memory_patch",
        description="Apply a unified diff to a block of your memory.",
        parameters=object_schema(["label", "patch"], label=_LABEL, patch=_TEXT),
        kind=_LOCAL,
        execute=patch,
    ),
    LoopTool(
        name="archival_insert",
        description="Save a text that you may need later but not in every prompt.",
        parameters=object_schema(["text"], text=_TEXT, tags=_TAGS),
        kind=_LOCAL,
        execute=insert_archival,
    ),
    LoopTool(
        name="archival_search",
        description="Search what you saved by meaning, words, tags and time, or list what has a tag, newest first.",
        parameters=object_schema(
            [],
            query=_TEXT | {"description": "What to look for. If left out, everything with one of the tags is listed."},
            tags=_TAGS | {"description": "At least one of these has to match."},
            since=_TEXT | {"description": "The first day, such as 2026-11-23."},
            until=_TEXT | {"description": "The day after the last."},
            count={"type": "integer", "description": "The maximum number of results; 5 if left out."},
        ),
        kind=_PURE,
        execute=search_archival,
    ),
)
