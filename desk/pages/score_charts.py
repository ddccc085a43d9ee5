"""Score histories as lines."""

from dataclasses import dataclass
from statistics import mean
from typing import Any
from uuid import UUID

from desk.shell.plots import place_scores, score_height
from evaluation.reports.geometry import join_points
from memory.projects.access import visible_projects
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.runs.scores import ScoreHistory, read_score_history

SHOWN_CHARTS, SHOWN_RUNS = 24, 60
LEVEL = 0.03
AVERAGED_RUNS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One run on the line, oldest left; a score of 1 is at the top."""

    x: float
    y: float
    score: float
    trajectory_id: UUID


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreChart:
    """The newest runs of one task family and agent."""

    history: ScoreHistory
    points: list[Point]
    mean_y: float

    @property
    def direction(self) -> str:
        """Where the scores are going; a hundredth or two is no direction."""
        trend = self.history.trend
        if trend is None:
            return ""
        return "level" if abs(trend) < LEVEL else "rising" if trend > 0 else "falling"

    @property
    def line(self) -> str:
        """Return the mean of each run and the nine before it: single scores jump between 0 and 1."""
        averages = [
            mean(point.y for point in self.points[max(end - AVERAGED_RUNS, 0) : end])
            for end in range(1, len(self.points) + 1)
        ]
        return join_points((point.x, y) for point, y in zip(self.points, averages, strict=True))


def scores_context(user: Any, *, project_id: str = "", task_id: str | None = None) -> dict[str, Any]:
    """Collect the charts of one project a person may see: the named one, else the first."""
    projects = list(visible_projects(user).order_by("slug"))
    project = next(
        (candidate for candidate in projects if str(candidate.pk) == project_id), projects[0] if projects else None
    )
    charts = draw_scores(project, task_id=task_id) if project else []
    return {"projects": projects, "project": project, "task_id": task_id, "charts": charts, "limit": SHOWN_CHARTS}


def draw_scores(project: Project, *, task_id: str | None = None) -> list[ScoreChart]:
    """Draw the task families and agents with the most runs, or those of one family."""
    histories = read_score_history(project, task_id=task_id, limit=SHOWN_CHARTS)
    return [_draw(project, history) for history in histories]


def _draw(project: Project, history: ScoreHistory) -> ScoreChart:
    runs = Trajectory.objects.filter(
        project=project, task_id=history.task_id, agent=history.agent, score__isnull=False
    ).order_by("-created_at", "-id")
    newest = list(runs.values_list("pk", "score")[:SHOWN_RUNS])[::-1]
    places = place_scores([score or 0.0 for _, score in newest])
    points = [
        Point(x=x, y=y, score=score or 0.0, trajectory_id=pk)
        for (pk, score), (x, y) in zip(newest, places, strict=True)
    ]
    return ScoreChart(history=history, points=points, mean_y=score_height(history.mean))
