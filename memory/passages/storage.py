"""Write and delete passages."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Model

from memory.after_commit import after_commit
from memory.api.idempotency import forget_stored_answers
from memory.errors import InvalidInput
from memory.passages.models import Passage
from memory.passages.vectors import embed_passages, index_words
from memory.projects.actors import Actor, name_actor
from memory.projects.models import ApiKey, Project
from memory.redaction import redact
from memory.runs.models import Trajectory

# What `owner` and `run_id` may name; the app that has agents adds its own.
_owners: list[type[Model]] = []
_runs: list[type[Model]] = [Trajectory]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewPassage:
    """A text to keep, whose it is, and where it comes from.

    Args:
        owner: the agent it belongs to; None shares it.
        run_id: the run that writes it. Where it is recorded under this id, erasing it deletes the passage.
        created_at: when it was said, for what is taken over from elsewhere; None is now.
    """

    text: str
    tags: Sequence[str] = ()
    user_id: str = ""
    owner: UUID | None = None
    run_id: UUID | None = None
    created_at: datetime | None = None


@transaction.atomic
def insert_passage(project: Project, new: NewPassage, *, by: Actor) -> tuple[Passage, bool]:
    """Keep a text; return it and whether it is new. The same text of the same owner and user is kept once.

    It is found by its words at once, and by its meaning as soon as the transaction has ended.

    Raises:
        InvalidInput: the project has no such agent or run.
    """
    _check_named(project, "owner", new.owner, _owners, "No agent with this id exists in this project.")
    _check_named(project, "run_id", new.run_id, _runs, "No run with this id exists in this project.")
    kept = redact({"text": new.text, "tags": list(dict.fromkeys(new.tags)), "user_id": new.user_id}).value
    # What two users say in the same words are two passages, so that either can be erased without the other.
    hashed = f"{kept['user_id']}\n{kept['text']}" if kept["user_id"] else kept["text"]
    passage = Passage(
        project=project,
        owner=new.owner,
        text=kept["text"],
        text_sha256=hashlib.sha256(hashed.encode()).hexdigest(),
        tags=kept["tags"],
        user_id=kept["user_id"],
        run_id=new.run_id,
        created_by=by.label,
        **({"created_at": new.created_at} if new.created_at is not None else {}),
    )
    same = Passage.objects.filter(project=project, owner=new.owner, text_sha256=passage.text_sha256)
    # Two clients may keep the same text at once; the unique key decides which row stays.
    Passage.objects.bulk_create([passage], ignore_conflicts=True)
    stored = same.get()
    # The id was made here, so another one tells that the text was there.
    if stored.pk != passage.pk:
        return stored, False
    index_words(stored.pk)
    after_commit(embed_passages, [stored.pk])
    return stored, True


@transaction.atomic
def delete_passage(passage: Passage, *, by: Actor) -> None:
    """Delete a passage, what it is found by and the stored answer to the request that wrote it."""
    name_actor(by)
    forget_stored_answers([passage.pk])
    passage.delete()


def add_passage_sources(*, owners: type[Model], runs: type[Model]) -> None:
    """Let passages belong to rows of one model and come from those of another."""
    _owners.append(owners)
    _runs.append(runs)


def erase_run(run: Trajectory) -> list[UUID]:
    """Delete the passages of a run, in the transaction that erases it; return their ids."""
    ids = list(Passage.objects.filter(project=run.project_id, run_id=run.pk).values_list("pk", flat=True))
    Passage.objects.filter(pk__in=ids).delete()
    return ids


def quarantine_source(project: Project, *, client: str, api_key: ApiKey | None, since: datetime, order_id: UUID) -> int:
    """Take the passages of a source since a time out of lists and searches; return how many there were."""
    written = Passage.objects.filter(project=project, created_at__gte=since, quarantine_order_id__isnull=True)
    runs = Trajectory.objects.filter(project=project, created_at__gte=since, client=client)
    if api_key is not None:
        runs = runs.filter(api_key=api_key)
    # Also what a run of the source wrote under another name, such as an agent's.
    of_runs = written.filter(run_id__in=runs.values("pk"))
    return written.filter(created_by=f"key:{client}").update(quarantine_order_id=order_id) + of_runs.update(
        quarantine_order_id=order_id
    )


def lift_quarantine(order_id: UUID) -> int:
    """Show the passages of an order again; return how many there were."""
    return Passage.objects.filter(quarantine_order_id=order_id).update(quarantine_order_id=None)


def _check_named(project: Project, member: str, id: UUID | None, models: Sequence[type[Model]], fault: str) -> None:
    matches = (model._default_manager.filter(project=project, pk=id).exists() for model in models)
    if id is not None and not any(matches):
        raise InvalidInput({f"/{member}": [fault]})
