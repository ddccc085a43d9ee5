"""Changes that bring lessons, and changes of how many lessons runs are given."""

import threading
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import DatabaseError, connection, transaction
from django.urls import reverse

from memory.curation.decisions import reject_heuristic, retire_heuristic
from memory.curation.proposals import revise_heuristic
from memory.errors import ChangedMeanwhile, InvalidInput, NotAllowed, SecondReviewerNeeded
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project
from memory.releases.deployments import cut_release, get_deployment, promote
from memory.review.models import Review
from memory.trust.audit import verify_audit
from reflection.llm.chat import ChatRequest
from runtime.changes.ladder import check_change, promote_change, roll_back_change, start_trial
from runtime.changes.policy import climb
from runtime.changes.proposals import ProposedChange, propose_change
from runtime.limits import Retrieving
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.revisions import AgentSpec, revise_agent
from tests.desk.test_agent_pages import log_in
from tests.factories import approve_as_read, make_heuristic, make_member, make_project, require_two
from tests.releases import TASK, get_guidelines, make_lesson, serve_releases
from tests.runtime.changing import carry_out_shadow, rehearse
from tests.runtime.running import BY, Script, check_deferred, go_on, make_agent, make_run
from tests.runtime.test_api import Api
from tests.waiting import is_anyone_waiting, wait_until

pytestmark = pytest.mark.django_db
GUIDELINE = "Offer a refund as a voucher first."
SCOPES = ["run", "agents", "review", "release", "heuristics:read"]
PERMISSIONS = ["review_heuristic", "decide_change", "deploy_release"]


def make_deployed_agent(project: Project, **how: Any) -> Agent:
    """Make an agent with a recorded run in a project that serves releases and has one lesson."""
    make_lesson(project, "Check the fare class.")
    serve_releases(project)
    agent = make_agent(project=project, system="You help customers.")
    go_on(make_run(agent, TASK), Script("Cancelled."))
    Agent.objects.filter(pk=agent.pk).update(**how)
    return agent


def propose_lesson(project: Project, **how: Any) -> Heuristic:
    """Make a lesson that waits for a decision and fits TASK."""
    words = {"trigger": "A customer asks to cancel a basic economy flight", "guideline": GUIDELINE}
    heuristic = make_heuristic(project=project, **{**words, **how})
    embed_heuristics([heuristic.pk])
    heuristic.refresh_from_db()
    return heuristic


def propose(agent: Agent, *lessons: Heuristic, **parts: Any) -> Change:
    ids = tuple(each.pk for each in lessons)
    return propose_change(agent, ProposedChange(reason="Customers like vouchers.", lessons=ids, **parts), by=BY)


def climb_to_trial(change: Change, api: Api) -> Change:
    """Check, rehearse and try a change on all units."""
    check_change(change, by=BY)
    rehearse(change, "Cancelled.")
    answer = api.post(f"changes/{change.pk}/canary", {"sha256": change.sha256, "percent": 100})
    assert answer.status_code == 200, answer.content
    change.refresh_from_db()
    return change


