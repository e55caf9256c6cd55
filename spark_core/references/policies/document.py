"""The document of a repository's object retention: its rules, read from JSON or YAML.

Both forms of the old lakeFS document are read. In the first, `expiration` holds a period for each
action. In the second, the actions stand beside each other. A document is shown in the first form.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from spark_core.errors import SettingsError
from spark_core.references.policies import lifecycle, places
from spark_core.references.policies.lifecycle import Lifecycle
from spark_core.references.policies.places import Pairs, UnreadableError, Value
from spark_core.references.policies.places import shown as _shown
from spark_core.site import SITE

Action = Literal["all", "noncurrent", "uncommitted"]
Effect = Literal["expire", "remove"]
# The actions of a rule whose objects expire, and of one that removes entries by a commit.
ACTIONS: tuple[Action, ...] = ("all", "noncurrent", "uncommitted")
REMOVAL_ACTIONS: tuple[Action, ...] = ("all", "uncommitted")
EFFECTS: tuple[Effect, ...] = get_args(Effect)

UNCOMMITTED: Action = "uncommitted"
REMOVE: Effect = "remove"

# The second form: key of a rule -> action.
_BESIDE = {"noncurrent_expiration": "noncurrent", "uncommitted_expiration": UNCOMMITTED}

# A century, as for the server's retention rules (safety 26).
LONGEST_DAYS = 36_500
MOST_RULES = 1_000
MOST_BYTES = 1_000_000
# The names that lakeFS gives to branches.
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_NAMED_FAULTS = 20


@dataclass(frozen=True)
class Period:
    """How old something must be; at least one of the two is given, and together at least a day."""

    days: int | None = None
    weeks: int | None = None

    @property
    def length(self) -> timedelta:
        """N days are N times 24 hours."""
        return timedelta(days=self.days or 0, weeks=self.weeks or 0)

    def __str__(self) -> str:
        days = self.length.days
        return f"{days:,} day{'' if days == 1 else 's'}"


@dataclass(frozen=True)
class Rule:
    """What a rule names, and how old it must be.

    Attributes:
        branch: Branch under which objects were committed; None for whatever branch.
        path: Prefix of paths on the branch; empty for all of them.
        is_enabled: Whether it is applied.
        periods: Period of each action that the rule has.
        status: Whether the document says the status.
        effect: What the rule does, where it names it; left out, `expire`.
    """

    branch: str | None
    path: str
    periods: Mapping[Action, Period]
    is_enabled: bool = True
    effect: Effect | None = None

    @property
    def removes(self) -> bool:
        """Whether it removes entries by a commit instead of letting objects expire."""
        return self.effect == REMOVE

    @property
    def prefix(self) -> str | None:
        """The prefix as the document writes it; None for a rule without one."""
        return None if self.branch is None else f"{self.branch}/{self.path}"

    def content(self) -> dict[str, Any]:
        """Return the rule in the document's first form; JSON values only."""
        return {
            **({} if self.prefix is None else {"filter": {"prefix": self.prefix}}),
            "status": "enabled" if self.is_enabled else "disabled",
            **({} if self.effect is None else {"effect": self.effect}),
            "expiration": {
                action: {
                    unit: count
                    for unit, count in (("weeks", period.weeks), ("days", period.days))
                    if count is not None
                }
                for action, period in self.periods.items()
            },
        }

    def words(self, number: int, action: Action) -> str:
        """Say by which rule an object goes: number, action, period and prefix."""
        where = "everywhere" if self.prefix is None else f"on {self.prefix}"
        return f"policy rule {number}: {action}, {self.periods[action]}, {where}"


