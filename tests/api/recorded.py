"""The examples of the OpenAPI document, taken from a run of the API on real data.

    RECORD_EXAMPLES=1 uv run pytest tests/api/test_openapi.py

writes memory/api/examples.json again; then `manage.py spectacular --file docs/openapi.yaml`.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.utils import timezone
from rest_framework.test import APIClient

from evaluation.evolution.requests import run_evolution
from evaluation.models import EvaluationRun
from evaluation.runner import build_results, create_run
from evaluation.suites.base import Options
from evaluation.suites.replay import REFLECTOR, SOURCES, Replay
from memory.curation.priority import prioritise_heuristics
from memory.index.heuristic_vectors import embed_heuristics
from reflection.imports.execution import run_import
from reflection.reflectors.reflections import run_reflection
from runtime.models.changes import Change
from runtime.models.runs import Run
from tests.evaluation.recorded_runs import Shopkeeper, make_shop_with_runs
from tests.real_runs import WEBSHOP, load_runs
from tests.runtime.changing import PROMPTED, PROPOSED, Service, carry_out_shadow
from tests.runtime.running import Script, go_on

ROOT = "/api/v1"
TASK = "i want a pair of wool slippers in grey, and price lower than 40.00 dollars"
LESSON = {
    "trigger": "When a search returns only results above the price the task allows",
    "guideline": "Search again with fewer words and without adjectives, and look at the second page of results.",
    "avoid": "Buying the cheapest result although it is above the price.",
    "not_when": "The task names no price.",
    "rationale": "The purchase counts as wrong when the price is above the limit, whatever else fits.",
    "polarity": "mixed",
    "task_id": "webshop",
    "tags": ["webshop", "price"],
}

MISTAKE = {
    "mistake_type": "price_above_limit",
    "bad_decision": "Bought the first result without comparing its price with the limit.",
    "correct_decision": "Compare the price with the limit before buying.",
    "evidence": "The last step bought an item above 40 dollars.",
    "lesson": "Whatever else fits, a price above the limit makes the purchase wrong.",
}


@dataclass
class Recorder:
    client: APIClient
    examples: dict[str, Any] = field(default_factory=dict)

    def call(self, operation_id: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Make a call, keep it as an example of the operation, and return its answer."""
        response = getattr(self.client, method)(f"{ROOT}{path}", body, headers=headers)
        entry = self.examples.setdefault(operation_id, {})
        if body is not None and method != "get":
            entry.setdefault("request", body)
        is_json = "json" in response.get("Content-Type", "")
        answer = response.json() if is_json else response.content.decode()
        if answer:
            entry.setdefault("responses", {})[str(response.status_code)] = answer
        return answer