def test_change_with_a_lesson_climbs_and_comes_down_by_api() -> None:
    api = Api(scopes=SCOPES)
    project = api.key.api_key.project
    agent = make_deployed_agent(project)
    lesson = propose_lesson(project)
    read: list[str] = []

    def read_head(request: ChatRequest) -> str:
        read.append(request.messages[0].content)
        return "Cancelled."

    body = {"agent": str(agent.pk), "reason": "Customers like vouchers.", "lessons": [str(lesson.pk)]}
    sent = api.post("changes", body)
    change = sent.json()
    path = f"changes/{change['id']}"
    api.post(f"{path}/check")
    api.post(f"{path}/shadow")
    carry_out_shadow(Change.objects.get(pk=change["id"]), read_head)
    assert (sent.status_code, change["kinds"], change["lessons"][0]["guideline"]) == (201, ["heuristic"], GUIDELINE)
    assert GUIDELINE in read[0]
    assert get_guidelines(project) == ["Check the fare class."]

    assert api.post(f"{path}/canary", {"sha256": Change.objects.get().target.content_sha256}).status_code == 409
    api.post(f"{path}/canary", {"sha256": change["sha256"], "percent": 100, "reason": "It reads well."})
    assert api.get(path).json()["lessons"][0]["status"] == "approved"
    assert get_guidelines(project) == ["Check the fare class.", GUIDELINE]
    assert api.post(f"{path}/promote").json()["rung"] == "stable"
    assert get_guidelines(project) == ["Check the fare class.", GUIDELINE]
    assert api.post(f"{path}/rollback").json()["rung"] == "rolled_back"

    assert get_guidelines(project) == ["Check the fare class."]
    decided = Review.objects.filter(heuristic=lesson).order_by("created_at").values_list("decision", "reviewer")
    assert list(decided) == [("approve", "key:agent"), ("retire", "policy:changes")]
    assert len(cut_release(project, by=BY).manifest["lessons"]) == 1
    assert Agent.objects.get().current == agent.current
    check_deferred()
    assert verify_audit().faults == []


@pytest.mark.django_db(transaction=True)
def test_trial_ends_while_a_person_retires_the_lesson() -> None:
    api = Api(scopes=SCOPES)
    lesson = propose_lesson(api.key.api_key.project)
    change = climb_to_trial(propose(make_deployed_agent(lesson.project), lesson), api)

    def end() -> None:
        with closing(connection):
            roll_back_change(change, by=BY)

    ending = threading.Thread(target=end)
    with transaction.atomic():
        retire_heuristic(lesson, by=BY)
        ending.start()
        wait_until(is_anyone_waiting)
    ending.join()

    assert Change.objects.get().rung == "rolled_back"
    assert Review.objects.filter(heuristic=lesson, decision="retire").count() == 1


def test_lesson_stays_that_a_later_release_has_too() -> None:
    """A person cuts a release during the trial and makes it stable in place of the change."""
    api = Api(scopes=SCOPES)
    lesson = propose_lesson(api.key.api_key.project)
    climb_to_trial(propose(make_deployed_agent(lesson.project), lesson), api)

    promote(lesson.project, release=cut_release(lesson.project, by=BY), by=BY)

    lesson.refresh_from_db()
    assert (Change.objects.get().rung, lesson.status) == ("rolled_back", "approved")
    assert GUIDELINE in get_guidelines(lesson.project)


def test_policy_rehearses_a_lesson_and_leaves_its_approval_to_people() -> None:
    project = make_project()
    change = propose(make_deployed_agent(project, changes_by="policy"), propose_lesson(project))
    climb()
    climb()
    carry_out_shadow(change, "Cancelled.")

    assert climb() == 0
    assert Change.objects.get().rung == "shadowed"
    with pytest.raises(NotAllowed, match="a person has to approve"):
        start_trial(change, sha256=change.sha256, by=BY)


def test_lesson_that_two_people_approve_is_not_tried_after_one() -> None:
    api = Api(scopes=SCOPES)
    project = api.key.api_key.project
    lesson = propose_lesson(project)
    change = propose(make_deployed_agent(project), lesson)
    cleo = make_member("cleo", project=project)
    ApiKey.objects.update(created_by=make_member("ben", project=project, permissions=PERMISSIONS))
    require_two(project)
    check_change(change, by=BY)
    rehearse(change, "Cancelled.")
    path, body = f"changes/{change.pk}/canary", {"sha256": change.sha256}

    alone = api.post(path, body)
    approve_as_read(lesson, by=Actor.person(cleo))
    together = api.post(path, body)
    ended = api.post(f"changes/{change.pk}/rollback").json()

    assert (alone.status_code, alone.json()["error"]["code"]) == (409, SecondReviewerNeeded.code)
    assert (together.status_code, together.json()["lessons"][0]["status"]) == (200, "approved")
    assert (ended["rung"], ended["lessons"][0]["status"]) == ("rolled_back", "retired")


