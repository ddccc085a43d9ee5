"""Fill a project with approved lessons whose vectors are real."""

import io
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from bench.serving.corpus import Corpus

BATCH = 500


def seed_lessons(project: Any, *, count: int, seed: int = 1) -> None:
    """Add `count` approved lessons of 56 words, each with the task it was learnt from, and embed them."""
    corpus = Corpus(seed=seed)
    for done in range(0, count, BATCH):
        _approve(project, [corpus.write_lesson() for _ in range(min(BATCH, count - done))])
    call_command("reembed", compare=0, stdout=io.StringIO())
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


@transaction.atomic  # an approved heuristic has a served revision, at the latest when it is committed
def _approve(project: Any, lessons: list[dict[str, str]]) -> None:
    heuristics, revisions = apps.get_model("memory.Heuristic").objects, apps.get_model("memory.HeuristicRevision")
    made = heuristics.bulk_create([heuristics.model(project=project, status="approved", support=1) for _ in lessons])
    for heuristic, words in zip(made, lessons, strict=True):
        heuristic.current_revision = revisions(
            project=project, heuristic=heuristic, number=1, created_by="bench", **words
        )
    revisions.objects.bulk_create([heuristic.current_revision for heuristic in made])
    revisions.objects.filter(heuristic__in=made).update(
        approved_sha256=F("content_sha256"), approved_by="policy:bench", approved_at=timezone.now(), served=True
    )
    heuristics.bulk_update(made, ["current_revision"])
