"""How long a project keeps what: what is due is shown first, and then goes."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memory.management.options import read_time
from memory.passages.models import Passage
from memory.passages.storage import NewPassage, insert_passage
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.trust.models import Erasure
from memory.trust.periods import erase_all_due, find_due
from runtime.models.conversations import Conversation, Message
from tests.factories import make_project, make_trajectory
from tests.runtime.running import Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
LONG_AGO = timezone.now() - timedelta(days=40)


@pytest.fixture
def project() -> Project:
    """A project that keeps everything for 30 days, with an old and a new run."""
    columns = ("run_retention_days", "conversation_retention_days", "passage_retention_days")
    project = make_project(slug="shop", **dict.fromkeys(columns, 30))
    make_trajectory(project=project, task="Old", created_at=LONG_AGO)
    make_trajectory(project=project, task="New")
    return project


def due(project: Project) -> dict[str, int]:
    return {row.period.label: row.count for row in find_due(project)}


def test_dry_run_says_what_would_go_and_changes_nothing(project: Project) -> None:
    out = StringIO()

    call_command("erase", "--due", "--dry-run", stdout=out)

    assert "shop: runs, kept 30 days from the last step: 1 due" in out.getvalue()
    assert Trajectory.objects.count() == 2


def test_run_past_its_time_is_erased_with_a_record(project: Project) -> None:
    erase_all_due()

    assert Trajectory.objects.get().task == "New"
    assert Erasure.objects.get().erased_by == "policy:retention"
    assert due(project)["runs"] == 0


def test_open_run_counts_from_its_last_step(project: Project) -> None:
    Trajectory.objects.filter(task="Old").update(appended_at=timezone.now())

    erase_all_due()

    assert Trajectory.objects.count() == 2


def test_passage_past_its_time_is_deleted(project: Project) -> None:
    by = Actor(label="user:ops")
    insert_passage(project, NewPassage(text="Old", created_at=LONG_AGO), by=by)
    insert_passage(project, NewPassage(text="New"), by=by)

    erase_all_due()

    assert Passage.objects.get().text == "New"


def test_conversation_past_its_time_goes_with_its_runs(project: Project) -> None:
    run = make_run(make_agent(project=project))
    go_on(run, Script("Here."))
    Conversation.objects.update(created_at=LONG_AGO)
    before = due(project)["conversations"]
    Message.objects.update(created_at=LONG_AGO)

    erase_all_due()

    assert (before, Conversation.objects.count()) == (0, 0)
    assert not Trajectory.objects.filter(pk=run.pk).exists()


def test_project_without_periods_keeps_everything() -> None:
    make_trajectory(created_at=LONG_AGO)

    erase_all_due()

    assert Trajectory.objects.count() == 1


def test_period_beyond_the_calendar_keeps_all_and_stops_no_other_project(project: Project) -> None:
    longest = 2**31 - 1
    periods = [name for name in vars(Project) if name.endswith("_retention_days")]
    Project.objects.filter(pk=project.pk).update(**dict.fromkeys(periods, longest))
    other = make_project(slug="zoo", run_retention_days=30)
    make_trajectory(project=other, task="Old", created_at=LONG_AGO)

    erase_all_due()
    call_command("erase", "--due", "--dry-run", stdout=StringIO())

    assert {*Trajectory.objects.values_list("task", flat=True)} == {"Old", "New"}
    assert not Trajectory.objects.for_project(other).exists()


def test_age_beyond_the_calendar_is_refused_in_a_sentence() -> None:
    with pytest.raises(CommandError, match="longer ago than any run"):
        read_time("9" * 5000 + "d")
