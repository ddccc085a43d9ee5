"""What a number of requests a second takes: processors, memory, connections and disk, from measured figures.

docs/scaling.md has the formula. The figures are in figures.json, each with the command that measured it.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).with_name("figures.json")
USED_SHARE = 0.6  # of a processor: beyond, requests wait for each other
THREADS = 4  # of a web process
MONTH_SECONDS = 30 * 24 * 3600
DATABASE_CONNECTIONS_PER_CORE = 4  # behind a pooler; more only wait inside PostgreSQL


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Requests a second. `run_share` record a run, the others ask for lessons, `new_share` of these for new tasks."""

    requests_per_second: float
    new_share: float
    lessons: int
    run_share: float = 0.1
    cores_per_host: int = 8

    @property
    def rates(self) -> dict[str, float]:
        """Requests of each kind a second."""
        asked = self.requests_per_second * (1 - self.run_share)
        return {
            "new": asked * self.new_share,
            "known": asked * (1 - self.new_share),
            "run": self.requests_per_second * self.run_share,
        }


@dataclass(frozen=True, kw_only=True)
class Part:
    """Hosts of one kind."""

    name: str
    busy_cores: float
    hosts: int
    cores: int
    memory_gb: float
    connections: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What it takes. `drivers` are the largest uses of processors, as shares of all."""

    parts: tuple[Part, ...]
    disk_gb_a_month: float
    drivers: tuple[tuple[str, float], ...]


def read_figures(path: Path = FIGURES) -> dict[str, Any]:
    """Return the measured figures."""
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return figures


def find_cost(figures: Mapping[str, Any], *, kind: str, server: str, lessons: int) -> float:
    """Return the CPU of one request in ms."""
    return _interpolate({size["lessons"]: size[kind][server] for size in figures["requests"]["sizes"]}, lessons)


def find_floor(figures: Mapping[str, Any], *, lessons: int) -> float:
    """Return the CPU of the floor F in ms, which says how fast the machine was that was measured."""
    return _interpolate({size["lessons"]: size["floor"] for size in figures["requests"]["sizes"]}, lessons)


def _interpolate(measured: Mapping[int, float], lessons: int) -> float:
    """Return a figure between the measured sizes, by the logarithm of the lessons; outside, that of the nearest."""
    below = max((size for size in measured if size <= lessons), default=min(measured))
    above = min((size for size in measured if size >= lessons), default=max(measured))
    if below >= above:
        return measured[below]
    share = math.log(lessons / below) / math.log(above / below)
    return measured[below] + share * (measured[above] - measured[below])


def make_plan(demand: Demand, figures: Mapping[str, Any]) -> Plan:
    """Return what the demand takes at 60% of each processor, with one host more of each kind than is needed."""
    rates, costs = demand.rates, _find_costs(demand, figures)
    busy = {"web": 0.0, "database": 0.0}
    for (kind, server), cost in costs.items():
        busy[server] += rates[kind] * cost / 1000
    asked = rates["new"] + rates["known"]
    written = rates["run"] * costs["run", "database"] / 1000 + asked * figures["log"]["milliseconds"] / 1000
    memory, per_host = figures["memory"], demand.cores_per_host
    searched_mb = memory["database_mb_of_a_million_lessons"] * demand.lessons / 1_000_000
    web_hosts = _count_hosts(busy["web"], per_host)
    processes = web_hosts * per_host
    connections = DATABASE_CONNECTIONS_PER_CORE * per_host
    server_gb = (searched_mb * 1.5 + connections * memory["database_connection_mb"]) / 1000 + 2
    replicas = _count_hosts(busy["database"] - written, per_host)
    parts = (
        Part(
            name="web",
            busy_cores=busy["web"],
            hosts=web_hosts,
            cores=processes,
            memory_gb=processes * memory["web_process_mb"] / 1000,
            connections=processes * THREADS * 2,  # to the primary and to a replica
        ),
        Part(
            name="replica",
            busy_cores=busy["database"] - written,
            hosts=replicas,
            cores=replicas * per_host,
            memory_gb=replicas * server_gb,
            connections=replicas * connections,
        ),
        Part(
            name="primary and stand-by",
            busy_cores=written,
            hosts=2,
            cores=2 * max(2, math.ceil(written / USED_SHARE)),
            memory_gb=2 * server_gb,
            connections=connections,
        ),
    )
    disk = figures["disk"]
    bytes_each_second = asked * disk["answer_bytes"] + rates["run"] * disk["run_bytes"]
    return Plan(
        parts=parts,
        disk_gb_a_month=bytes_each_second * MONTH_SECONDS / 1e9,
        drivers=_rank_drivers(rates, costs, embedding=figures["embedding"]["milliseconds"]),
    )


def _find_costs(demand: Demand, figures: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    return {
        (kind, server): find_cost(figures, kind=kind, server=server, lessons=demand.lessons)
        for kind in demand.rates
        for server in ("web", "database")
    }


def _count_hosts(busy_cores: float, cores_per_host: int) -> int:
    return math.ceil(busy_cores / USED_SHARE / cores_per_host) + 1


def _rank_drivers(
    rates: Mapping[str, float], costs: Mapping[tuple[str, str], float], *, embedding: float
) -> tuple[tuple[str, float], ...]:
    new_web = costs["new", "web"]
    used = {
        "embedding new tasks": rates["new"] * min(embedding, new_web),
        "the rest of new tasks in the web": rates["new"] * max(new_web - embedding, 0),
        "searching for new tasks in PostgreSQL": rates["new"] * costs["new", "database"],
        "known tasks": rates["known"] * (costs["known", "web"] + costs["known", "database"]),
        "recording runs": rates["run"] * (costs["run", "web"] + costs["run", "database"]),
    }
    total = sum(used.values()) or 1
    return tuple(sorted(((name, part / total) for name, part in used.items()), key=lambda one: -one[1]))
