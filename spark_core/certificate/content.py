"""What a certificate says, put together from what it rests on.

`lakegc certificate` and `lakegc verify` put it together by this one function, from the documents in
the file or from those in the store. So no sentence of a file is believed, and what nothing proves
is named in `UNPROVEN` and `ONLY_IN_STORE`. Every word here is part of the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from spark_core import lakegc_keys
from spark_core.errors import VerdictError
from spark_core.json_and_toml import read_json
from spark_core.records import tables
from spark_core.records.manifest import Manifest
from spark_core.records.swept import quarantine_ends_at
from spark_core.records.verdict_document import Verdict
from spark_core.report.past_runs import outcomes_of

Value = TypeVar("Value")

# Fields that neither the documents in a certificate nor the store prove: when it was made, by which
# lakegc, and how many commits were read of a repository that has more now.
UNPROVEN = ("issued_at", "lakegc", "path.commits_read", "path.read_at")
# Fields that the documents in a certificate do not prove. The store does.
ONLY_IN_STORE = (
    *("after_deletion", "by_reason", "confirmed", "figures", "mark", "path.objects", "prefix"),
)

LIMITS = (
    "Versions and soft delete are stated as they were read when this was issued. Copies outside "
    "the bucket, replicas, backups and snapshots, and what a client downloaded, are unknown to "
    "lakegc."
)
PATH_LIMITS = (
    "Paths are those of every commit of the repository and of every branch now. An upload that was "
    "dropped from its branch before any commit has no path any more, and is not part of this. "
    "Entries that a branch shows are named by their address, so a copy under another path that is "
    "another object is not part of this."
)
_AMOUNTS = ("in_quarantine", "in_other_quarantines", "restored", "looked_for", "found_again")
_MARK = ("kind", "index", "saved")


def content(verdict: str, deletion_report: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Put a certificate together, without seal and signature.

    Args:
        verdict: The verdict, as stored.
        deletion_report: The manifest of the deletion report, as stored.
        asked: The fields of a certificate that only a look at store and server gives: `issued_at`,
            `lakegc`, and those of `ONLY_IN_STORE`; `path` if `prefix` is not None. Each is put into
            the JSON type that it must have, so that a value of another type is not what comes out.

    Raises:
        CorruptTableError: If one of the two documents is not as it was written.
        VerdictError: If they are not of one run, the groups do not add up to the outcomes, or a
            field that is asked for is missing or has another form.
    """
    of, report = _of_one_run(verdict, deletion_report)
    outcomes = {name: list(amount) for name, amount in outcomes_of(report).items()}
    figures = _field(asked, "figures", _figures)
    after = _field(asked, "after_deletion", _after)
    held = list(_held_by(of, report, figures, after))
    made = {
        "lakegc": _field(asked, "lakegc", str),
        "issued_at": _field(asked, "issued_at", str),
        "repository": of.repository,
        "instance": of.instance,
        "namespace": of.namespace,
        "run": of.run,
        # Where a store refused each deletion, nothing is gone.
        "gone": not held and "deleted" in outcomes,
        "held_by": held,
        "statement": _statement(of, outcomes, held),
        "outcomes": outcomes,
        "by_reason": _field(asked, "by_reason", partial(_by_reason, outcomes)),
        "policy": of.policy,
        "after_deletion": after,
        "figures": figures,
        "rules": of.rules,
        "cutoff": of.cutoff,
        "options": of.options,
        "commits": _commits(of),
        "mark": _field(asked, "mark", _mark),
        "checks": _checks(of),
        "confirmed": _field(asked, "confirmed", _texts),
        "tables": of.tables,
        "verdict": verdict,
        "deletion_report": deletion_report,
        "limits": LIMITS,
    }
    # A field by itself, so that nobody can leave out what is said of the path.
    made["prefix"] = prefix = _field(asked, "prefix", _prefix)
    if prefix is not None:
        made["path"] = _field(asked, "path", partial(_path, prefix))
    # As it is read back: with lists where there are tuples.
    plain: dict[str, Any] = read_json(json.dumps(made))
    return plain


def _commits(of: Verdict) -> dict[str, Any]:
    table = of.tables[tables.RETAINED_COMMITS.name]
    return {
        "retained": table["rows"],
        "manifest": table["manifest"],
        "read_from": table["reading_began"],
        "read_to": table["reading_ended"],
    }


def _checks(of: Verdict) -> list[dict[str, Any]]:
    return [
        {name: check.get(name) for name in ("name", "passed", "summary")} for check in of.checks
    ]


def uncovered(made: Mapping[str, Any], *, by_store: bool) -> list[str]:
    """Name the fields of a certificate that were compared with nothing.

    Args:
        made: The certificate.
        by_store: Whether it was compared with the store, too.
    """
    names = UNPROVEN if by_store else (*UNPROVEN, *ONLY_IN_STORE)
    return sorted(name for name in names if "path" in made or not name.startswith("path."))


def is_gone(made: Mapping[str, Any]) -> bool:
    """Say whether everything that a certificate speaks of is gone."""
    path = made.get("path")
    return bool(made["gone"]) and (path is None or bool(path["gone"]))


def _of_one_run(verdict: str, deletion_report: str) -> tuple[Verdict, Manifest]:
    of = Verdict.from_json(verdict.encode(), name="its verdict")
    report = Manifest.from_json(deletion_report.encode(), name="its deletion report")
    if (report.repository, report.run, report.instance) != (of.repository, of.run, of.instance):
        raise VerdictError("its deletion report is of another run or repository than its verdict")
    marked = of.tables[tables.EXPIRED_ADDRESSES.name]["manifest"]
    if report.parents != {tables.EXPIRED_ADDRESSES.name: marked}:
        raise VerdictError("its deletion report was not made from the mark that its verdict names")
    return of, report