def record_examples(client: APIClient, anonymous: APIClient) -> dict[str, Any]:
    """Go through every operation once, as an agent and its reviewers would."""
    recorder = Recorder(client)
    call = recorder.call
    run = _a_run()
    trajectory = call("recordTrajectory", "post", "/trajectories", run)
    run_path = f"/trajectories/{trajectory['id']}"
    call("recordTrajectory", "post", "/trajectories", run)
    call("listTrajectories", "get", "/trajectories?limit=1")
    call("getTrajectory", "get", run_path)
    outcome = {"outcome": "failure", "score": run["score"], "outcome_source": "environment", "reflect": False}
    call("reportOutcome", "post", f"{run_path}/outcome", outcome)

    opened = client.post(f"{ROOT}/trajectories", {"task": TASK, "open": True, "parent_id": trajectory["id"]}).json()
    open_path = f"/trajectories/{opened['id']}"
    step = {"index": 1, "action": "search[shower curtain]", "observation": "50 results", "duration_ms": 420}
    call("appendSteps", "post", f"{open_path}/steps", {"steps": [step]})
    ending = {"outcome": "success", "outcome_source": "environment", "tokens": 1200, "reflect": False}
    call("finishTrajectory", "post", f"{open_path}/finish", ending)

    queued = call("reflect", "post", "/reflect", {"trajectory_id": trajectory["id"]})
    run_reflection(owner="examples")
    reflection = call("getReflection", "get", f"/reflections/{queued['id']}")
    call("listReflections", "get", f"/reflections?trajectory={trajectory['id']}")

    proposed = client.get(f"{ROOT}/heuristics/{reflection['proposals'][0]['heuristic_id']}").json()
    path = f"/heuristics/{proposed['id']}"
    decision = {
        "content_sha256": proposed["content_sha256"],
        "reason": "True of every run that clicked what the page does not show.",
    }
    call("approveHeuristic", "post", f"{path}/approve", decision)
    embed_heuristics([proposed["id"]])
    question = {"task": TASK, "task_id": "webshop", "agent": "react-shopper", "top_k": 5}
    answer = call("retrieveLessons", "post", "/retrieve", question)
    call("getContext", "get", "/context", {"task": TASK, "top_k": 5})
    call("getMemorySummary", "get", "/memory/summary?task_id=webshop")
    call("getExport", "get", "/export")
    call("getExportPage", "get", "/export/memory_evidence")
    manifest, line = _an_export()
    begun = call("beginImport", "post", "/imports", {"manifest": manifest, "dry_run": True})
    call("sendImportParts", "put", f"/imports/{begun['id']}", {"offset": 0, "parts": [line]})
    run_import(owner="examples")
    call("getImport", "get", f"/imports/{begun['id']}")
    call("getRetrieval", "get", f"/retrievals/{answer['retrieval_id']}")
    call("getRetrievalOutcomes", "get", "/retrievals/outcomes")
    said = {"verdict": "followed", "helpful": True, "retrieval_id": answer["retrieval_id"]}
    call("rateHeuristic", "post", f"{path}/feedback", said)
    call("getHeuristic", "get", path)
    call("listHeuristics", "get", "/heuristics?task_id=webshop&limit=1")
    call("reviseHeuristic", "patch", path, {"not_when": "The task names no price."})
    call("rejectHeuristic", "post", f"{path}/reject", {"reason": "The limits say so already."})
    call("retireHeuristic", "post", f"{path}/retire", {"reason": "The shop corrects such clicks itself now."})
    call("proposeHeuristic", "post", "/heuristics", LESSON)
    other = client.post(f"{ROOT}/heuristics", LESSON).json()
    again = client.post(f"{ROOT}/heuristics", LESSON | {"guideline": "Search with fewer words."}).json()
    merge = {"into_id": other["id"], "content_sha256": again["content_sha256"], "reason": "Says the same."}
    call("mergeHeuristic", "post", f"/heuristics/{again['id']}/merge", merge)
    call("quarantineHeuristic", "post", f"/heuristics/{other['id']}/quarantine", {"reason": "Under dispute."})

    own = LESSON | {"external_id": "price-17"}
    unknown = {"trajectory_id": "019a0000-0000-7000-8000-000000000000"}
    batch = {"heuristics": [own | {"metadata": {"source": "playbook.md"}}, LESSON | {"evidence": [unknown]}]}
    taken = call("proposeHeuristics", "post", "/heuristics/batch", batch)["results"][0]
    prioritise_heuristics([taken["heuristic_id"]])
    ready = {"heuristic_id": taken["heuristic_id"], "decision": "approve", "content_sha256": taken["content_sha256"]}
    call("decideHeuristics", "post", "/reviews", {"decisions": [ready]})
    later = {"trajectory_id": trajectory["id"], "first_step": 1, "last_step": 2}
    path_of_own = f"/heuristics/{taken['heuristic_id']}"
    call("addEvidence", "post", f"{path_of_own}/evidence", {"evidence": [later]})
    confirmed = {"content_sha256": taken["content_sha256"], "reason": "The run shows it."}
    call("confirmEvidence", "post", f"{path_of_own}/confirm-evidence", confirmed)

    call("listReviews", "get", "/reviews?limit=2")

    settings = {"mode": "releases", "holdout_percent": 5, "shadow_percent": 20}
    call("changeDeployment", "patch", "/deployment", settings)
    third = client.post(f"{ROOT}/heuristics", LESSON | {"guideline": "Sort the results by price."}).json()
    read = {"content_sha256": third["content_sha256"]}
    client.post(f"{ROOT}/heuristics/{third['id']}/approve", read)
    call("cutRelease", "post", "/releases", {"note": "Sorting by price."})
    call("listReleases", "get", "/releases?limit=1")
    call("getRelease", "get", "/releases/2")
    call("diffReleases", "get", "/releases/1/diff/2")
    call("startCanary", "post", "/deployment/canary", {"release": 2, "percent": 10})
    call("startExperiment", "post", "/experiments", {"release": "2", "max_units": 800, "tau": 0.1})
    asked = client.post(f"{ROOT}/retrieve", {"task": TASK, "session": "a1"}).json()
    ended = run | {"external_id": "trial-1", "retrieval_id": asked["retrieval_id"], "outcome_source": "test"}
    client.post(f"{ROOT}/trajectories", ended)
    call("lookAtExperiment", "post", "/experiments/1/looks")
    call("listExperiments", "get", "/experiments")
    call("stopExperiment", "post", "/experiments/1/stop", {"reason": "Too few runs at 1 %."})
    call("getExperiment", "get", "/experiments/1")
    call("getShadow", "get", "/shadow")
    call("listShadowAnswers", "get", "/shadow/answers?differs=true")
    call("getUplift", "get", "/uplift?days=30")
    call("promoteRelease", "post", "/deployment/promote", {"reason": "+6 points in 1,204 runs."})
    call("rollBack", "post", "/deployment/rollback", {"reason": "Carts are abandoned more often."})
    call("getDeployment", "get", "/deployment")

    _remember(call)
    _store_tools(call)
    _run_agents(call)
    _change_agents(call)
    _evolve_an_agent(call)

    call("evaluate", "post", "/evaluate", {"suites": ["toolchoice"], "arms": ["hybrid:5"], "limit": 120})
    _finish_an_evaluation()
    call("getEvaluations", "get", "/evaluate")

    call("error400", "post", "/trajectories", run | {"score": 1.5})
    call("error404", "get", "/trajectories/019a0000-0000-7000-8000-000000000000")
    call("error409", "post", f"{path}/approve", decision)
    anonymous_recorder = Recorder(anonymous, recorder.examples)
    anonymous_recorder.call("error401", "get", "/trajectories")
    for name, example in recorder.examples.items():
        if name.startswith("error"):
            example.pop("request", None)
    return recorder.examples


