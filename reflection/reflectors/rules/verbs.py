"""Forms of the verbs that notes begin with: the way back from "checking" or "checked" to "check".

A verb that is not listed has no way back: a note that begins with it is left to people rather than guessed at.
"""

import re

_REGULAR_VERBS = (
    "accept add adjust answer apologise apologize apply approve ask assign assume attach attempt authenticate "
    "avoid back batch book cache calculate call cancel change charge check clarify clean clear click close "
    "collect combine commit compare complete compute configure confirm connect consider consult convert copy "
    "correct count create debug decide declare define delete deploy describe determine disable display divide "
    "document double-check download edit enable end ensure enter escalate escape estimate evaluate examine "
    "exchange execute exit expand explain explore export extract fabricate fail fetch file fill filter finish "
    "fix flag follow format gather generate grep group guess hallucinate halt handle identify ignore "
    "implement import include infer inform insert inspect install interpret invent invoke issue iterate join "
    "jump limit list load locate log look loop map mark match measure mention merge mix mock modify monitor "
    "move name narrow navigate neglect normalise normalize note notice notify offer omit open order overlook "
    "parse pass patch pause perform pick pin place plan point poll prepare present preserve press process "
    "promise propose provide publish pull push query quote rebase reboot recheck record redirect refactor "
    "refer refresh refund refuse reject release reload rely remember remove rename repeat replace reply "
    "report request require reschedule reserve resolve respond restart restore restrict resubmit retry return "
    "reuse reverse revert review revise roll round rush save scan schedule scroll search select separate "
    "serve share sign skip sort specify start state stay stop store submit suggest summarise summarize supply "
    "suppose switch test touch track transfer translate treat trust try turn type unlock update upgrade "
    "upload use validate verify view visit wait walk warn waste watch wipe work wrap"
)
# base, past and participle
_IRREGULAR_VERBS = (
    "begin|began|begun break|broke|broken bring|brought|brought build|built|built buy|bought|bought "
    "choose|chose|chosen cut|cut|cut do|did|done draw|drew|drawn drop|dropped|dropped find|found|found "
    "forget|forgot|forgotten get|got|gotten give|gave|given go|went|gone hold|held|held keep|kept|kept "
    "leave|left|left let|let|let make|made|made overwrite|overwrote|overwritten pay|paid|paid put|put|put "
    "read|read|read re-read|re-read|re-read rebuild|rebuilt|rebuilt rerun|reran|rerun reset|reset|reset "
    "rewrite|rewrote|rewritten run|ran|run say|said|said see|saw|seen seek|sought|sought sell|sold|sold "
    "send|sent|sent set|set|set show|showed|shown split|split|split take|took|taken tell|told|told "
    "think|thought|thought undo|undid|undone understand|understood|understood write|wrote|written "
    "spend|spent|spent"
)
_DOUBLING_VERBS = "begin cancel commit debug forget format infer omit refer rerun reset resubmit submit transfer"
_SHORT = re.compile(r"(?:[^aeiou]|qu)*[aeiou][bdgklmnprt]")
# What is left undone by mistake, and done by taking care.
_CAREFUL_VERBS = (
    "ask check clarify compare confirm consider consult double-check ensure examine inspect re-read read "
    "recheck request review test validate verify wait"
)
# Verbs of mistakes: "Skip the check", noted as a mistake, may say what was done, and not what to do.
_CARELESS_VERBS = (
    "assume fabricate fail forget guess hallucinate ignore invent neglect omit overlook rush skip suppose waste"
)
_IRREGULAR = {
    base: (past, participle) for base, past, participle in (each.split("|") for each in _IRREGULAR_VERBS.split())
}
_DOUBLING = frozenset(_DOUBLING_VERBS.split())
BASES = frozenset(_REGULAR_VERBS.split()) | _IRREGULAR.keys()
CAREFUL, CARELESS = frozenset(_CAREFUL_VERBS.split()), frozenset(_CARELESS_VERBS.split())


def _stems(base: str) -> list[str]:
    """Return what -ing and -ed are added to, in British and American spelling."""
    doubled = base + base[-1]
    if base == "cancel":
        return [base, doubled]
    return [doubled] if base in _DOUBLING or _SHORT.fullmatch(base) else [base]


def _write_gerunds(base: str) -> list[str]:
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return [f"{base[:-1]}ing"]
    return [f"{stem}ing" for stem in _stems(base)]


def _write_pasts(base: str) -> list[str]:
    if base.endswith("e"):
        return [f"{base}d"]
    if re.search(r"[^aeiou]y$", base):
        return [f"{base[:-1]}ied"]
    return [f"{stem}ed" for stem in _stems(base)]


def _write_third(base: str) -> str:
    if re.search(r"[^aeiou]y$", base):
        return f"{base[:-1]}ies"
    return f"{base}es" if base.endswith(("s", "x", "ch", "sh", "o")) else f"{base}s"


GERUNDS = {form: base for base in BASES for form in _write_gerunds(base)}
PASTS = {form: base for base in BASES for form in ([_IRREGULAR[base][0]] if base in _IRREGULAR else _write_pasts(base))}
PARTICIPLES = {
    form: base for base in BASES for form in ([_IRREGULAR[base][1]] if base in _IRREGULAR else _write_pasts(base))
}
THIRDS = frozenset(map(_write_third, BASES))


def write_gerund(base: str) -> str:
    """Return the form of a listed verb that ends in -ing."""
    return _write_gerunds(base)[-1]