def test_person_reads_the_lesson_on_the_page_and_approves_it_with_the_trial() -> None:
    project = make_project()
    lesson = propose_lesson(project, avoid="Promising cash.")
    change = propose(make_deployed_agent(project), lesson, retrieval=Retrieving(top_k=3))
    check_change(change, by=BY)
    rehearse(change, "Cancelled.")
    page = reverse("admin:inbox_item", args=["change", change.pk])
    may = ["view_change", "decide_change", "deploy_release"]
    client = log_in(project, permissions=may)

    shown = client.get(page).content.decode()
    client.post(page, {"decision": "try", "sha256": change.sha256})
    assert (Change.objects.get().rung, Heuristic.objects.get(pk=lesson.pk).status) == ("shadowed", "proposed")
    permission = Permission.objects.get(codename="review_heuristic")
    get_user_model().objects.get().user_permissions.add(permission)
    client.post(page, {"decision": "try", "sha256": change.sha256})

    assert all(said in shown for said in (GUIDELINE, "Promising cash.", "Lessons per run, at most: 3", change.sha256))
    assert (Change.objects.get().rung, Heuristic.objects.get(pk=lesson.pk).status) == ("canary", "approved")


@pytest.mark.parametrize("where", ["elsewhere", "approved", "reworded"])
def test_only_a_proposed_lesson_of_the_project_is_brought(where: str) -> None:
    project = make_project()
    agent = make_agent(project=project)
    lessons = {
        "elsewhere": lambda: propose_lesson(make_project()),
        "approved": lambda: make_lesson(project, GUIDELINE),
        "reworded": lambda: propose_lesson(project, served=True),
    }

    with pytest.raises(InvalidInput):
        propose(agent, lessons[where]())


def test_database_refuses_the_lesson_of_another_project() -> None:
    agent, lesson = make_agent(), propose_lesson(make_project())
    change = propose(agent, propose_lesson(agent.project))
    change.pk, change.number, change.lessons = None, 2, list(lesson.revisions.values_list("pk", flat=True))

    with pytest.raises(DatabaseError, match="not one of its project"), transaction.atomic():
        change.save(force_insert=True)


@pytest.mark.parametrize(("flags", "said"), [(["injection"], "was flagged (injection)"), ([], "is rejected")])
def test_lesson_that_cannot_be_approved_stops_the_change(flags: list[str], said: str) -> None:
    agent = make_agent()
    lesson = propose_lesson(agent.project)
    change = propose(agent, lesson)
    Heuristic.objects.filter(pk=lesson.pk).update(risk_flags=flags)
    if not flags:
        reject_heuristic(lesson, by=BY)

    rows = check_change(change, by=BY)

    assert (change.rung, rows[-1].name) == ("failed", "lessons")
    assert said in rows[-1].said


def test_lesson_that_a_person_approved_meanwhile_is_approved_once() -> None:
    api = Api(scopes=SCOPES)
    project = api.key.api_key.project
    lesson = propose_lesson(project)
    change = propose(make_deployed_agent(project), lesson)
    check_change(change, by=BY)
    rehearse(change, "Cancelled.")
    approve_as_read(lesson, by=BY)

    answer = api.post(f"changes/{change.pk}/canary", {"sha256": change.sha256})

    assert answer.status_code == 200
    assert Review.objects.filter(heuristic=lesson, decision="approve").count() == 1


def test_flagged_lesson_that_a_person_approved_passes_the_checks() -> None:
    project = make_project()
    lesson = propose_lesson(project)
    change = propose(make_deployed_agent(project), lesson)
    Heuristic.objects.filter(pk=lesson.pk).update(risk_flags=["injection"])
    approve_as_read(lesson, by=BY)

    check_change(change, by=BY)

    assert change.rung == "checked"


