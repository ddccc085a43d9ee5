"""How well a language model of yours ranks (mode `erl`), beside the deterministic ranking, on the same questions.

    uv run python -m bench.retrieval_by_model FOLDER --url http://127.0.0.1:8080/v1 [--model NAME] [--key KEY]
        [--queries 40] [--lessons 40] [--deadline 60] [--input-tokens 6000] [--output-tokens 600] [--json FILE]

Takes a sample of a folder in BEIR layout, by a hash of the ids: so many questions and so many lessons, those that
answer the questions among them. Each question goes through `POST /api/v1/retrieve` in the modes erl, hybrid and random.
Prints nDCG@10 with 95% intervals, paired differences, how often the model's own choice was the answer, what the
answers say where it was not, how many lessons it chose, and what a call took. Nothing of the live data is touched.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench.retrieval_quality import (  # sets Django up
    LoadedFolder,
    get_ndcg,
    read_lines,
    read_truth,
    scratch_database,
)

import numpy as np  # isort: skip
from django.test.utils import override_settings
from tqdm import tqdm

from bench.retrieval_figures import get_interval
from memory.retrieval import llm_ranking
from reflection.llm.models import ModelCall, ProviderState

MODES = ("erl", "hybrid", "random")
TOP_K = 10


def order(name: str) -> str:
    """Return what a sample is ordered by: as good as chance, the same every time."""
    return sha256(f"sample{name}".encode()).hexdigest()


def write_sample(folder: Path, place: Path, *, queries: int, lessons: int) -> None:
    """Write a smaller folder: questions whose answers fit into so many lessons, filled up with others."""
    truth = read_truth(folder / "qrels.tsv")
    documents = {document["_id"]: document for document in read_lines(folder / "corpus.jsonl")}
    kept: set[str] = set()
    asked: list[dict[str, Any]] = []
    for query in sorted(read_lines(folder / "queries.jsonl"), key=lambda query: order(query["_id"])):
        relevant = truth.get(query["_id"], set()) & set(documents)
        if relevant and len(kept | relevant) <= lessons and len(asked) < queries:
            kept |= relevant
            asked.append(query)
    # Filled up by the hash, so that the other lessons are a sample as well.
    kept |= set(sorted(set(documents) - kept, key=order)[: lessons - len(kept)])
    (place / "corpus.jsonl").write_text("".join(f"{json.dumps(documents[name])}\n" for name in sorted(kept)))
    (place / "queries.jsonl").write_text("".join(f"{json.dumps(query)}\n" for query in asked))
    rows = [f"{query['_id']}\t{name}\t1\n" for query in asked for name in sorted(truth[query["_id"]] & kept)]
    (place / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))


def measure(loaded: LoadedFolder, *, mode: str) -> dict[str, Any]:
    """Ask every question in one mode."""
    values, seconds, chosen, reasons = [], [], [], Counter[str]()
    for query in tqdm(loaded.queries, desc=mode, leave=False):
        begun = time.perf_counter()
        answer = loaded.memory.ask(query["text"], mode=mode, top_k=TOP_K, may_be_degraded=mode == "erl")
        seconds.append(time.perf_counter() - begun)
        reasons[answer["degraded_reason"] or "-"] += 1
        chosen.append(len(answer["items"]) + len(answer["considered"]) if answer["mode"] == mode else np.nan)
        values.append(get_ndcg([loaded.ids[id] for id in loaded.memory.rank(answer)], loaded.truth[query["_id"]]))
        # Each question is a trial of its own.
        llm_ranking.breaker.reset()
        ProviderState.objects.all().delete()
    loaded.figures.scores[mode] = values
    scores = np.array(values)
    low, high = get_interval(scores)
    # NaN marks answers that the deterministic ranking gave in the model's place.
    own = ~np.isnan(np.array(chosen, dtype=float))
    return {
        "mode": mode,
        "n": len(values),
        "ndcg_at_10": round(float(scores.mean()), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "answered_by_mode": int(own.sum()),
        "ndcg_where_answered": round(float(scores[own].mean()), 4) if own.any() else None,
        "items_mean": round(float(np.nanmean(chosen)), 2) if own.any() else None,
        "said": dict(reasons.most_common()),
        "p50_s": round(float(np.median(seconds)), 3),
    }


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", required=True, help="Of an OpenAI-compatible service, ending in /v1.")
    parser.add_argument("--model", default="local")
    parser.add_argument("--key", default="test-key")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--lessons", type=int, default=40)
    parser.add_argument("--deadline", type=float, default=60.0, help="Seconds for a ranking.")
    parser.add_argument("--input-tokens", type=int, default=6000)
    parser.add_argument("--output-tokens", type=int, default=600)
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    return parser.parse_args(arguments)


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ask the sample in every mode; print the figures and return those of each mode."""
    provider = override_settings(
        ERL_LLM_PROVIDER="openai-compatible",
        ERL_LLM_MODEL=options.model,
        ERL_LLM_BASE_URL=options.url,
        ERL_LLM_API_KEY=options.key,
        ERL_LLM_TIMEOUT_SECONDS=options.deadline,
        ERL_LLM_MAX_INPUT_TOKENS=options.input_tokens,
        ERL_LLM_MAX_OUTPUT_TOKENS=options.output_tokens,
    )
    llm_ranking.DEADLINE_SECONDS = options.deadline
    rows: list[dict[str, Any]] = []
    with provider, tempfile.TemporaryDirectory() as folder:
        write_sample(options.folder, Path(folder), queries=options.queries, lessons=options.lessons)
        loaded = LoadedFolder(Path(folder), experience=False)
        print(f"{options.folder.name}: {len(loaded.queries)} questions, {len(loaded.ids)} lessons")
        for mode in MODES:
            rows.append(measure(loaded, mode=mode))
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
        for mode in MODES[1:]:
            difference = np.array(loaded.figures.scores["erl"]) - loaded.figures.scores[mode]
            low, high = get_interval(difference)
            print(f"erl − {mode}: {difference.mean():+.4f} ({low:+.4f} to {high:+.4f})")
        calls = list(ModelCall.objects.values_list("input_tokens", "output_tokens", "latency_ms"))
        if calls:
            tokens_in, tokens_out, latency = np.median(np.array(calls, dtype=float), axis=0)
            print(
                f"{len(calls)} calls answered; median {tokens_in:.0f} + {tokens_out:.0f} tokens, {latency / 1000:.1f} s"
            )
        else:
            print("no call was answered")
    return rows


def main() -> None:
    options = read_options()
    with scratch_database():
        rows = compare(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
