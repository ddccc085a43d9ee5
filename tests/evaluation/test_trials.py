"""Trials of changes are experiments; by API, by the admin and by the policy a change leaves the same audit trail."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse

from evaluation.experiments.looks import take_look
from evaluation.experiments.models import Experiment
from evaluation.experiments.of_changes import take_back_worse
from memory.projects.models import Project
from memory.releases.deployments import get_deployment
from memory.releases.models import Deployment
from memory.trust.audit import verify_audit
from memory.trust.models import AuditEntry
from runtime.changes.ladder import promote_change, start_trial
from runtime.changes.policy import POLICY, climb
from runtime.changes.proposals import ProposedChange, propose_change
from runtime.models.agents import Agent
from runtime.models.changes import Change
from tests.desk.test_agent_pages import log_in
from tests.evaluation.experiment_rows import Traffic
from tests.factories import make_project
from tests.releases import serve_releases
from tests.runtime.changing import (
    PROMPTED,
    Service,
    carry_out_shadow,
    case_of,
    climb_to_shadow,
    make_change,
    make_shop_agent,
    propose_refund,
    refund,
    refund_order,
)
from tests.runtime.running import BY, Script, check_deferred, go_on, make_agent, make_run
from tests.runtime.test_api import Api

pytestmark = pytest.mark.django_db
REFUND = [("refund_order", {"order": "A1"})], "Paid."


@pytest.fixture
def shop() -> Iterator[Service]:
    with Service().running() as service:
        yield service


def told(project: Project) -> list[str]:
    """Return the kinds of audit entries about changes, tools, deployments and agents, in order.

    A canary whose share grows in steps counts once.
    """
    check_deferred()
    kinds = list(AuditEntry.objects.filter(project_id=project.pk).order_by("number").values_list("kind", flat=True))
    told = [kind for kind in kinds if kind.partition("_")[0] in ("change", "deployment", "tool", "agent")]
    return [kind for place, kind in enumerate(told) if kind != "deployment_canary" or kind not in told[:place]]


def make_deployed_shop(service: Service, project: Project, **how: Any) -> Agent:
    agent = make_shop_agent(service, project=project)
    serve_releases(project)
    Agent.objects.filter(pk=agent.pk).update(**how)
    return agent


def climb_by_api(service: Service) -> Change:
    """Let a client with a key take every step."""
    api = Api(scopes=["run", "agents", "review", "release"])
    agent = make_deployed_shop(service, api.key.api_key.project)
    content = refund_order().content()
    tool = {name: content[name] for name in ("name", "description", "parameters", "source", "uses", "examples")}
    body = {"agent": str(agent.pk), "reason": "Two calls in one.", "cases": [case_of(refund(agent))], "tools": [tool]}
    change = api.post("changes", body).json()
    path = f"changes/{change['id']}"
    api.post(f"{path}/check")
    api.post(f"{path}/shadow")
    carry_out_shadow(Change.objects.get(pk=change["id"]), *REFUND)
    api.post(f"{path}/canary", {"sha256": change["sha256"]})
    api.post(f"{path}/promote")
    api.post(f"{path}/rollback")
    return Change.objects.get(pk=change["id"])


def climb_by_admin(service: Service) -> Change:
    """Let a person press every button."""
    agent = make_deployed_shop(service, make_project())
    client = log_in(agent.project, permissions=["view_change", "decide_change", "deploy_release"])
    change = propose_refund(agent, refund(agent))
    page = reverse("admin:inbox_item", args=["change", change.pk])

    def press(button: str) -> None:
        client.post(page, {"decision": button, "sha256": change.target.content_sha256, "reason": "Read."})

    press("check")
    press("shadow")
    carry_out_shadow(change, *REFUND)
    assert "It made the same 2 calls as 1 recorded cases." in client.get(page).content.decode()
    press("try")
    press("promote")
    press("rollback")
    return Change.objects.get(pk=change.pk)


def let_policy_try(change: Change) -> Experiment:
    """Let the policy take the steps up to the trial; return the experiment that watches it."""
    climb()
    climb()
    carry_out_shadow(change, *REFUND)
    climb()
    change.refresh_from_db()
    assert change.rung == "canary"
    return Experiment.objects.get(treated_release=change.release)


def climb_by_policy(service: Service) -> Change:
    """Let the policy and the experiment take every step, on traffic to which the change does good, then harm."""
    agent = make_deployed_shop(service, make_project(), changes_by="policy")
    change = propose_refund(agent, refund(agent))
    experiment = let_policy_try(change)
    good = Traffic(experiment=experiment, base=0.5, lift=0.4)
    for units in (600, 260):
        good.send(units)
        take_look(experiment.pk)
    assert Change.objects.get(pk=change.pk).rung == "stable"
    assert take_back_worse() == 0
    Traffic(experiment=experiment, base=0.5).send(200, share=0)
    assert take_back_worse() == 1
    return Change.objects.get(pk=change.pk)


def test_every_way_to_stable_and_back_leaves_the_same_audit_trail(shop: Service) -> None:
    changes = [climb(shop) for climb in (climb_by_api, climb_by_admin, climb_by_policy)]

    trails = [told(change.agent.project) for change in changes]
    assert [change.rung for change in changes] == ["rolled_back"] * 3
    assert [change.agent.current for change in changes] == [change.base for change in changes]
    assert trails[0] == trails[1] == trails[2]
    assert [each for each in trails[0] if each.startswith("change")] == [
        f"change_{rung}" for rung in ("proposed", "checked", "shadowed", "canary", "stable", "rolled_back")
    ]
    assert set(Deployment.objects.get(project=changes[2].project).events.values_list("made_by", flat=True)) == {
        "policy:test", "policy:changes", "policy:experiments"
    }  # fmt: skip
    assert verify_audit().faults == []


@pytest.mark.nightly
def test_trial_that_brings_nothing_is_rolled_back() -> None:
    agent = make_agent(system=PROMPTED["system"])
    serve_releases(agent.project)
    Agent.objects.update(changes_by="policy")
    go_on(make_run(agent), Script("At nine."))
    change = propose_change(agent, ProposedChange(reason="Brief.", system="You answer in one sentence."), by=BY)
    climb()
    climb()
    carry_out_shadow(change, "At nine.")
    climb()
    experiment = Experiment.objects.get()
    traffic = Traffic(experiment=experiment, base=0.5)

    for units in (700, 2_500):
        traffic.send(units)
        take_look(experiment.pk)

    experiment.refresh_from_db()
    change.refresh_from_db()
    assert (experiment.rule, experiment.conclusion, change.rung) == ("better", "no_benefit", "rolled_back")
    assert Deployment.objects.get().events.order_by("-version")[0].made_by == POLICY.label


def test_trial_of_a_person_is_watched_and_waits_for_the_person(shop: Service) -> None:
    agent = make_deployed_shop(shop, make_project())
    change = climb_to_shadow(propose_refund(agent, refund(agent)))

    start_trial(change, sha256=change.target.content_sha256, by=BY, share=200)
    experiment = Experiment.objects.get()
    Traffic(experiment=experiment, base=0.5, lift=0.4).send(1_500)
    take_look(experiment.pk)

    experiment.refresh_from_db()
    assert (experiment.conclusion, Change.objects.get().rung) == ("better", "canary")
    assert get_deployment(agent.project).canary_share == 200
    client = log_in(agent.project, permissions=["view_agent", "view_change", "decide_change", "deploy_release"])
    lineage = client.get(reverse("admin:agents_agent_change", args=[agent.pk])).content.decode()
    page = client.get(reverse("admin:inbox_item", args=["change", change.pk])).content.decode()
    assert 'aria-keyshortcuts="b"' in lineage
    assert all(re.search(r"experiment 1</a>: \+\d+\.\d points", each) for each in (lineage, page))


def test_next_trial_ends_the_experiment_of_the_one_before() -> None:
    project = make_project()
    first = make_change(project, step="promote")
    promote_change(Change.objects.get(pk=first.pk), by=POLICY)

    second = make_change(project, step="promote")

    running = Experiment.objects.running().get()
    assert (Experiment.objects.count(), running.treated_release) == (2, second.release)
