"""The arms: each a way in which the product itself chooses lessons, or a control."""

import re
from dataclasses import dataclass

from evaluation.errors import EvaluationError
from memory.models import Project
from memory.retrieval.answer import Filters, RetrievalAnswer
from memory.services.retrieve import retrieve
from memory.values import Actor

EVALUATION = Actor.policy("evaluation")
_ARM = re.compile(r"^(?P<kind>random|embedding|lexical|hybrid)(?::(?P<k>\d+))?(?::(?P<part>failures|successes))?$")
_PARTS = {"failures": ("mixed", "avoid"), "successes": ("works",)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """How an arm asks the product. `store` names what the store holds when it is asked."""

    name: str
    mode: str
    about: str
    top_k: int | None = None  # None: all there are, as many as the budget holds
    polarities: tuple[str, ...] = ()
    store: str = "clean"
    draw: str = ""  # for mode "random": what is drawn; empty draws anew for each task
    cheats: bool = False  # knows the answer: an upper bound, not a method

    @property
    def ignores_task(self) -> bool:
        """Whether every task gets the same answer, so that asking once is enough."""
        return self.mode == "none" or bool(self.draw)


_CONTROLS = (
    Arm(name="none", mode="none", about="no lessons: what every uplift is measured against"),
    Arm(name="all", mode="random", draw="all", about="every lesson in one fixed order, cut to the token budget"),
    Arm(name="oracle", mode="hybrid", cheats=True, about="only lessons that name the right answer: an upper bound"),
    Arm(
        name="poison-unapproved",
        mode="hybrid",
        store="poison-unapproved",
        about="wrong lessons proposed and not approved: must equal the same mode without them",
    ),
    Arm(
        name="poison-approved",
        mode="hybrid",
        store="poison-approved",
        about="wrong lessons approved, right ones retired: must fall, which shows that the suite can see harm",
    ),
    Arm(name="noreward", mode="hybrid", store="noreward", about="learnt from a judge that is wrong in 30 % of cases"),
    Arm(name="iterative", mode="hybrid", store="iterative", about="learnt from runs that were themselves guided"),
    Arm(
        name="flipped", mode="hybrid", store="flipped", about="learnt with accepted and rejected swapped: must not help"
    ),
    Arm(name="shuffled", mode="hybrid", store="shuffled", about="conditions dealt out to other lessons: must not help"),
)
_ABOUT = {
    "random": "lessons drawn at random for each task",
    "embedding": "the product's retrieval by meaning alone",
    "lexical": "the product's retrieval by words alone",
    "hybrid": "the product's retrieval as agents get it",
}


def find_arm(name: str, *, k: int) -> Arm:
    """Return the arm of a name such as `hybrid:5:failures`; without a number it returns `k` lessons.

    Raises:
        EvaluationError: there is no such arm.
    """
    for control in _CONTROLS:
        if control.name == name:
            takes_k = control.mode == "hybrid"
            return (
                Arm(**{slot: getattr(control, slot) for slot in Arm.__slots__} | {"top_k": k}) if takes_k else control
            )
    match = _ARM.match(name)
    if match is None:
        known = ", ".join(["random:N", "embedding:N", "lexical:N", "hybrid:N", *(each.name for each in _CONTROLS)])
        raise EvaluationError(
            f"There is no arm {name!r}. Known: {known}; the retrieving ones also as hybrid:N:failures or :successes."
        )
    part = match["part"] or ""
    only = f", only lessons from {part}" if part else ""
    return Arm(
        name=name,
        mode=match["kind"],
        top_k=int(match["k"] or k),
        polarities=_PARTS.get(part, ()),
        about=_ABOUT[match["kind"]] + only,
    )


def ask(
    arm: Arm, project: Project, *, task: str, seed: str, budget_tokens: int, pool: int, answer_tag: str = ""
) -> RetrievalAnswer:
    """Ask the product for lessons, as an agent of this arm would.

    Args:
        pool: how many lessons there are, for arms that take all of them.
        answer_tag: the tag of the right answer's lessons, for arms that cheat.
    """
    return retrieve(
        project,
        task=task,
        top_k=pool if arm.top_k is None else arm.top_k,
        mode=arm.mode,
        budget_tokens=budget_tokens,
        filters=Filters(polarities=arm.polarities, tags=(answer_tag,) if arm.cheats else ()),
        seed=f"{seed}:{arm.draw or task}",
        by=EVALUATION,
    )