@dataclass(frozen=True)
class Policy:
    """A document.

    Attributes:
        rules: In the document's order; people and tables number them from 1 on.
        branch_order: Branches of which the operator vouches that what stands on their main line was
            committed there, unless it stands on that of an earlier one. The default branch is
            always the first, unless it is named at another place.
        branch_lifecycle: Which branches may go; None for none. A document with it may do without
            rules.
    """

    rules: tuple[Rule, ...]
    branch_order: tuple[str, ...] = field(default=())
    branch_lifecycle: Lifecycle | None = None

    def content(self) -> dict[str, Any]:
        """Return the document in its first form; JSON values only."""
        section = self.branch_lifecycle
        return {
            **({"branch_order": list(self.branch_order)} if self.branch_order else {}),
            # Digests of documents from before the section must stay as they are.
            **({"rules": [rule.content() for rule in self.rules]} if self.rules else {}),
            **({} if section is None else {lifecycle.SECTION: section.content()}),
        }

    def to_json(self) -> str:
        """Write the document in its first form, to be shown and to be read again."""
        return json.dumps(self.content(), indent=2, ensure_ascii=False) + "\n"

    @property
    def digest(self) -> str:
        """Hex digest of what the document says, however it is written."""
        content = json.dumps(self.content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Fault:
    """An error of a document: where it stands in the text, at which key, and what it is."""

    place: places.TextPlace | None
    key: str
    problem: str

    def __str__(self) -> str:
        where = ", ".join(str(each) for each in (self.place, self.key) if each)
        return f"{where}: {self.problem}" if where else self.problem


class PolicyError(SettingsError):
    """A document is not a policy.

    Attributes:
        faults: All that were found.
    """

    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, name: str, faults: Sequence[Fault]) -> PolicyError:
        """Make the refusal of a document."""
        shown = "; ".join(str(fault) for fault in faults[:_NAMED_FAULTS])
        more = len(faults) - _NAMED_FAULTS
        count = f"{len(faults)} error{'' if len(faults) == 1 else 's'}"
        error = cls(
            f"{name} is not a retention policy, it has {count}: {shown}"
            + (f"; and {more} more" if more > 0 else ""),
            f"`lakegc retention schema` prints the form, {SITE}/object-retention.html explains it.",
        )
        error.faults = tuple(faults)
        return error


def parse(data: bytes, *, name: str, policy_effect: Effect = "expire") -> Policy:
    """Read a document, JSON or YAML, in either form.

    Args:
        data: The bytes of the file.
        name: Name of the file, for the message.
        policy_effect: Effect of rules that name none. A rule that then removes names its effect in
            what is read, so that the digest is of it.

    Raises:
        PolicyError: With every fault and its place in the file.
    """
    if len(data) > MOST_BYTES:
        problem = f"it has {len(data):,} bytes, at most {MOST_BYTES:,} are read"
        raise PolicyError.of(name, [Fault(None, "", problem)])
    try:
        root = places.read(data.decode("utf-8-sig"))
    except UnicodeDecodeError as wrong:
        raise PolicyError.of(name, [Fault(None, "", f"byte {wrong.start} is not UTF-8")]) from None
    except UnreadableError as unreadable:
        raise PolicyError.of(name, [Fault(unreadable.place, "", unreadable.problem)]) from None
    reader = _RuleParser(policy_effect)
    policy = reader.policy(root)
    if policy is None or reader.faults:
        ordered = sorted(
            reader.faults,
            key=lambda fault: (fault.place.line, fault.place.column) if fault.place else (0, 0),
        )
        raise PolicyError.of(name, ordered)
    stored = len(_stored(policy.content()))
    if stored > MOST_BYTES:
        problem = f"it has {stored:,} bytes as it is stored, at most {MOST_BYTES:,} are read"
        raise PolicyError.of(name, [Fault(None, "", problem)])
    return policy


