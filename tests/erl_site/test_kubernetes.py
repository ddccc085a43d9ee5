"""deploy/kubernetes: fields that the API knows, probes, budgets, known settings, and the commands of compose.yaml."""

import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.erl_site.env_example import reads
from tests.erl_site.test_compose import ALLOCATOR, interpolate

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
SCHEMAS: dict[str, Any] = json.loads(Path(__file__).with_name("kubernetes.json").read_text(encoding="utf-8"))
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
OBJECTS: dict[str, dict[str, Any]] = {
    f"{each['kind']}/{each['metadata']['name']}": each
    for name in KUSTOMIZATION["resources"]
    for each in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
}
POLICIES: dict[str, dict[str, Any]] = {
    name.partition("/")[2]: policy["spec"] for name, policy in OBJECTS.items() if policy["kind"] == "NetworkPolicy"
}
PODS = {name: each["spec"]["template"] for name, each in OBJECTS.items() if "template" in each["spec"]}
CONTAINERS: dict[str, dict[str, Any]] = {name: pod["spec"]["containers"][0] for name, pod in PODS.items()}
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_object_has_only_fields_of_the_api(name: str) -> None:
    faults = Draft7Validator(SCHEMAS[OBJECTS[name]["kind"]]).iter_errors(OBJECTS[name])

    assert [f"{fault.json_path}: {fault.message}" for fault in faults] == []


def test_every_file_is_applied() -> None:
    assert set(KUSTOMIZATION["resources"]) == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}


@pytest.mark.parametrize("name", sorted(set(CONTAINERS) - {"Job/migrate"}))
def test_every_server_is_probed(name: str) -> None:
    assert "livenessProbe" in CONTAINERS[name]


def test_web_is_sent_requests_only_while_it_is_ready() -> None:
    probes = {
        name: CONTAINERS["Deployment/web"][name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")
    }

    assert probes == {"livenessProbe": "/health", "readinessProbe": "/ready"}


@pytest.mark.parametrize("part", ["web", "worker"])
def test_disruptions_take_one_at_a_time(part: str) -> None:
    budget = OBJECTS[f"PodDisruptionBudget/{part}"]["spec"]

    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"] == PODS[f"Deployment/{part}"]["metadata"]["labels"]


@pytest.mark.parametrize("name", sorted(name for name in OBJECTS if name.startswith("Deployment/")))
def test_deployment_selects_its_own_pods(name: str) -> None:
    assert OBJECTS[name]["spec"]["selector"]["matchLabels"] == PODS[name]["metadata"]["labels"]


def test_web_grows_with_the_requests_that_wait() -> None:
    scaler, web = OBJECTS["HorizontalPodAutoscaler/web"]["spec"], OBJECTS["Deployment/web"]

    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    assert scaler["metrics"][0]["pods"]["metric"]["name"] == "erl_waiting_requests"  # of erl_site/web/views.py
    assert web["spec"]["template"]["metadata"]["annotations"]["prometheus.io/path"] == "/waiting"
    assert "--workers=1" in CONTAINERS["Deployment/web"]["command"]  # or it would count one of several processes
    assert "replicas" not in web["spec"]


def test_there_is_one_scheduler() -> None:
    scheduler = OBJECTS["Deployment/scheduler"]["spec"]

    assert (scheduler["replicas"], scheduler["strategy"]["type"]) == (1, "Recreate")


@pytest.mark.parametrize("name", sorted(CONTAINERS))
def test_pod_runs_without_rights(name: str) -> None:
    pod, own = PODS[name]["spec"], CONTAINERS[name]["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert own == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("service", ["worker", "evaluator", "scheduler", "migrate"])
def test_commands_are_those_of_compose(service: str) -> None:
    kind = "Job" if service == "migrate" else "Deployment"

    assert CONTAINERS[f"{kind}/{service}"]["command"] == [interpolate(word) for word in SERVICES[service]["command"]]


def test_variables_exist_in_settings() -> None:
    literals = {literal.partition("=")[0] for literal in KUSTOMIZATION["configMapGenerator"][0]["literals"]}
    own = {variable["name"] for container in CONTAINERS.values() for variable in container.get("env", [])}

    assert literals | own <= {read.name for read in reads()} | ALLOCATOR


def test_only_who_changes_tables_is_given_the_owner() -> None:
    secrets = {name: container["envFrom"][1]["secretRef"]["name"] for name, container in CONTAINERS.items()}

    assert secrets == {
        "Deployment/web": "erl-web",
        "Deployment/scheduler": "erl-web",
        "Deployment/worker": "erl",
        "Deployment/evaluator": "erl",
        "Job/migrate": "erl",
    }


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return labels.items() >= selector.get("matchLabels", {}).items() and all(
        expression["operator"] == "In" and labels.get(expression["key"]) in expression["values"]
        for expression in selector.get("matchExpressions", [])
    )


def policies_of(name: str) -> set[str]:
    labels = PODS[name]["metadata"]["labels"]
    return {policy for policy, spec in POLICIES.items() if selects(spec["podSelector"], labels)}


def test_nothing_is_sent_or_received_without_a_rule() -> None:
    assert POLICIES["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_pods_reach_what_they_use_and_nothing_else() -> None:
    always = {"nothing", "names", "database"}

    assert {name: policies_of(name) - always for name in PODS} == {
        "Deployment/web": {"requests", "broker", "internet"},
        "Deployment/worker": {"broker", "internet"},
        "Deployment/evaluator": {"broker", "internet"},
        "Deployment/scheduler": {"broker"},
        "Job/migrate": set(),
    }
    assert {policy for policy, spec in POLICIES.items() if "ingress" in spec} == {"requests"}


def test_requests_arrive_at_the_port_of_the_web_server() -> None:
    (rule,) = POLICIES["requests"]["ingress"]

    assert [port["port"] for port in rule["ports"]] == [CONTAINERS["Deployment/web"]["ports"][0]["name"]]


@pytest.mark.parametrize("address", ["10.1.2.3", "172.20.0.1", "192.168.1.1", "169.254.169.254", "::1", "fd00::1"])
def test_internet_has_no_private_address(address: str) -> None:
    blocks = [peer["ipBlock"] for rule in POLICIES["internet"]["egress"] for peer in rule["to"]]
    inside = ipaddress.ip_address(address)
    allowed = [block for block in blocks if inside in ipaddress.ip_network(block["cidr"])]

    assert len(allowed) == 1
    assert any(inside in ipaddress.ip_network(network) for network in allowed[0]["except"])
