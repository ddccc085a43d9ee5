"""What a project remembers, as clients read it."""

from typing import Any

from rest_framework import serializers

from memory.heuristics.models import Heuristic

# Of a mistake card; one that was merged into another is not listed.
_STATUS = [each for each in Heuristic.Status.choices if each[0] in ("proposed", "approved", "rejected", "retired")]


class ScoreHistorySerializer(serializers.Serializer[Any]):
    """How one agent did on one task family."""

    task_id = serializers.CharField(help_text="The task family; empty for runs that named none.")
    agent = serializers.CharField(help_text="The agent; empty for runs that named none.")
    count = serializers.IntegerField(help_text="Runs with a score.")
    mean = serializers.FloatField(help_text="Their mean score.")
    best = serializers.FloatField(help_text="Their best score.")
    last = serializers.ListField(child=serializers.FloatField(), help_text="The newest ten, newest first.")
    trend = serializers.FloatField(
        allow_null=True,
        help_text="Of the newest twenty scores, the mean of the newer half minus that of the older; null below two.",
    )
    newest_at = serializers.DateTimeField(help_text="When the newest of these runs was recorded.")


class MistakeCardSummarySerializer(serializers.Serializer[Any]):
    """A mistake and how often it was seen. Only what is `served` is given to agents."""

    id = serializers.UUIDField()
    mistake_type = serializers.CharField()
    task_id = serializers.CharField()
    worker_id = serializers.CharField()
    status = serializers.ChoiceField(choices=_STATUS)
    bad_decision = serializers.CharField(source="current_revision.avoid")
    correct_decision = serializers.CharField(source="current_revision.guideline")
    lesson = serializers.CharField(source="current_revision.rationale")
    seen_count = serializers.IntegerField(source="support", help_text="Distinct runs, up to a limit per client.")
    first_seen_id = serializers.UUIDField(allow_null=True, help_text="The first run it was seen in.")
    last_seen_id = serializers.UUIDField(allow_null=True, help_text="The newest run it was seen in.")


class MemorySummarySerializer(serializers.Serializer[Any]):
    """Counts, scores by task and agent, the mistakes seen most often."""

    counts = serializers.DictField(child=serializers.IntegerField(), help_text="How many, by kind and status.")
    scores = ScoreHistorySerializer(many=True)
    mistake_cards = MistakeCardSummarySerializer(
        many=True, source="cards", help_text="The ten that were seen most often."
    )
