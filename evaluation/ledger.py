"""Log an evaluation's language model calls, so that none is paid for twice and the limits hold."""

import json
import time
from collections import defaultdict, deque
from pathlib import Path
from threading import Lock
from typing import Any

from django.conf import settings

from reflection.llm.base import Provider, ProviderError
from reflection.llm.chat import ChatAnswer, ChatRequest, read_calls, stored_calls

CAP_REACHED = "cap_reached"


class Ledger:
    """Wraps a provider's `chat`. Safe to share between threads.

    The journal has one line per call: time, hash of the question, answer, tokens, cost and latency. A resumed run
    asks the same questions again and finds the answers there. The limits count logged calls, and calls in progress at
    their highest possible price, so they are never exceeded.
    """

    def __init__(
        self, provider: Provider, *, journal: Path | None, max_calls: int | None, max_cost_usd: float | None
    ) -> None:
        self._ask = provider.chat
        self._journal = journal
        self._max_calls, self._max_cost_usd = max_calls, max_cost_usd
        self._lock = Lock()
        self._known: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        self._reserved_calls, self._reserved_usd = 0, 0.0
        self.paid_calls, self.paid_usd = 0, 0.0
        self.calls: list[dict[str, Any]] = []  # of this process, from the journal or paid
        if journal is not None and journal.exists():
            for line in journal.read_text(encoding="utf-8").splitlines():
                self._remember(line)

    def __call__(self, request: ChatRequest) -> ChatAnswer:
        """Answer from the journal, or ask the provider.

        Raises:
            ProviderError: the call failed, or (code `cap_reached`) the limits allow no more calls.
        """
        with self._lock:
            # Taken out of the queue: the same question may have been asked, and paid, several times.
            if self._known[request.sha256]:
                return self._read(self._known[request.sha256].popleft())
            # The highest possible price, so that calls in progress cannot exceed the limit together.
            most_usd = _price(request.estimated_input_tokens, request.max_output_tokens)
            self._check(most_usd)
            self._reserved_calls += 1
            self._reserved_usd += most_usd
        try:
            completion = self._ask(request)
        # Whatever stopped the call, its reservation must not block later ones.
        except BaseException:
            with self._lock:
                self._release(most_usd)
            raise
        # Both at once, or another call would find neither the reservation nor what was paid.
        with self._lock:
            self._release(most_usd)
            return self._read(self._write(request, completion))

    def _release(self, most_usd: float) -> None:
        self._reserved_calls -= 1
        self._reserved_usd -= most_usd

    def _check(self, most_usd: float) -> None:
        calls, usd = self.paid_calls + self._reserved_calls, self.paid_usd + self._reserved_usd
        if self._max_calls is not None and calls >= self._max_calls:
            raise ProviderError(
                f"The limit of {self._max_calls} calls has been reached.", transient=False, code=CAP_REACHED
            )
        if self._max_cost_usd is not None and usd + most_usd > self._max_cost_usd:
            raise ProviderError(
                f"The limit of ${self._max_cost_usd:g} has been reached.", transient=False, code=CAP_REACHED
            )

    def _write(self, request: ChatRequest, completion: ChatAnswer) -> dict[str, Any]:
        entry = {
            "at": round(time.time(), 3),
            "question_sha256": request.sha256,
            "text": completion.text,
            "tool_calls": stored_calls(completion.tool_calls),
            "finish_reason": completion.finish_reason,
            "model": completion.model,
            "input_tokens": completion.input_tokens,
            "output_tokens": completion.output_tokens,
            "cost_usd": _price(completion.input_tokens, completion.output_tokens),
            "latency_ms": round(completion.latency_ms, 1),
        }
        self._count(entry)
        if self._journal is not None:
            # Answers may quote runs, so no other user of the machine may read them.
            self._journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._journal.open("a", encoding="utf-8") as file:
                # One line a call, written at once: what was paid for survives a kill.
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        return entry

    def _remember(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            # The last line, cut off when the run was killed.
            return
        self._known[entry["question_sha256"]].append(entry)
        self._count(entry)

    def _count(self, entry: dict[str, Any]) -> None:
        self.paid_calls += 1
        self.paid_usd += entry["cost_usd"]

    def _read(self, entry: dict[str, Any]) -> ChatAnswer:
        self.calls.append({name: entry[name] for name in ("input_tokens", "output_tokens", "cost_usd", "latency_ms")})
        return ChatAnswer(
            text=entry["text"],
            tool_calls=read_calls(entry.get("tool_calls", ())),
            finish_reason=entry["finish_reason"],
            input_tokens=entry["input_tokens"],
            output_tokens=entry["output_tokens"],
            model=entry["model"],
            latency_ms=entry["latency_ms"],
        )


def attach_ledger(provider: Provider, **limits: Any) -> Ledger:
    """Put a ledger in front of this process's provider, or return the one already attached."""
    chat: object = provider.chat
    if isinstance(chat, Ledger):
        return chat
    ledger = Ledger(provider, **limits)
    setattr(provider, "chat", ledger)  # noqa: B010 - replaced on this instance only
    return ledger


def price_of(completion: ChatAnswer) -> float:
    """Return the cost of a call in US dollars, at the prices in the settings."""
    return _price(completion.input_tokens, completion.output_tokens)


def _price(input_tokens: int, output_tokens: int) -> float:
    per_million: float = (
        input_tokens * settings.ERL_LLM_INPUT_USD_PER_MTOK + output_tokens * settings.ERL_LLM_OUTPUT_USD_PER_MTOK
    )
    return per_million / 1_000_000
