"""The table of verdicts: agreement by hand, counting, and files that are not complete."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.proposal_verdicts import kappa, report, sample

pytestmark = pytest.mark.nightly


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    said = dict.fromkeys(("do", "avoid", "not_when", "because"), "")
    ids = [("P1", "shell"), ("P2", "shell"), ("P3", "games")]
    write(tmp_path / "proposals.jsonl", [{"id": id, "kind": kind, "when": id, "support": 1} | said for id, kind in ids])
    later = [{"when": "P1"}, {"id": "N1", "when": "P4"}, {"when": "P5"}]
    write(tmp_path / "proposals-7.jsonl", [{"kind": "shell", "support": 1} | each | said for each in later])
    write(tmp_path / "failures.jsonl", [{"id": "F1"}, {"id": "F2"}])
    for judge, verdicts in (("a", ("approve", "approve", "noise")), ("b", ("approve", "wrong", "noise"))):
        rows = [{"id": id, "verdict": verdict} for (id, _), verdict in zip(ids, verdicts, strict=True)]
        write(tmp_path / f"verdicts-{judge}.jsonl", rows)
        useful = ["P1"] if judge == "a" else ["P2"]
        seen = [
            {"id": "F1", "visible_cause": True, "useful": useful},
            {"id": "F2", "visible_cause": judge == "a", "useful": []},
        ]
        write(tmp_path / f"failures-{judge}.jsonl", seen)
    write(tmp_path / "verdicts-7-a.jsonl", [{"id": "N1", "verdict": "edit"}])
    write(tmp_path / "verdicts-7-b.jsonl", [])
    both = {"verdict_a": "approve", "verdict_b": "approve"}
    held_out = [
        {"kind": "sql", "visible_cause": True, "do": "List"} | both,
        {"kind": "sql", "visible_cause": True, "do": "Guess"} | both | {"verdict_b": "wrong"},
        {"kind": "shell", "visible_cause": False},
    ]
    write(tmp_path / "held-out.jsonl", held_out)
    once_judged = [
        {"kind": "grid", "visible_cause": True, "do": "List", "verdict": "approve"},
        {"kind": "grid", "visible_cause": True, "do": "Guess", "verdict": "noise"},
        {"kind": "data", "visible_cause": False},
    ]
    write(tmp_path / "held-out-12.jsonl", once_judged)
    for name in ("13", "14", "15"):
        write(tmp_path / f"held-out-{name}.jsonl", [{"kind": "home", "visible_cause": True}])
    return tmp_path


def test_kappa_is_agreement_beyond_chance() -> None:
    # Observed 3 of 4; by chance (2·1 + 2·3) / 16 = 1/2
    assert kappa(["x", "x", "y", "y"], ["x", "y", "y", "y"]) == pytest.approx(0.5)
    assert kappa(["x", "y"], ["y", "x"]) == pytest.approx(-1)


def test_report_counts_what_both_approve_and_what_either_calls_wrong(folder: Path) -> None:
    text = report(folder)

    assert "| all | 3 | 2 | 1 | 1 | 1 | 1 |" in text
    assert "| games | 1 | 0 | 0 | 0 | 0 | 1 |" in text
    assert "agree on 2 of 3" in text
    assert "1 of them have the words that were judged: the judges approve 1 and 1 of these and call 0 wrong" in text
    assert "1 of them no judge has read" in text
    assert "Of 1 with other words, judge A says: 0 approve, 1 edit, 0 wrong, 0 noise.\nJudge B has not judged" in text
    assert "Of 2 failed runs, 1 show both judges why they failed; for 1 of these (100%)" in text


def test_report_counts_approved_proposals_for_held_out_runs(folder: Path) -> None:
    text = report(folder)

    assert "| sql | 2 | 2 | 2 | 1 (50%) | 1 of 2 |" in text
    assert "| all | 3 | 2 | 2 | 1 (50%) | 1 of 2 |" in text


def test_report_counts_verdicts_of_a_single_reader(folder: Path) -> None:
    text = report(folder)

    assert "| data | 1 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| grid | 2 | 2 | 2 | 1 (50%) | 0 | 1 |" in text
    assert "Of 2 proposals, 1 (50%) are approved." in text


def test_report_counts_failed_runs_without_any_proposal(folder: Path) -> None:
    text = report(folder)

    assert "| home | 1 | 1 | 0 | 0 (0%) | 0 | 0 |" in text
    assert "Of 0 proposals, 0 are approved." in text


def test_missing_verdict_is_refused(folder: Path) -> None:
    write(folder / "verdicts-b.jsonl", [{"id": "P1", "verdict": "fine"}])

    with pytest.raises(ValueError, match=r"verdicts-b\.jsonl has no verdict for P1, P2, P3"):
        report(folder)


def test_sample_is_the_same_each_time(folder: Path) -> None:
    assert sample(folder, 2) == sample(folder, 2)
    assert len(sample(folder, 2).splitlines()) == 2
