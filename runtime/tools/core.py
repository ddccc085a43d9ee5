"""ERL's own tools: talk to the user, read what was said and returned before, and ask for lessons."""

from typing import Any

from django.db.models import Q

from memory.projects.actors import Actor
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from memory.retrieval.safe_text import clean_text
from runtime.conversations import add_message
from runtime.errors import ToolError
from runtime.models.conversations import Message
from runtime.models.effects import Effect
from runtime.streaming.events import append_event
from runtime.tools.catalogue import LoopTool

MAX_READ_CHARACTERS = 20_000
FOUND_MESSAGES = 10
FOUND_CHARACTERS = 500


def send_message(effect: Effect) -> str:
    """Write a message to the user, who can read it while the run goes on."""
    text = effect.arguments["message"]
    if not text.strip():
        raise ToolError("Write something in message.")
    message = add_message(effect.run, role=Message.Role.ASSISTANT, content=text, is_reply=True, effect=effect)
    append_event(effect.run_id, "message", role="assistant", seq=message.seq, is_reply=True)
    return "Sent."


def read_result(effect: Effect) -> str:
    """Return a part of what a tool returned, however long ago."""
    # A whole number may be written as 5.0.
    number, start = int(effect.arguments["result"]), int(effect.arguments.get("start", 0))
    count = min(int(effect.arguments.get("count", MAX_READ_CHARACTERS)), MAX_READ_CHARACTERS)
    message = (
        Message.objects.read_at()
        .filter(conversation_id=effect.run.conversation_id, seq=number, role=Message.Role.TOOL, effect__isnull=False)
        .select_related("effect")
        .first()
    )
    if message is None or message.effect is None:
        raise ToolError(f"There is no result {number} in this conversation.")
    text = message.effect.result or message.effect.error
    if start < 0 or count < 1:
        raise ToolError("start is at least 0, and count at least 1.")
    if start >= len(text):
        raise ToolError(f"Result {number} has {len(text):,} characters; start before its end.")
    part = text[start : start + count]
    rest = len(text) - start - len(part)
    return f"{part}\n[{rest:,} characters follow; go on with start {start + len(part)}.]" if rest else part


def conversation_search(effect: Effect) -> str:
    """Find messages of this conversation, also those that are no longer shown, by the words in them."""
    words = effect.arguments["query"].split()
    if not words:
        raise ToolError("Write at least one word in query.")
    wanted = Q()
    for word in words[:20]:
        wanted &= Q(content__icontains=word)
    messages = Message.objects.read_at().filter(wanted, conversation_id=effect.run.conversation_id)
    hits = list(messages.exclude(role=Message.Role.TOOL).order_by("-seq")[:FOUND_MESSAGES])
    if not hits:
        return "No message has all of these words."
    return "\n\n".join(
        f"Message {message.seq}, {message.role}, {message.created_at:%Y-%m-%d %H:%M}:\n"
        + clean_text(message.content[:FOUND_CHARACTERS])
        for message in hits
    )


def get_lessons(effect: Effect) -> str:
    """Return lessons for a task, as ERL serves them to any agent; the answer is kept like any other."""
    run = effect.run
    if not effect.arguments["task"].strip():
        raise ToolError("Write in task what you are about to do.")
    question = Question(
        project=run.project,
        task=effect.arguments["task"],
        by=Actor(label=f"agent:{run.agent.name}", api_key_id=run.api_key_id),
        task_id=run.task_id,
        agent=run.agent.name,
        tools=tuple(entry["name"] for entry in run.revision.tools),
        session=str(run.conversation_id),
        client=run.client,
    )
    return retrieve(question).context or "There are no lessons for this task."


def object_schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_TEXT = {"type": "string"}
TOOLS = (
    LoopTool(
        name="send_message",
        description="Send a message to the user while you go on working.",
        parameters=object_schema(["message"], message=_TEXT | {"description": "What to tell the user."}),
        kind=Effect.Kind.LOCAL,
        execute=send_message,
    ),
    LoopTool(
        name="read_result",
        description="Read what a tool returned earlier, whole or in parts.",
        parameters=object_schema(
            ["result"],
            result={"type": "integer", "description": "The number of the result."},
            start={"type": "integer", "description": "The first character, from 0."},
            count={"type": "integer", "description": "How many characters."},
        ),
        kind=Effect.Kind.PURE,
        execute=read_result,
    ),
    LoopTool(
        name="conversation_search",
        description="Find earlier messages of this conversation by words that are in them.",
        parameters=object_schema(["query"], query=_TEXT | {"description": "Words that all have to be in the message."}),
        kind=Effect.Kind.PURE,
        execute=conversation_search,
    ),
    LoopTool(
        name="get_lessons",
        description="Get lessons from earlier runs for a task or a part of it.",
        parameters=object_schema(["task"], task=_TEXT | {"description": "What you are about to do."}),
        kind=Effect.Kind.PURE,
        execute=get_lessons,
    ),
)
