"""The tasks of the newest runs as they are searched, so that a lesson can be tried on them before it is approved."""

from django.db import models
from pgvector.django import HalfVectorField, SparseVectorField

from memory.models.embedding import EmbeddingModel
from memory.models.project import Project
from memory.models.trajectory import Trajectory


class TaskVector(models.Model):
    """One task of a recent run: its meaning and its words, in the form in which lessons are compared with tasks.

    Kept for the newest runs of a project alone (`memory.services.remember_tasks`). `vector` is null until the
    embedder has answered.
    """

    trajectory = models.OneToOneField(Trajectory, primary_key=True, on_delete=models.CASCADE, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    embedding_model = models.ForeignKey(EmbeddingModel, on_delete=models.CASCADE, related_name="+", db_index=False)
    vector = HalfVectorField(null=True)
    terms = SparseVectorField(null=True)
    meaning_weight = models.FloatField(help_text="What meaning counts beside words, 0–1; long tasks blur.")
    recorded_at = models.DateTimeField(help_text="When the run was recorded.")

    class Meta:
        ordering = ["-recorded_at"]
        indexes = [models.Index(fields=["project", "-recorded_at"], name="memory_taskvector_recent")]

    def __str__(self) -> str:
        return f"task of {self.trajectory_id}"
