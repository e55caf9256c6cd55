"""Read one rule of a policy document, in either form.

In the first form `expiration` holds a period for each action, in the second the actions stand
beside each other. A document is shown in the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_core.references.policies.document import (
    ACTIONS,
    EFFECTS,
    REMOVAL_ACTIONS,
    REMOVE,
    UNCOMMITTED,
    Action,
    Effect,
    Period,
    Rule,
)
from spark_core.references.policies.faults import Faults, below
from spark_core.references.policies.places import Pairs, Value, shown

# The second form: key of a rule -> action.
_BESIDE = {"noncurrent_expiration": "noncurrent", "uncommitted_expiration": UNCOMMITTED}
# A century, as for the server's retention rules (safety 26).
LONGEST_DAYS = 36_500
# The names that lakeFS gives to branches.
BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def read_rule(value: Value, key: str, faults: Faults) -> Rule | None:
    """Read a rule; None if it is none, as the faults say.

    Args:
        value: The rule.
        key: Its key in the document.
        faults: Receives what is wrong with it.
    """
    known = ("filter", "status", "effect", "expiration", *_BESIDE)
    found = faults.keys(value, key, known)
    if found is None:
        return None
    branch, path = _filter(found.get("filter"), below(key, "filter"), faults)
    is_enabled = _status(found.get("status"), below(key, "status"), faults)
    effect = _effect(found.get("effect"), below(key, "effect"), faults)
    removes = effect == REMOVE
    periods = _periods(value, found, key, faults, removes=removes)
    if removes and branch is None:
        faults.add(
            value,
            below(key, "filter"),
            "has no prefix, and a rule that removes entries writes commits: name the one "
            "branch that it may write to",
        )
    return Rule(branch, path, periods, is_enabled, effect)


def _filter(value: Value | None, key: str, faults: Faults) -> tuple[str | None, str]:
    found = None if value is None else faults.keys(value, key, ("prefix",))
    prefix = (found or {}).get("prefix")
    if prefix is None:
        return None, ""
    key = below(key, "prefix")
    if not isinstance(prefix.content, str):
        faults.add(prefix, key, f"{shown(prefix)}, wanted BRANCH/PATH")
        return None, ""
    branch, slash, path = prefix.content.removeprefix("/").partition("/")
    if not prefix.content:
        faults.add(prefix, key, "empty; leave the filter out to match everything")
    elif not slash:
        faults.add(
            prefix,
            key,
            f"{prefix.content!r} has no slash behind the branch, and could mean every branch "
            f"that begins so; write `{branch}/` for the whole branch",
        )
    elif not BRANCH.fullmatch(branch):
        faults.add(prefix, key, f"{branch!r} cannot be the name of a branch")
    elif "\0" in path or not _is_utf8(path):
        faults.add(prefix, key, "no path holds such characters")
    return branch, path


def _status(value: Value | None, key: str, faults: Faults) -> bool:
    if value is not None and value.content not in ("enabled", "disabled"):
        faults.add(value, key, f"{shown(value)}, wanted enabled or disabled")
    return value is None or value.content == "enabled"


def _effect(value: Value | None, key: str, faults: Faults) -> Effect | None:
    if value is None:
        return None
    for effect in EFFECTS:
        if value.content == effect:
            return effect
    faults.add(value, key, f"{shown(value)}, wanted {' or '.join(EFFECTS)}")
    return "expire"


def _periods(
    rule: Value, found: Mapping[str, Value], key: str, faults: Faults, *, removes: bool
) -> dict[Action, Period]:
    """Read the actions of a rule in whichever form they stand."""
    wanted = REMOVAL_ACTIONS if removes else ACTIONS
    given: dict[str, tuple[Value, str]] = {}
    beside = {name: found[name] for name in _BESIDE if name in found}
    if "expiration" in found:
        value, where = found["expiration"], below(key, "expiration")
        names = faults.keys(value, where, (*ACTIONS, "days", "weeks"))
        names = {} if names is None else names
        actions = {name: names[name] for name in ACTIONS if name in names}
        if actions and (len(actions) < len(names) or beside):
            faults.add(
                value,
                where,
                "mixes the two forms: either `expiration` holds the actions, or it holds a "
                "period and the others stand beside it",
            )
        if len(actions) < len(names):
            given["all"] = value, where
        given.update({name: (each, below(where, name)) for name, each in actions.items()})
        if not names and isinstance(value.content, Pairs) and not value.content.items:
            faults.add(value, where, f"empty; wanted at least one of {', '.join(wanted)}")
    given.update({_BESIDE[name]: (each, below(key, name)) for name, each in beside.items()})
    if not given and "expiration" not in found:
        faults.add(rule, below(key, "expiration"), "missing")
    periods: dict[Action, Period] = {}
    for action in wanted:
        if action in given:
            value, where = given[action]
            has_both_forms = action == "all" and where.endswith(".expiration")
            periods[action] = _period(value, where, faults, may_hold_actions=has_both_forms)
    if "noncurrent" in given and removes:
        value, where = given["noncurrent"]
        faults.add(
            value,
            where,
            "has no meaning for a rule that removes entries: what no branch shows any more is "
            "removed already",
        )
    return periods


def _period(value: Value, key: str, faults: Faults, *, may_hold_actions: bool = False) -> Period:
    others = ACTIONS if may_hold_actions else ()
    before = len(faults.found)
    found = faults.keys(value, key, ("days", "weeks", *others))
    if found is None or len(faults.found) > before:
        return Period(days=1)
    counts: dict[str, int] = {}
    for unit in ("days", "weeks"):
        if unit not in found:
            continue
        count = found[unit].content
        # True is a whole number to Python.
        if type(count) is not int or count < 0:
            faults.add(
                found[unit],
                below(key, unit),
                f"{shown(found[unit])}, wanted a whole number of at least 0",
            )
        else:
            counts[unit] = count
    days = counts.get("days", 0) + 7 * counts.get("weeks", 0)
    if len(faults.found) > before:
        return Period(days=1)
    if not counts:
        faults.add(value, key, "has no period; give `days`, `weeks` or both")
    elif not 1 <= days <= LONGEST_DAYS:
        faults.add(value, key, f"is {days:,} days, wanted 1 to {LONGEST_DAYS:,}")
    return Period(counts.get("days"), counts.get("weeks"))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
