"""Texts in other languages: what stays of them, how their words are found, and what is given for them."""

import unicodedata
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from memory.embeddings.minilm import MiniLM
from memory.housekeeping import embed_new_heuristics
from memory.index.calibration import add_untried, measure_floors
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.retrieval.answers import retrieve
from memory.retrieval.models import EmbeddingModel
from memory.retrieval.name_match import find_names
from memory.retrieval.question import Question
from memory.retrieval.safe_text import clean, clean_lines
from memory.retrieval.scoring import GROWTH, LONGEST, fit_floors
from tests.factories import make_heuristic, make_project
from tests.memory.embedding_service import EmbeddingService

PROJECT = UUID(int=1)
FLAG = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cروم پایگاه\u200cداده",
        "क्\u200dष",
        "👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3",
        FLAG,
        "ABC \u200fשלום\u200f!",
        "葛\U000e0100城",
    ],
)
def test_clean_keeps_what_belongs_to_a_word_or_an_emoji(text: str) -> None:
    assert (clean(text), clean_lines(text)) == (text, text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("re\u200cfund\u200d", "refund"),
        ("ids\ufe0f", "ids"),
        ("a\u200fb", "a[U+200F]b"),
        ("ب\u200c\u200cب", "بب"),
        ("x\ufe0f\u200d👩", "x👩"),
        ("\u202eשלום", "[U+202E]שלום"),
    ],
)
def test_clean_drops_or_spells_out_what_only_hides(text: str, cleaned: str) -> None:
    assert (clean(text), clean(cleaned)) == (cleaned, cleaned)


