"""What an erasure does with the text in the tables of this app (memory/trust/text_columns.py)."""

from memory.trust.text_columns import Columns, Fate

TEXT_COLUMNS = {
    "evaluation_evaluationrun": (
        Columns("status suites configuration versions failure", Fate.NO_TEXT, "written by ERL or set by an operator"),
        Columns("units results", Fate.KEPT, "figures, ids of runs and names of task families, but no tasks or steps"),
        Columns("requested_by", Fate.NO_TEXT, "labels of accounts and keys"),
    ),
    "evaluation_experiment": (
        Columns(
            "compared metric method rule unit_rule guardrails steps promotes status conclusion",
            Fate.NO_TEXT,
            "written by ERL or chosen from its words",
        ),
        Columns("reason", Fate.KEPT, "people wrote it about an experiment, not about a run"),
        Columns("started_by ended_by", Fate.NO_TEXT, "labels of accounts and keys"),
    ),
    "evaluation_look": (
        Columns("guardrails outcomes verdict reason", Fate.NO_TEXT, "figures, and sentences written by ERL"),
        Columns("families", Fate.KEPT, "figures, and names of task families, but no tasks or steps"),
    ),
    "evaluation_evolution": (
        Columns("suite sets measured controls versions", Fate.NO_TEXT, "figures, and names of suites and families"),
        Columns("proposer", Fate.KEPT, "why candidates of a language model could not be used"),
        Columns("started_by", Fate.NO_TEXT, "labels of accounts"),
    ),
    "evaluation_evolutioncandidate": (
        Columns("adds said", Fate.KEPT, "tools and texts made of tasks of a suite, not of recorded runs"),
        Columns("sha256 scores stopped_by", Fate.NO_TEXT, "figures, and names of families and checks"),
    ),
    "evaluation_shadowanswer": (Columns("lessons", Fate.NO_TEXT, "ids and hashes of lessons"),),
}
