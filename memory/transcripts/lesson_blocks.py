"""Cut out of a message the lessons that ERL gave its agent: they are no part of what a person asked for or said."""

import re

# A tag in a line of its own, as ERL writes it, perhaps with a boundary; or anywhere if what follows is known as ERL's.
_OPEN = re.compile(r"(?:<|&lt;)(?P<tag>(?:lessons|record)(?:-[0-9a-f]{16})?)(?P<end>>|&gt;)")
# In which Gemini CLI and Qwen Code put what a hook adds, with its signs escaped.
_EMPTY_WRAPPER = re.compile(r"<(hook_context|qwen:user-prompt-submit-context)>\s*</\1>")
_WRITTEN_BY_ERL = ("Lessons from earlier runs", "What earlier runs showed")
_GAP = re.compile(r"\n{3,}")
NO_TASK = "(no task)"


def read_task(text: str) -> str:
    """Return a task without the blocks that ERL wrote: what memory gave is not learnt again."""
    return cut_lesson_blocks(text) or NO_TASK


def cut_lesson_blocks(text: str) -> str:
    """Return a text without the blocks that ERL wrote; one that is nothing else becomes "".

    A block whose end was cut off, as by a limit on attributes of spans, goes on to the end of the text.
    """
    kept, place, is_cut = [], 0, False
    unclosed: set[str] = set()  # so that many opened tags are not searched for again and again
    for opened in _OPEN.finditer(text):
        tag = opened["tag"]
        close = f"</{tag}>" if opened["end"] == ">" else f"&lt;/{tag}&gt;"
        if opened.start() < place or close in unclosed or not _is_block(text, opened):
            continue
        end = text.find(close, opened.end())
        if end < 0 and not _is_begun_by_erl(text, opened):
            unclosed.add(close)
            continue
        kept.append(text[place : opened.start()])
        place, is_cut = (len(text) if end < 0 else end + len(close)), True
    if not is_cut:
        return text
    left = _EMPTY_WRAPPER.sub("", "".join([*kept, text[place:]]))
    return _GAP.sub("\n\n", left).strip()


def _is_block(text: str, opened: re.Match[str]) -> bool:
    before = text[max(0, opened.start() - 200) : opened.start()].rpartition("\n")[2]
    after = text[opened.end() : opened.end() + 200]
    is_alone = not before.strip() and not after.partition("\n")[0].strip()
    return is_alone or _is_begun_by_erl(text, opened)


def _is_begun_by_erl(text: str, opened: re.Match[str]) -> bool:
    after = text[opened.end() : opened.end() + 200]
    return after.lstrip().removeprefix("\\n").startswith(_WRITTEN_BY_ERL)  # "\n" stands in texts within JSON
