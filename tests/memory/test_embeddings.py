"""Embedders: the bundled model, a service over HTTP, long texts, the cache."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory.egress import Breaker
from memory.embeddings import minilm
from memory.embeddings.base import embed_composites, split_text
from memory.embeddings.minilm import FloatMiniLM, MiniLM
from memory.embeddings.registry import find_embedder, get_embedder
from memory.errors import EmbedderError
from memory.retrieval.database import read_vector
from memory.retrieval.task_vector import embed_task
from tests.memory.embedding_service import EmbeddingService

pytestmark = pytest.mark.usefixtures("fresh_embedders")
BUNDLED = MiniLM()
FLIGHT = "How do I cancel my flight?"


def test_minilm_gives_unit_vectors() -> None:
    lengths = np.linalg.norm(BUNDLED.embed([FLIGHT, "x", ""]), axis=1)
    assert np.allclose(lengths, 1, atol=1e-5)


def test_minilm_puts_a_paraphrase_nearer_than_another_subject() -> None:
    flight, paraphrase, cake = BUNDLED.embed([FLIGHT, "I want to undo an airline booking", "How do I bake a cake?"])
    assert flight @ paraphrase > flight @ cake + 0.2


@pytest.mark.parametrize("kind", [MiniLM, FloatMiniLM])
def test_minilm_vector_does_not_depend_on_the_batch(kind: type[MiniLM]) -> None:
    model = kind()
    alone = model.embed([FLIGHT])[0]
    together = model.embed([FLIGHT, FLIGHT * 20])[0]
    assert np.allclose(alone, together, atol=1e-5)


def test_minilm_in_integers_is_near_to_the_floats() -> None:
    texts = [FLIGHT, "How do I bake a cake?", "error: cannot borrow `x` as mutable", FLIGHT * 20]
    cosines = np.einsum("ij,ij->i", BUNDLED.embed(texts), FloatMiniLM().embed(texts))
    assert cosines.min() > 0.98
    assert cosines.max() < 0.9999


def test_minilm_in_integers_gives_the_same_vectors_in_threads() -> None:
    texts = [f"{FLIGHT} {number}" for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda text: BUNDLED.embed([text])[0], texts)]
    assert np.array_equal(np.stack(found), BUNDLED.embed(texts))


@pytest.mark.parametrize(
    ("cpuinfo", "exact"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_vnni\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx_vnni\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f\nbugs\t\t: avx_vnni\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd\n", False),
        ("", False),
    ],
)
def test_minilm_multiplies_fast_only_where_that_is_exact(
    cpuinfo: str, exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = tmp_path / "cpuinfo"
    described.write_text(cpuinfo)
    monkeypatch.setattr(minilm, "CPUINFO", described)
    assert minilm.has_exact_fast_products() is exact
    described.unlink()
    assert minilm.has_exact_fast_products() is False


def test_minilm_gives_the_same_vectors_with_fast_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [FLIGHT, "", "error: cannot borrow `x` as mutable", FLIGHT * 20, *(f"{n} {FLIGHT}" for n in range(20))]
    here = BUNDLED.embed(texts)
    monkeypatch.setattr(minilm, "CPUINFO", tmp_path / "none")
    assert np.array_equal(MiniLM().embed(texts), here)


def test_minilm_needs_the_exact_file_that_its_graph_was_made_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = bytearray(minilm.find_model_file().read_bytes())
    content[-1] ^= 1
    package = tmp_path / minilm.PACKAGE
    package.mkdir()
    (package / "model.onnx").write_bytes(content)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EmbedderError, match=r"model\.onnx is not the one this version of ERL needs"):
        MiniLM().embed([FLIGHT])


def test_minilm_does_not_pad_short_texts() -> None:
    assert len(BUNDLED._load().tokenizer.encode("hello").ids) == 3


def test_minilm_truncates_texts_at_its_training_length() -> None:
    assert len(BUNDLED._load().tokenizer.encode("word " * 1000).ids) == minilm.MAX_TOKENS


def test_minilm_refuses_files_that_are_not_the_pinned_ones(tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(b"something else")
    with pytest.raises(EmbedderError, match="not the one"):
        minilm.read_pinned(other, minilm.MODEL_SHA256)


def test_minilm_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match=r"model\.onnx cannot be read"):
        minilm.read_pinned(tmp_path / "model.onnx", minilm.MODEL_SHA256)


def test_runtime_of_minilm_sends_no_telemetry() -> None:
    embed = "from memory.embeddings.minilm import MiniLM; MiniLM().warm_up()"
    count = "import os; print(len(os.listdir('/proc/self/task')))"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}

    done = subprocess.run(
        [sys.executable, "-c", f"{embed}; {count}"],
        env=environment | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
    )

    assert done.stdout == b"1\n"


def test_http_embedder_puts_answers_in_the_order_of_the_texts(service: EmbeddingService) -> None:
    found = service.embedder().embed(["a", "abc"])
    assert np.allclose(found, [[1 / 2**0.5, 1 / 2**0.5], [3 / 10**0.5, 1 / 10**0.5]])


def test_http_embedder_sends_model_and_key(service: EmbeddingService) -> None:
    service.embedder().embed(["a"])
    request = service.requests[0]
    assert (request["path"], request["model"], request["key"]) == ("/v1/embeddings", "some-model", "Bearer secret")


def test_http_embedder_splits_many_texts(service: EmbeddingService) -> None:
    service.embedder().embed(["a"] * 65)
    assert [len(request["input"]) for request in service.requests] == [64, 1]


@pytest.mark.parametrize(("status", "transient"), [(500, True), (429, True), (401, False)])
def test_http_embedder_says_whether_a_refusal_may_pass(service: EmbeddingService, status: int, transient: bool) -> None:
    service.status = status
    with pytest.raises(EmbedderError) as raised:
        service.embedder().embed(["a"])
    assert raised.value.transient is transient


def test_http_embedder_refuses_vectors_of_another_length(service: EmbeddingService) -> None:
    with pytest.raises(EmbedderError, match="dimensions in ERL_EMBEDDER"):
        service.embedder(dimensions=3).embed(["a"])


def test_http_embedder_refuses_an_answer_without_vectors(service: EmbeddingService) -> None:
    service.answer = {"error": "no"}
    with pytest.raises(EmbedderError, match="did not return 1 vectors"):
        service.embedder().embed(["a"])


def test_http_embedder_gives_up_at_its_deadline(service: EmbeddingService) -> None:
    service.delay_seconds = 5
    with pytest.raises(EmbedderError, match="Timeout"):
        service.embedder().embed(["a"], timeout_seconds=0.05)


def test_http_embedder_gives_up_on_a_slow_answer(service: EmbeddingService) -> None:
    service.trickle_seconds = 0.05
    with pytest.raises(EmbedderError, match="Timeout"):
        service.embedder().embed(["a"], timeout_seconds=0.2)


def test_breaker_stops_asking_after_repeated_failures() -> None:
    breaker = Breaker(failures=2)
    breaker.note(answered=False)
    assert not breaker.is_resting
    breaker.note(answered=False)
    assert breaker.is_resting


def test_breaker_retries_after_its_pause() -> None:
    breaker = Breaker(failures=1, rest_seconds=0)
    breaker.note(answered=False)
    assert not breaker.is_resting


def test_breaker_forgets_failures_after_an_answer() -> None:
    breaker = Breaker(failures=2)
    for answered in (False, True, False):
        breaker.note(answered=answered)
    assert not breaker.is_resting


def test_split_text_cuts_at_sentences() -> None:
    assert split_text("One two. Three four. Five.", characters=20) == ["One two. Three four.", "Five."]


def test_split_text_cuts_a_long_sentence_at_a_space() -> None:
    assert split_text("aaaa bbbb cccc", characters=10) == ["aaaa bbbb", "cccc"]


def test_split_text_loses_no_word() -> None:
    text = "word1 word2. " * 50 + "x" * 300 + "\n\nlast"
    assert "".join(split_text(text, characters=50)).replace(" ", "") == text.replace(" ", "").replace("\n", "")


def test_composite_of_one_short_text_is_its_vector() -> None:
    assert np.allclose(embed_composites(BUNDLED, [[FLIGHT]]), BUNDLED.embed([FLIGHT]), atol=1e-6)


def test_composite_reflects_a_short_section_next_to_a_long_one() -> None:
    title, text = "Weather forecast", "The page lists opening hours, prices and how to come by train or by car. " * 3
    query = BUNDLED.embed(["Will it rain tomorrow?"])[0]
    with_title, without = embed_composites(BUNDLED, [[title, text], [text]])
    assert query @ with_title > query @ without + 0.05


def test_composite_splits_names() -> None:
    joined, apart = embed_composites(
        BUNDLED, [["HousePurchasingTool create_qr_code"], ["House Purchasing Tool create qr code"]]
    )
    assert np.allclose(joined, apart, atol=1e-6)


def test_composite_of_nothing_is_a_zero_vector() -> None:
    assert not embed_composites(BUNDLED, [[""]]).any()


@pytest.fixture
def _uses_service(service: EmbeddingService, settings: Any) -> None:
    settings.ERL_EMBEDDER = f"{service.base_url}?model=some-model&dimensions=2"


@pytest.mark.usefixtures("_uses_service")
def test_task_is_embedded_once(service: EmbeddingService) -> None:
    first, second = embed_task("a", "some-model@2"), embed_task("a", "some-model@2")
    assert first == second
    assert len(service.requests) == 1


@pytest.mark.usefixtures("_uses_service")
def test_task_that_could_not_be_embedded_is_tried_again(service: EmbeddingService) -> None:
    service.status = 500
    with pytest.raises(EmbedderError):
        embed_task("a", "some-model@2")
    service.status = 200
    assert read_vector(embed_task("a", "some-model@2")[1].bytes).shape == (2,)


@pytest.mark.usefixtures("_uses_service")
def test_task_has_a_vector_of_each_model() -> None:
    found = [read_vector(embed_task("a", model_id)[1].bytes) for model_id in ("some-model@2", BUNDLED.model_id)]
    assert [len(vector) for vector in found] == [2, 384]


def test_registry_gives_none_if_embeddings_are_off(settings: Any) -> None:
    settings.ERL_EMBEDDER = "none"
    assert get_embedder() is None


def test_registry_refuses_an_unknown_embedder(settings: Any) -> None:
    settings.ERL_EMBEDDER = "magic"
    with pytest.raises(ValueError, match="set it to minilm, minilm-floats, none or a URL"):
        get_embedder()


def test_registry_keeps_the_bundled_model_after_a_change(settings: Any) -> None:
    settings.ERL_EMBEDDER = "http://127.0.0.1:9/v1?model=some-model&dimensions=384"
    found = find_embedder(MiniLM.model_id)
    assert found is not None
    assert found.model_id == MiniLM.model_id


@pytest.mark.parametrize(
    ("setting", "wanted", "other"), [("minilm", MiniLM, FloatMiniLM), ("minilm-floats", FloatMiniLM, MiniLM)]
)
def test_registry_has_the_bundled_model_in_integers_and_in_floats(
    settings: Any, setting: str, wanted: type[MiniLM], other: type[MiniLM]
) -> None:
    settings.ERL_EMBEDDER = setting
    assert type(get_embedder()) is wanted
    assert type(find_embedder(other.model_id)) is other


def test_registry_has_no_embedder_for_an_unknown_model() -> None:
    assert find_embedder("some-model@2") is None