def _field(asked: Mapping[str, Any], name: str, read: Callable[[Any], Value]) -> Value:
    try:
        return read(asked[name])
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise VerdictError(f"its field `{name}` is missing, or has another form") from None


def _texts(asked: Iterable[Any]) -> list[str]:
    return [str(each) for each in asked]


def _text_or_none(asked: Any) -> str | None:
    return None if asked is None else str(asked)


def _prefix(asked: Any) -> str | None:
    # What is no text in UTF-8 is no beginning of a path, and everything has an empty one.
    if asked is not None and not str(asked).encode():
        raise ValueError(asked)
    return _text_or_none(asked)


def _figures(asked: Mapping[str, Any]) -> dict[str, Any]:
    amounts = {name: int(asked[name]) for name in _AMOUNTS}
    named = ("found_again_named", "other_quarantines")
    return {**amounts, **{name: _texts(asked[name]) for name in named}}


def _mark(asked: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(asked[name]) for name in _MARK if name in asked}


def _after(asked: Mapping[str, Any]) -> dict[str, Any]:
    keeps = asked["keeps"]
    return {"keeps": None if keeps is None else bool(keeps), "words": str(asked["words"])}


def _held_by(
    of: Verdict, report: Manifest, figures: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[str]:
    """Name what still holds objects that a run deleted."""
    aside, back = figures["in_quarantine"], figures["restored"]
    if aside:
        until = quarantine_ends_at(report)
        ends = "" if until is None else f" until {until:%Y-%m-%d %H:%M} UTC"
        yield f"{aside:,} lie in quarantine under {lakegc_keys.in_quarantine(of.run)}{ends}"
    if figures["in_other_quarantines"]:
        runs = ", ".join(figures["other_quarantines"])
        yield f"{figures['in_other_quarantines']:,} lie in the quarantine of other runs ({runs})"
    if back:
        yield f"{back:,} {'was' if back == 1 else 'were'} restored"
    if after["keeps"] is not False:
        yield store_words(after["words"], keeps=after["keeps"])
    if figures["found_again"] and not back:
        named = ", ".join(figures["found_again_named"])
        yield f"{figures['found_again']:,} are in their place again ({named})"


def store_words(words: str, *, keeps: bool | None) -> str:
    """Say that a store keeps what is deleted in it, or that nobody knows."""
    return words if keeps else f"it is not known that the store keeps none: {words}"


def _statement(of: Verdict, outcomes: Mapping[str, Sequence[int]], held: Sequence[str]) -> str:
    objects, size = outcomes.get("deleted", (0, 0))
    what = f"{objects:,} objects ({size:,} bytes) that run {of.run} of {of.repository} deleted"
    left = sum(outcomes.get(name, (0, 0))[0] for name in ("refused", "failed"))
    more = f" {left:,} others were to go and were not deleted; they are not part of this." * bool(
        left
    )
    if not objects:
        return f"Run {of.run} of {of.repository} deleted nothing.{more}"
    if held:
        return f"It is not certain that the {what} are gone: {'; '.join(held)}.{more}"
    return f"The {what} are gone.{more}"


def _by_reason(
    outcomes: Mapping[str, Sequence[int]], asked: Mapping[str, Mapping[str, Sequence[int]]]
) -> dict[str, dict[str, list[int]]]:
    """Return the groups; together they must be the outcomes."""
    groups = {
        str(reason): {
            str(outcome): [int(objects), int(size)] for outcome, (objects, size) in group.items()
        }
        for reason, group in asked.items()
    }
    summed: dict[str, list[int]] = {}
    for group in groups.values():
        for outcome, (objects, size) in group.items():
            before = summed.get(outcome, [0, 0])
            summed[outcome] = [before[0] + objects, before[1] + size]
    if summed != outcomes:
        raise VerdictError(
            f"its groups by reason come to {summed}, its deletion report says {dict(outcomes)}"
        )
    return groups


def _path(prefix: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of everything that ever had a path under a prefix."""
    commits = int(asked["commits_read"])
    if commits < 0:
        raise ValueError(commits)
    objects = [_of_object(each) for each in asked["objects"]]
    left = sum(not each["gone"] for each in objects)
    return {
        "gone": not left and bool(objects),
        "statement": _path_statement(prefix, commits, len(objects), left),
        "objects": objects,
        "commits_read": commits,
        "read_at": str(asked["read_at"]),
        "limits": PATH_LIMITS,
    }


def _of_object(asked: Mapping[str, Any]) -> dict[str, Any]:
    held = _texts(asked["held_by"])
    return {
        "address": str(asked["address"]),
        "path": str(asked["path"]),
        "last_commit": _text_or_none(asked["last_commit"]),
        "deleted_by_this_run": bool(asked["deleted_by_this_run"]),
        "gone": not held,
        "held_by": held,
    }


def _path_statement(prefix: str, commits: int, objects: int, left: int) -> str:
    read = f"all {commits:,} commits and every branch were read"
    if not objects:
        return f"Nothing has or had a path under {prefix!r} ({read})."
    if left:
        return (
            f"{left:,} of {objects:,} objects that have or had a path under {prefix!r} are not "
            f"known to be gone ({read})."
        )
    gone = f"All {objects:,} objects" if objects > 1 else "The one object"
    verb = "are" if objects > 1 else "is"
    return f"{gone} that had a path under {prefix!r} {verb} gone ({read})."
