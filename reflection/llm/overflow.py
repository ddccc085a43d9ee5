"""How providers say that a prompt is too long for the model's context window."""

import re
from dataclasses import dataclass

# The number, where there is one, is the window in tokens. Wordings of OpenAI, OpenRouter and vLLM; Anthropic; Google;
# llama.cpp; vLLM again; Mistral; Ollama; Groq; Bedrock.
_WINDOW = (
    re.compile(r"maximum context length (?:is|of) ([0-9]{3,9})", re.I),
    re.compile(r"too long: [0-9]{1,9} tokens > ([0-9]{3,9})", re.I),
    re.compile(r"exceeds the maximum number of tokens allowed \(([0-9]{3,9})", re.I),
    re.compile(r"available context size \(([0-9]{3,9})", re.I),
    re.compile(r"\"n_ctx\": ?([0-9]{3,9})", re.I),
    re.compile(r"maximum model length of ([0-9]{3,9})", re.I),
    re.compile(r"maximum (?:allowed )?(?:context|input) length \(?([0-9]{3,9})", re.I),
    re.compile(r"with ([0-9]{3,9}) maximum context length", re.I),
    re.compile(r"context (?:window|length|size) of ([0-9]{3,9})", re.I),
)
_WORDLESS = re.compile(
    r"context_length_exceeded|exceed_context_size|prompt is too long|input is too long|exceeds? the (?:model's )?"
    r"(?:maximum )?context (?:length|window|size)|reduce the length of the (?:messages|prompt|input)",
    re.I,
)
MAX_WORDS = 4_000


@dataclass(frozen=True, slots=True)
class Overflow:
    """A prompt that was too long; the window is None where the provider does not say it."""

    window_tokens: int | None


def read_overflow(words: str) -> Overflow | None:
    """Return what a refusal says about the window, or None where it is about something else."""
    words = words[:MAX_WORDS]
    for pattern in _WINDOW:
        if hit := pattern.search(words):
            return Overflow(int(hit[1]))
    return Overflow(None) if _WORDLESS.search(words) else None
