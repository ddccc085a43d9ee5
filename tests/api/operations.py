"""Every operation of the committed OpenAPI document, and rows for it to work on: new endpoints are covered unasked."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import yaml
from rest_framework.test import APIClient

from evaluation.experiments.lifecycle import start_experiment
from evaluation.experiments.models import Experiment
from evaluation.experiments.plan import ExperimentPlan
from memory.blocks.edits import Edit, NewBlock, append_to_block, create_block
from memory.blocks.models import Block
from memory.passages.storage import NewPassage, insert_passage
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.releases.deployments import DeploymentChange, change_deployment, cut_release, start_canary
from memory.releases.models import Deployment
from reflection.imports.requests import begin_import
from runtime.api.tool_shapes import ToolInput
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from runtime.loop.finishing import finish_run
from runtime.loop.journal import hash_arguments
from runtime.models.changes import EvaluationRow
from runtime.models.runs import RunStatus, StopReason
from tests.evaluation.evolution_rows import store_evolution
from tests.evaluation.recorded_runs import make_talker
from tests.factories import make_evidence, make_heuristic, make_reflection, make_retrieval, make_trajectory, read
from tests.runtime.changing import make_change
from tests.runtime.running import Script, go_on, make_agent, make_run

DOCUMENT: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "docs" / "openapi.yaml").read_text())
TRIGGER = "A cancellation is asked for"
CALL: tuple[str, dict[str, Any]] = ("send_message", {"message": "It is refunded."})  # waits for a decision
BLOCK = "Name: Ana\nDrinks tea"  # what the recorded edits fit


@dataclass(frozen=True, kw_only=True)
class Operation:
    id: str
    method: str
    path: str
    scopes: list[str]
    body: dict[str, Any] | None
    schema: dict[str, Any]

    def __str__(self) -> str:
        return self.id

    @property
    def has_id(self) -> bool:
        return "{id}" in self.path

    @property
    def needs_hash(self) -> bool:
        return "content_sha256" in self.schema.get("required", ())

    @property
    def success(self) -> set[int]:
        document = DOCUMENT["paths"][self.path][self.method]
        return {int(status) for status in document["responses"] if status < "300"}

    def prepare(self, project: Project) -> tuple[str, Any]:
        """Make a row of `project`; return the address and the body of a valid request about it."""
        url = self.path.replace("{id}", str(make_target(self, project))) if self.has_id else self.path
        return url.replace("{other}", "1").replace("{table}", "memory_trajectory"), fill_body(self, project)

    def send(self, client: APIClient, project: Project, **options: Any) -> Any:
        """Send a valid request about a row of `project`."""
        url, body = self.prepare(project)
        return self.send_to(client, url, body, **options)

    def send_to(self, client: APIClient, url: str, body: Any, **options: Any) -> Any:
        if self.id == "getContext":
            url += "?task=Cancel"
        return getattr(client, self.method)(url, body, **options)


def make_target(operation: Operation, project: Project) -> UUID | str:
    """Make the row whose id the path names, in a state the operation applies to."""
    if operation.path.split("/")[3] == "experiments":
        return str(start_on_trial(operation, project).number)
    if operation.path.split("/")[3] == "releases":
        return cut_release(project, by=Actor.policy("test")).sha256
    if operation.path.split("/")[3] == "shadow":
        return make_shadow_answer(project)
    if operation.path.split("/")[3] == "imports":
        begun = next(one.body or {} for one in OPERATIONS if one.id == "beginImport")
        return begin_import(project, manifest=begun["manifest"], by=Actor.policy("test")).pk
    if operation.path.split("/")[3] in ("blocks", "passages"):
        return make_memory(operation, project)
    if operation.path.split("/")[3] in ("agents", "runs", "effects", "conversations", "approvals"):
        return make_agent_thing(operation, project)
    if operation.path.split("/")[3] == "changes":
        return make_change(project, step=operation.path.rpartition("/")[2]).pk
    if operation.path.split("/")[3] == "evolutions":
        return store_evolution(agent=make_agent(project=project, name=f"agent-{uuid4().hex}")).pk
    if operation.path.split("/")[3] == "tools":
        return save_tool(project, recorded_tool(), by=Actor.policy("test")).revision.tool_id
    served = operation.id in ("retireHeuristic", "quarantineHeuristic", "confirmEvidence")
    words: dict[str, Any] = {"trigger": TRIGGER} if operation.needs_hash else {}
    makers: dict[str, Callable[[], Any]] = {
        "trajectories": lambda: make_trajectory(
            project=project, client="agent", is_open=operation.id in ("appendSteps", "finishTrajectory"), steps=[]
        ),
        "heuristics": lambda: make_heuristic(project=project, status="approved" if served else "proposed", **words),
        "reflections": lambda: make_reflection(trajectory=make_trajectory(project=project)),
        "retrievals": lambda: make_retrieval(project=project),
        "reviews": lambda: make_heuristic(project=project, status="rejected"),
    }
    made = makers[operation.path.split("/")[3]]()
    if operation.id == "confirmEvidence":
        make_evidence(heuristic=made, trajectory=make_trajectory(project=project), approved_at=None, approved_by="")
    pk: UUID = made.pk
    return pk


def recorded_tool() -> ToolDefinition:
    """Return the tool of the recorded request that stores one."""
    return ToolInput(**next(one.body or {} for one in OPERATIONS if one.id == "storeTool")).as_definition()


def make_agent_thing(operation: Operation, project: Project) -> UUID:
    """Make an agent, a run of it in a state that the operation applies to, or a call that waits."""
    waits = operation.path.split("/")[3] in ("effects", "approvals")
    tools = [CALL[0]] if waits or operation.id == "allowTool" else []
    rules = tuple({"type": "requires_approval", "tool": tool} for tool in tools)
    agent = make_agent(project=project, name=f"agent-{uuid4().hex}", tools=tools, rules=rules)
    if operation.path.split("/")[3] == "agents":
        return agent.pk
    run = make_run(agent)
    if waits:
        go_on(run, Script([CALL]))
        return run.effects.get().pk
    if operation.id != "cancelRun":
        finish_run(run, status=RunStatus.FAILED, reason=StopReason.ERROR, error="The worker failed.")
    return run.conversation_id if operation.path.split("/")[3] == "conversations" else run.pk


def make_shadow_answer(project: Project) -> UUID:
    """Make a request that two releases answer."""
    answer = make_retrieval(project=project)
    release = cut_release(project, by=Actor.policy("test"))
    figures: dict[str, Any] = {"lessons": [], "added": [], "removed": [], "reworded": []}
    return EvaluationRow.objects.create(
        project=project,
        kind="answer",
        retrieval=answer,
        stable=release,
        candidate=release,
        verdict="same",
        figures=figures | {"stable_tokens": 1, "candidate_tokens": 1},
        at=answer.created_at,
        made_by="policy:shadow",
    ).pk


def make_memory(operation: Operation, project: Project) -> UUID:
    """Make a passage, or a block that the recorded edits fit, or a proposal to such a block."""
    by = Actor.policy("test")
    if operation.path.split("/")[3] == "passages":
        return insert_passage(project, NewPassage(text="Ana returned the slippers."), by=by)[0].pk
    waits = operation.id == "decideBlockRevision"
    block = create_block(project, NewBlock(label="human", value=BLOCK, policy="propose" if waits else "direct"), by=by)
    if operation.id == "undoBlock" or waits:
        return append_to_block(block, text="more", edit=Edit(by=by)).pk if waits else edit_once(block, by=by)
    return block.pk


def edit_once(block: Block, *, by: Actor) -> UUID:
    """Edit a block, so that there is something to undo."""
    append_to_block(block, text="more", edit=Edit(by=by))
    return block.pk


def fill_body(operation: Operation, project: Project) -> Any:
    """Return the recorded request with ids of rows that exist in `project`, and no hash of another text.

    A hash that is required is that of the words that `make_target` writes.
    """
    if operation.body is None:
        return None
    body = {name: value for name, value in operation.body.items() if not name.endswith("_sha256")}
    if operation.id == "decideBlockRevision":
        body["content_sha256"] = hashlib.sha256(f"{BLOCK}\nmore".encode()).hexdigest()
    elif operation.id == "decideEffect":
        body["arguments_sha256"] = hash_arguments(CALL[1])
    elif operation.needs_hash:
        body["content_sha256"] = read(make_heuristic(project=project, trigger=TRIGGER))
    if operation.id in ("approveTool", "rejectTool"):
        body["sha256"] = recorded_tool().sha256
    if operation.path.split("/")[3] == "deployment" and operation.method == "post":
        deploy(operation, project)
    if operation.id == "proposeChange":
        body["agent"] = str(make_agent(project=project, name=f"agent-{uuid4().hex}").pk)
    if operation.id == "evolve":
        body["agent"] = str(make_talker(project=project, name=f"agent-{uuid4().hex}").pk)
    if operation.id == "startExperiment":
        deploy(operation, project)
    if "decisions" in body:
        heuristic = make_heuristic(project=project)
        body["decisions"] = [
            {"heuristic_id": str(heuristic.pk), "decision": "reject", "content_sha256": read(heuristic)}
        ]
    if "trajectory_id" in body:
        body["trajectory_id"] = str(make_trajectory(project=project).pk)
    if "evidence" in body:
        body["evidence"] = [{"trajectory_id": str(make_trajectory(project=project).pk)}]
    if "into_id" in body:
        body["into_id"] = str(make_heuristic(project=project).pk)
    if "retrieval_id" in body:
        body["retrieval_id"] = str(make_retrieval(project=project).pk)
    return body


def deploy(operation: Operation, project: Project) -> None:
    """Let a project serve its first release, and have a second one: the candidate, or stable where it is taken back."""
    by = Actor.policy("test")
    change_deployment(project, by=by, change=DeploymentChange(mode="releases"))
    make_heuristic(project=project, status="approved")
    release = cut_release(project, by=by)
    if operation.id != "startCanary":
        start_canary(project, release=release, share=100, by=by)


def start_on_trial(operation: Operation, project: Project) -> Experiment:
    """Try the second release of a project in an experiment."""
    running = Experiment.objects.running().filter(project=project).first()
    if running is not None:
        return running
    deploy(operation, project)
    release = Deployment.objects.get(project=project).candidate
    return start_experiment(project, plan=ExperimentPlan(), by=Actor.policy("test"), release=release)


def _load() -> list[Operation]:
    return [
        Operation(
            id=operation["operationId"],
            method=method,
            path=path,
            scopes=operation["security"][0]["apiKey"],
            body=_content(operation).get("example"),
            schema=_schema(_content(operation).get("schema", {})),
        )
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if operation["security"]
    ]


def _content(operation: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return content


def _schema(node: dict[str, Any]) -> dict[str, Any]:
    name = node.get("$ref", "").rpartition("/")[2]
    return DOCUMENT["components"]["schemas"][name] if name else node


OPERATIONS = _load()
WITH_ID = [operation for operation in OPERATIONS if operation.has_id]
WITH_BODY = [operation for operation in OPERATIONS if operation.schema]