def _remember(call: Any) -> None:
    """Edit a block, have a proposal decided, and keep and find passages."""
    human = {"label": "human", "description": "What is known about the customer.", "char_limit": 2000}
    made = call("createBlock", "post", "/blocks", human | {"value": "Name: Ana"})
    path = f"/blocks/{made['id']}"
    call("appendToBlock", "post", f"{path}/append", {"text": "Drinks tea", "reason": "She said so."})
    call("replaceInBlock", "post", f"{path}/replace", {"old": "Drinks tea", "new": "Drinks green tea"})
    call("patchBlock", "post", f"{path}/patch", {"patch": "@@ -1,1 +1,2 @@\n Name: Ana\n+City: Lisbon\n"})
    call("undoBlock", "post", f"{path}/undo", {})
    call("changeBlock", "patch", path, {"char_limit": 3000})
    call("getBlock", "get", path)
    call("listBlocks", "get", "/blocks?label=human")
    call("getBlockHistory", "get", f"{path}/history?limit=2")
    persona = {"label": "persona", "value": "You are brief.", "policy": "propose"}
    shared = call("createBlock", "post", "/blocks", persona)
    proposed = call("appendToBlock", "post", f"/blocks/{shared['id']}/append", {"text": "You name prices."})["made"]
    decision = {"decision": "approve", "content_sha256": proposed["content_sha256"], "reason": "Customers ask for it."}
    call("decideBlockRevision", "post", f"/blocks/revisions/{proposed['id']}/decide", decision)

    kept = {"text": "Ana returned the wool slippers: size 38 was too small.", "tags": ["orders"]}
    passage = call("insertPassage", "post", "/passages", kept)
    call("insertPassage", "post", "/passages", kept)
    call("searchPassages", "post", "/passages/search", {"query": "Which shoe size does she need?", "limit": 1})
    call("listPassages", "get", "/passages?tag=orders&limit=1")
    call("getPassage", "get", f"/passages/{passage['id']}")
    call("insertPassage", "post", "/passages", {"text": "Ana wants no calls.", "user_id": "c-17"})
    person = {"user_id": "c-17", "texts": ["ana@example.org"]}
    call("findPerson", "post", "/persons/find", person)
    call("exportPerson", "post", "/persons/export", person | {"limit": 1})
    call("erasePerson", "post", "/persons/erase", person)


