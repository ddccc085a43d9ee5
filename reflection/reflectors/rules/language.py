"""Whether a run speaks English: the rules write their lessons in English only, and say so where a run does not."""

import re
import unicodedata

from memory.runs.episode import Episode
from reflection.reflectors.rules.tools import is_talk

MAX_CHARS = 4000
MIN_WORDS = 4  # fewer tell no language
MIN_OTHER_SCRIPT = 0.3
MIN_LEAD = 2  # so many more words of another language than of English

ENGLISH_ONLY = "The run is not in English; the rules write their lessons in English only and leave quotes as they are."

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
# Frequent short words that the other languages do not share
_FUNCTION_WORDS = {
    "en": "the and of to is are was that this with for from which what you your my not please have has how all by it",
    "de": "der die das und ist nicht ein eine einen mit für auf von zu im den dem wie bitte ich sie alle wurde bei",
    "fr": "le la les et est une des dans pour avec que qui vous je pas sur au aux ce cette mon tous du",
    "es": "el los las y es una para con que por del se mi su como todos no más este esta al",
    "it": "il lo gli e è una per con che di del della non mi questo questa come tutti sono",
    "pt": "o os as e é uma para com que do da não por meu minha como todos este esta ao",
    "nl": "de het een en is niet met voor van op dat die ik je alle naar bij wordt zijn",
    "pl": "i w na nie się z do jest że to dla oraz proszę wszystkie",
    "tr": "ve bir bu için ile de da ne lütfen tüm olarak var",
    "sv": "och att det som en är på för med av inte jag alla den",
}
_WORDS_OF = {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}


def is_english(run: Episode) -> bool:
    """Return whether the task, the notes and the talk of a run are in English, or too short to tell."""
    talk = [step.observation for step in run.steps if step.action and is_talk(step.action.name)]
    text = " ".join([run.task, *run.mistakes, *run.successes, *talk])[:MAX_CHARS]
    letters = [char for char in text if char.isalpha()]
    other = sum(not unicodedata.name(char, "").startswith("LATIN") for char in letters)
    if letters and other / len(letters) > MIN_OTHER_SCRIPT:
        return False
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) < MIN_WORDS:
        return True
    counts = {language: sum(word in known for word in words) for language, known in _WORDS_OF.items()}
    english = counts.pop("en")
    return max(counts.values()) < english + MIN_LEAD