def _stored(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


def of_content(content: Mapping[str, Any], *, name: str) -> Policy:
    """Read a document back from the values of `Policy.content`.

    Raises:
        PolicyError: If it is none.
    """
    return parse(_stored(content), name=name)


class _RuleParser:
    """Turns values into rules and collects the faults."""

    def __init__(self, policy_effect: Effect) -> None:
        self.policy_effect = policy_effect
        self.faults: list[Fault] = []

    def fault(self, value: Value, key: str, problem: str) -> None:
        self.faults.append(Fault(value.place, key, problem))

    def keys(self, value: Value, key: str, known: Sequence[str]) -> dict[str, Value] | None:
        """Return the values of a mapping by key; None if it is none."""
        if not isinstance(value.content, Pairs):
            self.fault(value, key, f"{_shown(value)}, wanted a mapping")
            return None
        found: dict[str, Value] = {}
        for name, content in value.content.items:
            if not isinstance(name.content, str):
                self.fault(name, key, f"the key {_shown(name)} is no text")
            elif name.content in found:
                self.fault(name, _below(key, name.content), "it is given twice")
            elif name.content not in known:
                self.fault(
                    name, _below(key, name.content), f"unknown; known are {', '.join(known)}"
                )
            else:
                found[name.content] = content
        return found

    def policy(self, root: Value) -> Policy | None:
        found = self.keys(root, "", ("rules", "branch_order", lifecycle.SECTION))
        if found is None:
            return None
        section = None
        if lifecycle.SECTION in found:
            section = lifecycle.read_section(found[lifecycle.SECTION], self)
        order = self.branch_order(found["branch_order"]) if "branch_order" in found else ()
        if "rules" not in found and lifecycle.SECTION in found:
            return Policy((), order, section)
        if "rules" not in found:
            self.fault(root, "rules", "missing")
            return None
        listed = found["rules"]
        if not isinstance(listed.content, list):
            self.fault(listed, "rules", f"{_shown(listed)}, wanted a list of rules")
            return None
        if not 1 <= len(listed.content) <= MOST_RULES:
            self.fault(
                listed,
                "rules",
                f"{len(listed.content):,} rules, wanted 1 to {MOST_RULES:,} (`lakegc retention "
                "delete` ends a policy)",
            )
        rules = [self.rule(value, f"rules[{at}]") for at, value in enumerate(listed.content)]
        return Policy(tuple(rule for rule in rules if rule is not None), order, section)

    def branch_order(self, value: Value) -> tuple[str, ...]:
        if not isinstance(value.content, list):
            self.fault(value, "branch_order", f"{_shown(value)}, wanted a list of branches")
            return ()
        names: list[str] = []
        for at, each in enumerate(value.content):
            key = f"branch_order[{at}]"
            if not isinstance(each.content, str) or not _BRANCH.fullmatch(each.content):
                self.fault(each, key, f"{_shown(each)}, wanted the name of a branch")
            elif each.content in names:
                self.fault(each, key, f"{each.content} is named twice")
            else:
                names.append(each.content)
        return tuple(names)

    def rule(self, value: Value, key: str) -> Rule | None:
        known = ("filter", "status", "effect", "expiration", *_BESIDE)
        found = self.keys(value, key, known)
        if found is None:
            return None
        branch, path = self.filter(found.get("filter"), _below(key, "filter"))
        is_enabled = self.status(found.get("status"), _below(key, "status"))
        effect = self.effect(found.get("effect"), _below(key, "effect"))
        removes = effect == REMOVE
        periods = self.periods(value, found, key, removes=removes)
        if removes and branch is None:
            self.fault(
                value,
                _below(key, "filter"),
                "has no prefix, and a rule that removes entries writes commits: name the one "
                "branch that it may write to",
            )
        return Rule(branch, path, periods, is_enabled, effect)

    def filter(self, value: Value | None, key: str) -> tuple[str | None, str]:
        found = None if value is None else self.keys(value, key, ("prefix",))
        prefix = (found or {}).get("prefix")
        if prefix is None:
            return None, ""
        key = _below(key, "prefix")
        if not isinstance(prefix.content, str):
            self.fault(prefix, key, f"{_shown(prefix)}, wanted BRANCH/PATH")
            return None, ""
        branch, slash, path = prefix.content.removeprefix("/").partition("/")
        if not prefix.content:
            self.fault(prefix, key, "empty; leave the filter out to match everything")
        elif not slash:
            self.fault(
                prefix,
                key,
                f"{prefix.content!r} has no slash behind the branch, and could mean every branch "
                f"that begins so; write `{branch}/` for the whole branch",
            )
        elif not _BRANCH.fullmatch(branch):
            self.fault(prefix, key, f"{branch!r} cannot be the name of a branch")
        elif "\0" in path or not _is_utf8(path):
            self.fault(prefix, key, "no path holds such characters")
        return branch, path

    def status(self, value: Value | None, key: str) -> bool:
        if value is not None and value.content not in ("enabled", "disabled"):
            self.fault(value, key, f"{_shown(value)}, wanted enabled or disabled")
        return value is None or value.content == "enabled"

    def effect(self, value: Value | None, key: str) -> Effect | None:
        if value is None:
            return REMOVE if self.policy_effect == REMOVE else None
        for effect in EFFECTS:
            if value.content == effect:
                return effect
        self.fault(value, key, f"{_shown(value)}, wanted {' or '.join(EFFECTS)}")
        return "expire"

    def periods(
        self, rule: Value, found: Mapping[str, Value], key: str, *, removes: bool
    ) -> dict[Action, Period]:
        """Read the actions of a rule in whichever form they stand."""
        wanted = REMOVAL_ACTIONS if removes else ACTIONS
        given: dict[str, tuple[Value, str]] = {}
        beside = {name: found[name] for name in _BESIDE if name in found}
        if "expiration" in found:
            value, where = found["expiration"], _below(key, "expiration")
            names = self.keys(value, where, (*ACTIONS, "days", "weeks"))
            names = {} if names is None else names
            actions = {name: names[name] for name in ACTIONS if name in names}
            if actions and (len(actions) < len(names) or beside):
                self.fault(
                    value,
                    where,
                    "mixes the two forms: either `expiration` holds the actions, or it holds a "
                    "period and the others stand beside it",
                )
            if len(actions) < len(names):
                given["all"] = value, where
            given.update({name: (each, _below(where, name)) for name, each in actions.items()})
            if not names and isinstance(value.content, Pairs) and not value.content.items:
                self.fault(value, where, f"empty; wanted at least one of {', '.join(wanted)}")
        given.update({_BESIDE[name]: (each, _below(key, name)) for name, each in beside.items()})
        if not given and "expiration" not in found:
            self.fault(rule, _below(key, "expiration"), "missing")
        periods: dict[Action, Period] = {}
        for action in wanted:
            if action in given:
                value, where = given[action]
                has_both_forms = action == "all" and where.endswith(".expiration")
                periods[action] = self.period(value, where, may_hold_actions=has_both_forms)
        if "noncurrent" in given and removes:
            value, where = given["noncurrent"]
            self.fault(
                value,
                where,
                "has no meaning for a rule that removes entries: what no branch shows any more is "
                "removed already",
            )
        return periods

    def period(self, value: Value, key: str, *, may_hold_actions: bool = False) -> Period:
        others = ACTIONS if may_hold_actions else ()
        before = len(self.faults)
        found = self.keys(value, key, ("days", "weeks", *others))
        if found is None or len(self.faults) > before:
            return Period(days=1)
        counts: dict[str, int] = {}
        for unit in ("days", "weeks"):
            if unit not in found:
                continue
            count = found[unit].content
            # True is a whole number to Python.
            if type(count) is not int or count < 0:
                self.fault(
                    found[unit],
                    _below(key, unit),
                    f"{_shown(found[unit])}, wanted a whole number of at least 0",
                )
            else:
                counts[unit] = count
        days = counts.get("days", 0) + 7 * counts.get("weeks", 0)
        if len(self.faults) > before:
            return Period(days=1)
        if not counts:
            self.fault(value, key, "has no period; give `days`, `weeks` or both")
        elif not 1 <= days <= LONGEST_DAYS:
            self.fault(value, key, f"is {days:,} days, wanted 1 to {LONGEST_DAYS:,}")
        return Period(counts.get("days"), counts.get("weeks"))


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