@pytest.mark.parametrize(("flags", "said"), [(["injection"], "was flagged (injection)"), ([], "is rejected")])
def test_lesson_that_changed_after_the_checks_is_not_tried(flags: list[str], said: str) -> None:
    api = Api(scopes=SCOPES)
    lesson = propose_lesson(api.key.api_key.project)
    change = propose(make_deployed_agent(lesson.project), lesson)
    check_change(change, by=BY)
    rehearse(change, "Cancelled.")
    Heuristic.objects.filter(pk=lesson.pk).update(risk_flags=flags)
    if not flags:
        reject_heuristic(lesson, by=BY)

    answer = api.post(f"changes/{change.pk}/canary", {"sha256": change.sha256})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, ChangedMeanwhile.code)
    assert said in answer.json()["error"]["message"]
    assert not Review.objects.filter(decision="approve", heuristic=lesson).exists()


def test_share_grows_while_a_new_wording_waits() -> None:
    api = Api(scopes=SCOPES)
    lesson = propose_lesson(api.key.api_key.project)
    change = climb_to_trial(propose(make_deployed_agent(lesson.project), lesson), api)
    lesson.refresh_from_db()
    served = lesson.revisions.get()
    words = HeuristicText(trigger=served.trigger, guideline="Offer cash.", rationale="It is faster.")
    revise_heuristic(lesson, text=words, by=BY, content_sha256=served.content_sha256)

    answer = api.post(f"changes/{change.pk}/canary", {"sha256": change.sha256, "percent": 50})

    assert (answer.status_code, get_deployment(lesson.project).canary_share) == (200, 500)


def test_same_lesson_is_proposed_once() -> None:
    agent = make_agent()
    lesson = propose_lesson(agent.project)

    assert propose(agent, lesson) == propose(agent, lesson)


def test_change_of_retrieval_is_kept_by_later_releases_and_taken_back() -> None:
    api = Api(scopes=SCOPES)
    project = api.key.api_key.project
    make_lesson(project, "Be polite.")
    change = propose(make_deployed_agent(project), retrieval=Retrieving(top_k=1))
    assert change.kinds == ["retrieval"]

    climb_to_trial(change, api)
    assert len(get_guidelines(project)) == 1
    promote_change(change, by=BY)
    make_lesson(project, "Ask for the booking.")
    later = cut_release(project, by=BY)
    assert (len(later.manifest["lessons"]), later.manifest["retrieval"]["top_k"]) == (3, 1)
    roll_back_change(change, by=BY)

    assert len(get_guidelines(project)) == 2


def test_policy_tries_a_change_of_retrieval() -> None:
    agent = make_deployed_agent(make_project(), changes_by="policy")
    change = propose(agent, retrieval=Retrieving(top_k=1))
    climb()
    climb()
    carry_out_shadow(change, "Cancelled.")

    assert climb() == 1
    assert Change.objects.get().rung == "canary"


def test_change_that_brings_nothing_is_refused() -> None:
    agent = make_deployed_agent(make_project())

    with pytest.raises(InvalidInput, match="like this already"):
        propose(agent, retrieval=Retrieving(top_k=5))


def test_agent_that_was_changed_since_gets_no_lesson() -> None:
    api = Api(scopes=SCOPES)
    project = api.key.api_key.project
    agent = make_deployed_agent(project)
    lesson = propose_lesson(project)
    change = propose(agent, lesson)
    check_change(change, by=BY)
    rehearse(change, "Cancelled.")
    revise_agent(agent, spec=AgentSpec(system="Be brief."), by=BY)

    answer = api.post(f"changes/{change.pk}/canary", {"sha256": change.sha256})

    lesson.refresh_from_db()
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, ChangedMeanwhile.code)
    assert lesson.status == "proposed"
