"""Which lessons name a tool that the agent does not have: they would only make it call what is not there.

A name in a lesson is known as a tool if a recent run of the project had a tool of that name on offer. Names are
compared by letters and digits, as everywhere (name_match.py), with or without what a client puts in front: MCP servers
and namespaces make `cancel_order` `mcp__shop__cancel_order`, `shop.cancel_order` or `shop_cancel_order`. What a lesson
says to avoid may well be missing, so only its trigger and its guideline count; of several tools, one that is missing is
enough.
"""

import re
from collections.abc import Iterator
from functools import cached_property

from memory.retrieval.candidates import Candidate
from memory.retrieval.database import read_prepared
from memory.retrieval.name_match import MAX_CHARACTERS, find_names
from memory.retrieval.question import Question

RECENT_RUNS = 200  # of the project, whose tools are known
AGENT_RUNS = 5  # the newest of the agent that say which tools it had

# A plain word such as `calculate` is a name only where it is written as one.
_QUOTED = re.compile(r"`([A-Za-z][A-Za-z0-9_.:-]{1,63})(?:\(\))?`")
_NOT_OF_KEY = re.compile(r"[^A-Za-z0-9]")
_JOINT = re.compile(r"[^A-Za-z0-9]+")

# The project's newest runs first, so that the statement costs the same however many there are.
_TOOLS = """
WITH recent AS MATERIALIZED (
    SELECT agent, tools, row_number() OVER (PARTITION BY agent ORDER BY created_at DESC) AS place FROM (
        SELECT agent, tools, created_at FROM servable_offer
        WHERE project_id = %(project)s ORDER BY created_at DESC LIMIT %(runs)s) AS newest
    WHERE cardinality(tools) > 0
)
SELECT (SELECT coalesce(array_agg(DISTINCT tool), '{}') FROM recent, unnest(tools) AS tool),
       (SELECT coalesce(array_agg(DISTINCT tool), '{}') FROM recent, unnest(tools) AS tool
        WHERE agent = %(agent)s AND place <= %(own)s)
"""


class ToolsOnOffer:
    """The tools of the agent that asks: those of the question, or else those of its own newest runs.

    The runs are read once, and only if a lesson names something that the question does not offer. `asked_runs` says
    that the answer depends on them: runs are recorded without any change of the project's state.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self.asked_runs = False

    def find_absent(self, candidate: Candidate) -> str:
        """Return a tool that the lesson tells to use and that the agent does not have, as it is spelled; "" if none."""
        if self._question.tools is None and not self._question.agent:
            return ""
        text = f"{candidate.trigger}\n{candidate.guideline}"[:MAX_CHARACTERS]
        names = {name.key: name.spelled for name in find_names(text)}
        names |= {_get_key(spelled): spelled for spelled in _QUOTED.findall(text)}
        names = {key: spelled for key, spelled in names.items() if key not in self._asked}
        if not names:
            return ""
        known, own = self._of_runs
        tools = own if self._question.tools is None else self._question.tools
        if not tools and self._question.tools is None:
            return ""  # no run says what the agent has
        offered = set(map(_get_key, tools))
        bare = {key for tool in tools for key in _get_bare_keys(tool)}
        return next(
            (
                spelled
                for key, spelled in names.items()
                if key in known and key not in offered | bare and offered.isdisjoint(_get_bare_keys(spelled))
            ),
            "",
        )

    @cached_property
    def _asked(self) -> frozenset[str]:
        return frozenset(map(_get_key, self._question.tools or ()))

    @cached_property
    def _of_runs(self) -> tuple[frozenset[str], tuple[str, ...]]:
        """Return the keys of the tools of the project's newest runs, and the names of those of the agent's."""
        self.asked_runs = True
        asked = {"project": self._question.project.pk, "agent": self._question.agent}
        ((known, own),) = read_prepared(_TOOLS, asked | {"runs": RECENT_RUNS, "own": AGENT_RUNS})
        return frozenset(map(_get_key, known)), tuple(own)


def _get_key(name: str) -> str:
    return _NOT_OF_KEY.sub("", name).lower()


def _get_bare_keys(name: str) -> Iterator[str]:
    """Yield the keys of a name without what may be a server or a namespace in front, one word or more.

    A single underscore also joins the words of a plain name, so behind it at least two words must be left.
    """
    for joint in _JOINT.finditer(name, 1):
        rest = name[joint.end() :]
        if rest and (joint[0] != "_" or _JOINT.search(rest)):
            yield _get_key(rest)