def _store_tools(call: Any) -> None:
    """Store a tool in Python, approve what was read of it, and try it."""
    tool = {
        "name": "count_days",
        "description": "How many days two dates are apart.",
        "kind": "pure",
        "parameters": {
            "type": "object",
            "properties": {"first": {"type": "string"}, "last": {"type": "string"}},
            "required": ["first", "last"],
            "additionalProperties": False,
        },
        "source": (
            "from datetime import date\n\n\ndef count_days(first: str, last: str) -> int:\n"
            "    return (date.fromisoformat(last) - date.fromisoformat(first)).days\n"
        ),
        "examples": [{"arguments": {"first": "2026-11-01", "last": "2026-11-23"}, "answer": 22}],
    }
    stored = call("storeTool", "post", "/tools", tool)
    path = f"/tools/{stored['id']}"
    call("approveTool", "post", f"{path}/approve", {"sha256": stored["latest"]["sha256"]})
    asks = call("storeTool", "post", "/tools", tool | {"requires_approval": True})
    call("rejectTool", "post", f"{path}/reject", {"sha256": asks["latest"]["sha256"]})
    call("tryTool", "post", f"{path}/try", {"arguments": {"first": "2026-02-27", "last": "2026-03-01"}})
    call("getTool", "get", path)
    call("listTools", "get", "/tools?limit=1")


def _run_agents(call: Any) -> None:
    """Let an agent ask before it writes to a customer, and approve it."""
    rules = [{"type": "requires_approval", "tool": "send_message"}]
    support = {"name": "support", "system": "You answer questions about orders.", "tools": ["send_message"]}
    agent = call("createAgent", "post", "/agents", support | {"rules": rules})
    path = f"/agents/{agent['id']}"
    call("changeAgent", "patch", path, {"system": "You answer questions about orders. Be brief."})
    call("getAgent", "get", path)
    call("listAgents", "get", "/agents?limit=1")
    call("listAgentRevisions", "get", f"{path}/revisions?limit=1")
    run = call("startRun", "post", f"{path}/runs", {"input": "Was order 17 refunded?", "task_id": "refunds"})
    row = Run.objects.get(pk=run["id"])
    go_on(row, Script([("send_message", {"message": "It is refunded."})]))
    waiting = call("listApprovals", "get", "/approvals?status=pending")["results"][0]["effect"]
    decision = {"decision": "approve", "arguments_sha256": waiting["arguments_sha256"], "reason": "It is."}
    call("decideEffect", "post", f"/effects/{waiting['id']}/decide", decision)
    go_on(row, Script("I told the customer."))
    call("getRun", "get", f"/runs/{run['id']}")
    call("listSteps", "get", f"/runs/{run['id']}/steps?limit=1")
    call("listEffects", "get", f"/runs/{run['id']}/effects")
    call("listAgentRuns", "get", f"{path}/runs?limit=1")
    call("listMessages", "get", f"/conversations/{run['conversation']}/messages?limit=2")
    conversation = f"/conversations/{run['conversation']}"
    call("getConversation", "get", conversation)
    call("forkConversation", "post", f"{conversation}/fork", {})
    call("rewindConversation", "post", f"{conversation}/rewind", {"message": 1})
    call("compactConversation", "post", f"{conversation}/compact")
    other = call("startRun", "post", f"{path}/runs", {"input": "And order 18?", "conversation": run["conversation"]})
    call("cancelRun", "post", f"/runs/{other['id']}/cancel")
    call("allowTool", "post", f"{path}/allow", {"tool": "send_message"})
    go_on(Run.objects.get(pk=other["id"]), Script())
    call("resumeRun", "post", f"/runs/{other['id']}/resume", {"limits": {"max_steps": 10}})