def find_words(text: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT word FROM memory_terms(%s, %s)", [PROJECT, text])
        return {word for (word,) in cursor.fetchall()}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("退款 ORD-4711 失败", "ORD-4711：无法退款。"),
        ("注文ORD-4711を取り消す", "注文を（ORD-4711）"),
        ("주문 ORD-4711을 취소", "ORD-4711의 주문"),
        ("สั่งซื้อORD-4711ไม่สำเร็จ", "ORD-4711"),
        ("ऑर्डर ४७११ रद्द", "रद्द। 4711"),
        ("الطلب ٤٧١١، أُلغي", "4711"),
        ("заказ ORD-4711", "«ORD-4711»"),
        ("ＯＲＤ－４７１１", "ORD-4711"),
    ],
)
def test_codes_are_found_inside_any_script(asked: str, written: str) -> None:
    assert "4711" in find_words(asked) & find_words(written)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("Die Bestellungen sind noch nicht da", "Wenn die Bestellung nicht kommt"),
        ("¿Cómo cancelo los pedidos?", "El cliente quiere cancelar el pedido"),
        ("отмена заказов", "отменить заказ"),
        ("ऑर्डरों को रद्द करें", "ऑर्डर रद्द"),
        ("订单退款", "给顾客退款"),
        ("Zürich é", unicodedata.normalize("NFD", "Zürich é")),
    ],
)
def test_words_meet_in_their_own_language(asked: str, written: str) -> None:
    assert find_words(asked) & find_words(written)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Cancel the order before it ships", "english"),
        ("kubectl rollout restart", "english"),
        ("x, y = 1, 2\n\nz = x if x else y", "english"),
        ("nums = [1, 2, 3]\n\ndel nums[:]", "english"),
        ("du -sh /var/log", "english"),
        ("numero de pedido y factura", "spanish"),
        ("Wie storniere ich eine Bestellung?", "german"),
        ("Je veux annuler ma commande", "french"),
        ("顾客要退款，先调用 get_order_details", "chinese"),
        ("注文をキャンセルしたい", "japanese"),
        ("주문을 취소하고 싶어요", "korean"),
        ("می‌خواهم سفارش را لغو کنم", "persian"),
        ("أريد إلغاء الطلب", "arabic"),
        ("मैं ऑर्डर रद्द करना चाहता हूँ", "hindi"),
        ("Jaka będzie jutro pogoda w Krakowie?", "other"),
        ("Kolik kalorií má jablko?", "other"),
        ("Một quả táo có bao nhiêu calo?", "other"),
        (unicodedata.normalize("NFD", "Một quả táo có bao nhiêu calo?"), "other"),
        ("Quin temps farà demà a Barcelona?", "other"),
        ("Ano ang panahon bukas?", "other"),
        ("Andika shairi kuhusu mvua", "other"),
        ("👩‍💻", "other"),
        ("Send the menu of the café to Jiří Novák", "english"),
        ("résumé upload", "english"),
        ("Schönste Sehenswürdigkeiten in Lissabon für zwei Tage?", "german"),
        ("ALTER TABLE bricht ab, weil Werte fehlen.", "german"),
        ("¿A qué edad aprenden a nadar los niños?", "spanish"),
        ("¿Derivada de x² · sen(x)?", "spanish"),
        ("Yarın Ankara'da hava için ne yapmalı?", "turkish"),
        ("Érdemes az új címet megadni, és nem a régit?", "hungarian"),
    ],
)
def test_language_of_a_text_is_recognised(text: str, language: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_language(%s)", [text])
        assert cursor.fetchone() == (language,)


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["注文ＡＰＩ_Ｋｅｙが無効", "ключ API_Key не подходит", "مفتاح API_Key"])
def test_names_are_found_beside_other_scripts(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_names(%s)", [text])
        assert cursor.fetchone() == (" apikey ",)
    assert [name.key for name in find_names(text)] == ["apikey"]


CHINESE = [
    ("顾客要退款", "先调用 get_order_details 核对订单，再退款。"),
    ("旅客想改签航班", "基础经济舱不能改签。"),
    ("接口返回 429", "按 Retry-After 的秒数等待。"),
    ("打印机不出纸", "删掉队列里第一个任务。"),
]


def ask_in_chinese(task: str) -> tuple[list[str], str]:
    """Return the guidelines that are injected for a task, and what the answer lacked."""
    project = make_project()
    lessons = [
        make_heuristic(project=project, status="approved", trigger=trigger, guideline=guideline)
        for trigger, guideline in CHINESE
    ]
    embed_heuristics([lesson.pk for lesson in lessons])
    answer = retrieve(Question(project=project, task=task, by=Actor(label="test")))
    return [item["guideline"] for item in answer.items if item["injected"]], answer.degraded


@pytest.mark.django_db
def test_words_decide_in_a_language_that_the_model_does_not_know() -> None:
    assert ask_in_chinese("这位顾客的订单能退款吗？") == (
        [CHINESE[0][1]],
        "meaning (the model does not know Chinese)",
    )


@pytest.mark.django_db
def test_unrelated_question_in_an_unknown_language_is_given_nothing() -> None:
    assert ask_in_chinese("溏心蛋要煮几分钟？")[0] == []


@pytest.mark.django_db
def test_thai_texts_are_not_similar_for_sharing_frequent_pairs_of_letters() -> None:
    asked, related, unrelated = map(
        find_words, ["อยากเลื่อนเที่ยวบินไปวันศุกร์", "ผู้โดยสารต้องการเลื่อนเที่ยวบิน", "เครื่องพิมพ์ไม่พิมพ์เอกสาร"]
    )
    assert len(asked & related) > 8
    assert len(asked & unrelated) <= 1


@pytest.mark.django_db
@pytest.mark.parametrize("task", ["Jaka będzie jutro pogoda w Krakowie?", "Một quả táo có bao nhiêu calo?", "🙂"])
def test_text_in_a_language_without_a_stemmer_is_given_no_other_text_for_its_foreignness(task: str) -> None:
    project = make_project()
    lessons = [
        make_heuristic(project=project, status="approved", trigger=trigger, guideline=guideline)
        for trigger, guideline in [
            ("Połączenie z bazą danych zostaje przerwane", "Uruchom migrację ponownie."),
            ("Khách hàng muốn trả lại sản phẩm", "Kiểm tra chính sách đổi trả."),
            ("ลูกค้าต้องการคืนสินค้า", "ตรวจสอบนโยบาย"),
        ]
    ]
    embed_heuristics([lesson.pk for lesson in lessons])
    answer = retrieve(Question(project=project, task=task, by=Actor(label="test")))
    assert (answer.items, answer.degraded) == ([], "meaning (the model does not know its language)")


@pytest.mark.nightly
def test_bundled_model_knows_english_alone() -> None:
    floors = measure_floors(MiniLM())
    assert set(floors) - {GROWTH} == set(MiniLM.floors or {}) == {"english"}
    assert 0 <= floors[GROWTH] < 0.005  # not of languages that it does not know


def test_floor_grows_with_the_length_of_a_text() -> None:
    growing = {"english": 0.8, GROWTH: 0.02}

    assert fit_floors(growing, "x" * 128) == pytest.approx({"english": 0.82})
    assert fit_floors(growing, "x" * 10**6) == fit_floors(growing, "x" * LONGEST)
    assert fit_floors({"english": 0.25}, "x" * 128) == {"english": 0.25}


def test_model_of_many_languages_has_a_floor_for_those_not_tried() -> None:
    floors = {"english": 0.8, "chinese": 0.85, "german": 0.82, "spanish": 0.83, "russian": 0.84}

    assert add_untried(floors)["korean"] == 0.85


def test_model_of_few_languages_has_no_floor_for_others() -> None:
    assert add_untried({"english": 0.25, "german": 0.4}) == {"english": 0.25, "german": 0.4}


@pytest.mark.django_db
@pytest.mark.usefixtures("fresh_embedders")
def test_model_of_a_service_is_calibrated_once(service: EmbeddingService, settings: Any) -> None:
    settings.ERL_EMBEDDER = f"{service.base_url}?model=some-model&dimensions=2"
    EmbeddingModel.objects.create(id="some-model@2", dimensions=2, active=True)
    embed_new_heuristics()
    asked = len(service.requests)
    embed_new_heuristics()

    # Lengths of texts tell nothing about what they say.
    assert (EmbeddingModel.objects.get().floors, asked > 0, len(service.requests)) == ({}, True, asked)
