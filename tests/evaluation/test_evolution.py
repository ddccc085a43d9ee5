"""An agent evolves on tasks in three sets, and what must not help does not."""

from functools import cache
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from bench.evolution_controls import poison, shuffle
from evaluation.evolution.archive import Archive, ArchivedCandidate
from evaluation.evolution.bfcl import BfclSuite
from evaluation.evolution.generations import Evolved, evolve
from evaluation.evolution.requests import SUITES
from evaluation.evolution.suite import EvolutionTask, split
from evaluation.models import Evolution
from runtime.changes.choice import Score
from runtime.changes.macros import Macro, read_calls, write_macro
from runtime.changes.sequences import ObservedCall, ObservedRun, find_repeated
from runtime.definitions.checks import find_example_faults, find_type_faults

TEXT = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
AMOUNT = {"type": "object", "properties": {"order": {"type": "string"}, "amount": {"type": "number"}, "currency": {}}}


class Cars(BfclSuite):
    """The dialogues about a car."""

    def tasks(self) -> list[EvolutionTask]:
        return [each for each in super().tasks() if each.family == "VehicleControlAPI"]


class Few(Cars):
    """Some of them."""

    def tasks(self) -> list[EvolutionTask]:
        return super().tasks()[:15]


@cache
def evolved() -> Evolved:
    pytest.importorskip("bfcl_eval")
    return evolve(Cars(), generations=1)


def run_command(*arguments: str) -> str:
    printed = StringIO()
    call_command("evolve", *arguments, stdout=printed)
    return printed.getvalue()


def paid(order: str, total: int, *, currency: str = "EUR") -> tuple[ObservedCall, ...]:
    """Return the calls of a run that pays an order back."""
    return (
        ObservedCall(tool="read_order", arguments={"order": order}, value={"total": total}),
        ObservedCall(
            tool="pay_back", arguments={"order": order, "amount": total, "currency": currency}, value={"paid": True}
        ),
    )


def mine(*segments: tuple[ObservedCall, ...]) -> list[Macro]:
    runs = [ObservedRun(id=str(number), segments=(segment,)) for number, segment in enumerate(segments)]
    return [macro for each in find_repeated(runs) if (macro := write_macro(each)) is not None]


def test_macro_reads_off_where_arguments_come_from() -> None:
    (macro,) = mine(paid("A1", 15), paid("B2", 27), paid("C3", 99))

    ((first, given), (second, sources)) = read_calls(macro.definition.description)

    assert (first, second) == ("read_order", "pay_back")
    assert given == {"order": {"parameter": "order"}}
    assert sources == {
        "order": {"parameter": "order"},
        "amount": {"answer": 1, "path": ["total"]},
        "currency": {"is": "EUR"},
    }
    assert find_type_faults(macro.definition, {"read_order": TEXT, "pay_back": AMOUNT}) == []
    assert find_example_faults(macro.definition) == []


def test_sequence_of_few_runs_is_no_macro() -> None:
    assert mine(paid("A1", 15), paid("B2", 27)) == []


def test_no_task_is_in_two_sets() -> None:
    tasks = [EvolutionTask(id=str(number), family=str(number % 3)) for number in range(60)]
    sets = split(tasks, seed=1)

    drawn = [each.id for each in (*sets.mine, *sets.gate, *sets.holdout)]
    assert sorted(drawn) == sorted(each.id for each in tasks)
    assert {each.family for each in sets.gate} == {each.family for each in sets.holdout} == {"0", "1", "2"}


def make_candidate(number: int, **tokens: int) -> ArchivedCandidate:
    scores = {family: Score(tasks=1, solved=1, steps=1, tokens=each) for family, each in tokens.items()}
    return ArchivedCandidate(number=number, generation=0, scores=scores)


def test_parents_are_those_that_no_other_beats_in_every_family() -> None:
    archive = Archive(make_candidate(0, cars=10, files=10))
    for candidate in (make_candidate(1, cars=5, files=12), make_candidate(2, cars=6, files=13)):
        archive.candidates.append(candidate)

    assert [each.number for each in archive.pareto()] == [1, 0]
    assert len(archive.candidates) == 3


def test_evolution_saves_steps_and_keeps_what_worked() -> None:
    measured = evolved().measured

    assert measured["steps"]["high"] < 0
    assert measured["tokens"]["high"] < 0
    assert measured["solved"]["after"] == measured["solved"]["before"]


@pytest.mark.nightly
@pytest.mark.django_db
def test_command_prints_the_same_twice_and_keeps_what_it_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bfcl_eval")
    monkeypatch.setitem(SUITES, "few", Few)

    said = [run_command("demo", "--suite", "few", "--generations", "1") for _ in range(2)]

    first, second = (
        list(each.candidates.order_by("index").values("said", "figures")) for each in Evolution.objects.all()
    )
    assert (said[0], first) == (said[1], second)
    assert said[0].count("\ngeneration ") == len(first) > 1
    looks = [each["figures"]["look"] for each in first if each["figures"]["look"]]
    assert looks == list(range(1, Evolution.objects.all()[0].figures["looks"] + 1))
    [chosen] = [number for number, each in enumerate(first) if each["figures"]["is_chosen"]]
    assert f"best on the gate: candidate {chosen} " in said[0]


@pytest.mark.django_db
def test_too_few_tasks_are_refused() -> None:
    pytest.importorskip("bfcl_eval")

    with pytest.raises(CommandError, match="too few tasks for three sets"):
        run_command("demo", "--most", "1")


def test_shuffled_tools_are_not_promoted() -> None:
    shuffled = shuffle(Cars(), evolved(), seed=0)

    assert (shuffled.promoted, shuffled.tried > 1) == (0, True)
    assert shuffled.forced["solved"]["after"] < shuffled.forced["solved"]["before"]


@pytest.mark.nightly
def test_poisoned_tools_are_stopped_and_named() -> None:
    found = [stopped for _, stopped in poison(evolved())]

    assert [gate for gate, _ in found] == ["replay"] * len(found) != []
    assert all("it also calls" in said for _, said in found)


def test_burnt_gate_is_not_looked_at() -> None:
    pytest.importorskip("bfcl_eval")

    assert evolve(Few(), generations=3, most_looks=2).gate.looks == 2