def _change_agents(call: Any) -> None:
    """Take a change of an agent up the ladder and down again, and reject another."""
    agent = call("createAgent", "post", "/agents", PROMPTED)
    run = call("startRun", "post", f"/agents/{agent['id']}/runs", {"input": "When does the shop open?"})
    go_on(Run.objects.get(pk=run["id"]), Script("At nine."))
    call("changeEvolution", "patch", f"/agents/{agent['id']}/evolution", {"sleep_after_runs": 100})
    call("getEvolution", "get", f"/agents/{agent['id']}/evolution")
    change = call("proposeChange", "post", "/changes", {"agent": agent["id"], **PROPOSED})
    path = f"/changes/{change['id']}"
    call("proposeChange", "post", "/changes", {"agent": agent["id"], **PROPOSED})
    call("checkChange", "post", f"{path}/check")
    call("shadowChange", "post", f"{path}/shadow")
    carry_out_shadow(Change.objects.get(pk=change["id"]), "At nine.")
    call("getChange", "get", path)
    call("tryChange", "post", f"{path}/canary", {"sha256": change["sha256"], "percent": 10, "reason": "It agrees."})
    call("promoteChange", "post", f"{path}/promote", {"reason": "+6 points in 1,204 runs."})
    call("rollBackChange", "post", f"{path}/rollback", {"reason": "Customers ask twice."})
    other = call("proposeChange", "post", "/changes", {"agent": agent["id"], "reason": "Shorter.", "system": "Answer."})
    call("rejectChange", "post", f"/changes/{other['id']}/reject", {"reason": "It says too little."})
    call("listChanges", "get", "/changes?limit=1")


def _evolve_an_agent(call: Any) -> None:
    """Let an agent that pays orders back in two calls find out that one would do."""
    project = Run.objects.latest("created_at").project
    with Service().running() as shop:
        agent = make_shop_with_runs(shop, project=project)
    queued = call("evolve", "post", "/evolutions", {"agent": str(agent.pk), "generations": 1})
    run_evolution(UUID(queued["id"]), owner="examples", find=lambda model: Shopkeeper())
    call("getEvolutionReport", "get", f"/evolutions/{queued['id']}")
    call("listEvolutions", "get", "/evolutions?limit=1")


def _finish_an_evaluation() -> None:
    """Count recorded outcomes, which takes a moment, and leave it as the newest of the installation."""
    options = Options(suites=("replay",))
    run = create_run(options, by="command:evaluate")
    suite = Replay()
    units = {unit: suite.run_unit(unit, options, lambda *_: None) for unit in SOURCES}
    run.units = {"replay": units | {REFLECTOR: {"learned": None, "timing": {}}}}
    run.results = build_results(run, options)
    run.results["suites"][0] |= {name: run.results["suites"][0][name][:3] for name in ("arms", "figures")}
    run.status, run.finished_at = EvaluationRun.Status.FINISHED, timezone.now()
    run.save()


def _an_export() -> tuple[dict[str, Any], str]:
    """Return the manifest and the only file of an export of settings."""
    row = {
        "id": "019a0000-0000-7000-8000-00000000000a",
        "task_id": "webshop",
        "max_works_share": 0.5,
        "max_avoid_share": None,
        "set_by": "policy:defaults",
        "set_at": "2026-01-05T09:00:00+00:00",
    }
    line = f"{json.dumps(row)}\n"
    file = {
        "table": "memory_polarityquota",
        "columns": sorted(row),
        "rows": 1,
        "bytes": len(line),
        "sha256": hashlib.sha256(line.encode()).hexdigest(),
    }
    project = {"id": "019a0000-0000-7000-8000-000000000001", "slug": "webshop", "name": "Web shop"}
    parts = {"format": "erl-project", "version": 1, "families": ["settings"], "project": project, "files": [file]}
    return parts, line


def _a_run() -> dict[str, Any]:
    run = next(run for run in load_runs(WEBSHOP) if run["id"] == "webshop-254")
    return {
        "task": run["task"],
        "task_id": "webshop",
        "steps": run["steps"],
        "outcome": run["outcome"],
        "score": round(run["score"], 4),
        "outcome_source": "environment",
        "agent": "react-shopper",
        "model": "text-davinci-002",
        "tags": ["webshop"],
        "external_id": run["id"],
        "mistakes": ["Bought the first result although it cost more than the task allows."],
        "mistake_cards": [MISTAKE],
        "metadata": {"benchmark": "WebShop", "index": 254},
    }
