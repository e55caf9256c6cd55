"""Replay histories of real runs on the model: which of them could it have gone through?

The history of one object is a word. Its letters:

    old, recent, young      how old the object is when its mark begins; first in each word
    =01rcd                  what people have done by now: it is staged on the first branch, on the
                            second one, in commits or held; compacted on the first branch, on the
                            second one; a letter that is missing is a no
    =rp, =rq                a policy lets it go, though it is referred to: p, one surely names it,
                            q, one may
    LIST( ... )             in between is the moment at which the collector lists; names of steps
                            are those of protocol.pml, and several may share a window: SCAN+DIFF_0(
    LIST( ... ?)            the same, and perhaps it did not list
    KILL                    the process was killed; a window that was open is not any more
    planned, ...            what the mark decided, what the sweep did, whether the object is there
                            or absent: see `FOUND`

The model goes on by itself; each labelled step waits until the window of its name is open, and a
window closes only after its step. So a word is refused if no order of the model's steps and of what
people can do comes to its end.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path

from tests.model import run

TRACE = Path(__file__).with_name("replay.pml")
_STEP = re.compile(r"/\* step (\w+)(?: of ([^*]+?))? \*/")
STEPS = (
    "CUTOFF", "LIST", "SCAN", "DIFF_0", "DIFF_1", "REFS", "VERDICT", "LEASE", "TAKEN", "BEAT",
    "INTENT", "REQUEST", "LANDS", "OUTCOME", "REPORT", "BELOW",
)  # fmt: skip
# Kinds of letters, by their numbers in replay.pml.
_KINDS = {"BEGIN": 1, "OPEN": 2, "CLOSE": 3, "WORLD": 4, "FOUND": 5, "KILL": 6}
# Ticks of the model: less than the minimum age, less than the cutoff, more.
_AGES = {"young": 1, "recent": 2, "old": 3}
FOUND = {"planned": 1, "unplanned": 2, "deleted": 3, "gone": 4, "kept": 5, "there": 6, "absent": 7}
_WORLD = {"0": 1, "1": 2, "r": 4, "c": 8, "d": 16, "p": 32, "q": 64}
# What histories have and the model has not: policies. What one names is read with refs; a mark lets
# it go, and a sweep that finds it named no more keeps it, be it referred to or not.
_POLICIES = (
    ("byte names, got,", "byte let, names, got,"),
    ("seen[me] = 0; alive[me] = 0; names = 0;", "seen[me] = 0; alive[me] = 0; let = 0; names = 0;"),
    (
        "goto refused :: else fi; /* guard NO_COMMIT_REFUSES */",
        "goto refused :: else fi; if :: named -> let = bit(2) :: named != 1 -> let = 0 fi;",
    ),
    (
        "plan[me] = listed & old[me] & ~seen[me];",
        "plan[me] = listed & old[me] & ~(seen[me] & ~let); by_rule[me] = plan[me] & seen[me];",
    ),
    ("(plan[me] & must[me])", "(plan[me] & must[me] & ~by_rule[me])"),
    ("(x & must[i])", "(x & must[i] & ~by_rule[i])"),
    (
        "got = alive[me] | youngest;",
        "got = (alive[me] & ~by_rule[me]) | (by_rule[me] & ~let) | youngest;",
    ),
)
# What people may do between two letters, in steps of the model, and of which kinds.
_MOVES = 5
_DO = run.LINK | run.RESET | run.COMMIT | run.HARD_RESET | run.TAG | run.EXPIRE
_MOST, _LONGEST = 4_000, 120
# So many words take less than the optimizer would.
_FEW = 12

Word = tuple[str, ...]


def source() -> str:
    """Return the model with a process that holds its labelled steps to a word."""
    model = re.sub(r"^ltl .*$", "", run.MODEL.read_text(), flags=re.MULTILINE)
    named = {name for name, _ in _STEP.findall(model)}
    if named != set(STEPS):
        raise ValueError(f"steps that only one of both has: {named ^ set(STEPS)}")
    model = _STEP.sub(_waiting, model)
    for there, instead in (
        # All readings are complete, and scans are among them.
        ("#if FAULTS\n", "#if 1\n"),
        # Nothing more is tried of a word that was replayed.
        ("atomic { acts > 0 -> acts--;", "atomic { acts > 0 && is_left -> acts--;"),
        *_POLICIES,
    ):
        if model.count(there) != 1:
            raise ValueError(f"{there!r} is not once in the model")
        model = model.replace(there, instead)
    defined = {step: 1 << at for at, step in enumerate(STEPS)}
    defined |= _KINDS | {"MOVES": _MOVES, "MOST": _MOST, "LONGEST": _LONGEST}
    head = "".join(f"#define {name} {value}\n" for name, value in defined.items())
    declared, process = TRACE.read_text().split("\nactive proctype", maxsplit=1)
    return f"{head}{declared}\n{model}\nactive proctype{process}"


def _waiting(step: re.Match[str]) -> str:
    """Return the statements that let a step happen in its window alone."""
    name, of = step[1], step[2]
    if of is None:
        return f"(open & {name}) && !acting; took = took | {name};"
    is_there = f"in(2, {of})"
    return f"!{is_there} || ((open & {name}) && !acting); took = took | ({is_there} -> {name} : 0);"


@cache
def _program(text: str, do: int, optimized: bool) -> bytes:  # noqa: FBT001 - a key of the cache
    """Compile a model; once for all words of a process in which people do such things."""
    defined = run.DEFAULTS | {"OBJECTS": 2, "ACTS": 0, "DO": do, "ENDS": 1}
    flags = [f"-D{name}={value}" for name, value in defined.items()]
    with tempfile.TemporaryDirectory(prefix="lakegc-replay-") as folder:
        Path(folder, "model.pml").write_text(text)
        run.done(["spin", *flags, "-a", "model.pml"], folder)
        flags = [
            "-O1" if optimized else "-O0",
            "-w",
            "-DSAFETY",
            "-DNOREDUCE",
            "-DREVERSE",
            "-DMEMLIM=4000",
        ]
        run.done(["gcc", *flags, "-o", "pan", "pan.c"], folder)
        return Path(folder, "pan").read_bytes()


def refused(words: Collection[Word], text: str | None = None) -> list[Word]:
    """Return the words that the model cannot go through.

    Raises:
        RuntimeError: If Spin or the compiler refuses, or an invariant breaks on the way.
        ValueError: If a word has an unknown letter, or is too long.
    """
    compacting = {word for word in words if _compacts(word)}
    left = []
    # What people may do more makes every search longer.
    for of_kind, do in ((set(words) - compacting, _DO), (compacting, _DO | run.COMPACT)):
        ordered = sorted(of_kind)
        for begin in range(0, len(ordered), _MOST):
            some = ordered[begin : begin + _MOST]
            replayed = _replayed(some, _program(text or source(), do, len(some) > _FEW))
            left += [word for at, word in enumerate(some) if at not in replayed]
    return sorted(left)


def _compacts(word: Word) -> bool:
    return any(letter.startswith("=") and set(letter) & {"c", "d"} for letter in word)


def _replayed(words: list[Word], program: bytes) -> set[int]:
    with tempfile.TemporaryDirectory(prefix="lakegc-replay-") as folder:
        pan = Path(folder, "pan")
        pan.write_bytes(program)
        pan.chmod(0o700)
        Path(folder, "words").write_text("".join(f"{_numbers(word)}\n" for word in words))
        said = run.done(["./pan", "-E", "-m200000", "-w22"], folder)
    if "errors: 0" not in said or "max search depth" in said or "not completed" in said:
        raise RuntimeError(f"the replay broke off:\n{said[-2000:]}")
    return {int(number) for number in re.findall(r"^replayed (\d+)$", said, re.MULTILINE)}


def _numbers(word: Word) -> str:
    letters = [_number(letter) for letter in word]
    if not word or word[0] not in _AGES or len(letters) >= _LONGEST:
        raise ValueError(f"no age first, or too long: {word}")
    return " ".join(map(str, [*letters, 0]))


def _number(letter: str) -> int:
    if letter in _AGES:
        kind, value = "BEGIN", _AGES[letter]
    elif letter in FOUND:
        kind, value = "FOUND", FOUND[letter]
    elif letter in {")", "?)"}:
        kind, value = "CLOSE", int(letter == "?)")
    elif letter == "KILL":
        kind, value = "KILL", 0
    elif letter.startswith("="):
        kind, value = "WORLD", sum(_WORLD[flag] for flag in letter[1:])
    elif letter.endswith("("):
        kind, value = "OPEN", sum(1 << STEPS.index(name) for name in letter[:-1].split("+"))
    else:
        raise ValueError(f"unknown letter: {letter}")
    return _KINDS[kind] << 16 | value


def require_allowed(words: Collection[Word]) -> str:
    """Refuse a history that the model does not allow; each word is tried once in a process.

    Returns:
        What was replayed, or why nothing was.
    """
    if why := run.why_not():
        return why
    new = set(words) - _ALLOWED
    left = refused(new) if new else []
    assert not left, "the model forbids:\n" + "\n".join(" ".join(word) for word in left)
    _ALLOWED.update(new)
    return f"{len(words)} words replayed, {len(new)} of them new"


_ALLOWED: set[Word] = set()
