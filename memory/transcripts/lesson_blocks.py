"""Cut out of a message the lessons that ERL gave its agent: they are no part of what a person asked for or said."""

import re

# A tag in a line of its own, as ERL writes it, perhaps with a boundary; or anywhere if what follows is known as ERL's.
_OPEN = re.compile(r"<(?P<tag>(?:lessons|record)(?:-[0-9a-f]{16})?)>")
_WRITTEN_BY_ERL = ("Lessons from earlier runs", "What earlier runs showed")
_GAP = re.compile(r"\n{3,}")


def cut_lesson_blocks(text: str) -> str:
    """Return a text without the blocks that ERL wrote; one that is nothing else becomes ""."""
    kept, place, is_cut = [], 0, False
    unclosed: set[str] = set()  # so that many opened tags are not searched for again and again
    for opened in _OPEN.finditer(text):
        tag = opened["tag"]
        if opened.start() < place or tag in unclosed or not _is_block(text, opened):
            continue
        end = text.find(f"</{tag}>", opened.end())
        if end < 0:
            unclosed.add(tag)
            continue
        kept.append(text[place : opened.start()])
        place, is_cut = end + len(tag) + 3, True
    if not is_cut:
        return text
    return _GAP.sub("\n\n", "".join([*kept, text[place:]])).strip()


def _is_block(text: str, opened: re.Match[str]) -> bool:
    before = text[max(0, opened.start() - 200) : opened.start()].rpartition("\n")[2]
    after = text[opened.end() : opened.end() + 200]
    is_alone = not before.strip() and not after.partition("\n")[0].strip()
    return is_alone or after.lstrip().startswith(_WRITTEN_BY_ERL)
