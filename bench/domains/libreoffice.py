"""Office help in German: what a command is for, and the rest of its help page."""

import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from bench.domains.pairs import Page, Pairs, Question, join_lines

_CONTENT = re.compile(r'id="DisplayArea"[^>]*>(.*?)(?:<a name="relatedtopics">|<div id="SearchFrame">)', re.DOTALL)
_HEADING = re.compile(r"<h1\b[^>]*>(.*?)</h1>", re.DOTALL)
_SUMMARY = re.compile(r'<span class="avis">((?:(?!<span).)*?)</span>', re.DOTALL)
MIN_PAGE, MIN_QUESTION = 150, 50  # characters


def read_pairs(package: Path) -> Pairs:
    """Debian's libreoffice-help-de: the first extended tip of a page is the question, the rest of it the answer."""
    pairs = []
    folder = package / "usr/share/libreoffice/help/de/text"
    for path in sorted(folder.rglob("*.html")):
        content = _CONTENT.search(path.read_text())
        heading, summary = (pattern.search(content[1]) for pattern in (_HEADING, _SUMMARY)) if content else (None, None)
        if content and heading and summary:
            rest = content[1].replace(heading[0], " ").replace(summary[0], " ")
            key = "-".join(path.relative_to(folder).with_suffix("").parts)
            pairs.append((key, get_text(heading[1]), get_text(summary[1]), get_text(rest)))
    times = Counter(question for _, _, question, _ in pairs)
    pages = [Page(key=key, title=title, text=text) for key, title, _, text in pairs if len(text) >= MIN_PAGE]
    questions = [
        Question(key=f"tip-{key}", text=question, answers=[key])
        for key, title, question, text in pairs
        if len(text) >= MIN_PAGE and len(question) >= MIN_QUESTION and times[question] == 1
        if title.lower() not in question.lower()
    ]
    return Pairs(pages=pages, questions=questions)


def get_text(html: str) -> str:
    parser = _Text()
    parser.feed(html)
    return join_lines(unescape(" ".join(parser.texts)))


class _Text(HTMLParser):
    """Collects the text between the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
