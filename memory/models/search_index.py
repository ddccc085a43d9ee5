"""Indexes of single projects: what makes the search of a large one quick."""

from django.db import models
from django.utils import timezone

from memory.models.embedding import EmbeddingModel
from memory.models.project import Project


class SearchIndex(models.Model):
    """An index of what one project serves, and how well searches that use it agree with a comparison of everything.

    `memory.services.tune_search` builds it beside the running searches and writes this row when it can be used. Small
    projects have none: a comparison of everything is quick there and misses nothing.
    """

    name = models.TextField(primary_key=True, help_text="The index in the database.")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    embedding_model = models.ForeignKey(EmbeddingModel, on_delete=models.CASCADE, related_name="+", db_index=False)
    texts = models.PositiveBigIntegerField(help_text="Texts that were in it when it was built.")
    breadth = models.PositiveIntegerField(help_text="Texts that a search takes from it before it compares exactly.")
    build_seconds = models.FloatField()
    built_at = models.DateTimeField(default=timezone.now)
    recall_mean = models.FloatField(
        null=True, blank=True, help_text="Share of the 20 likest lessons that searches find, over logged tasks."
    )
    recall_least = models.FloatField(null=True, blank=True, help_text="That share of the task it is lowest for.")
    recall_tasks = models.PositiveIntegerField(default=0, help_text="Tasks it was measured on.")
    measured_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["project", "-built_at"]
        verbose_name_plural = "search indexes"

    def __str__(self) -> str:
        return self.name
