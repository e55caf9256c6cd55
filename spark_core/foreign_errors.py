"""Turn what the operating system, YAML, SQLite and Spark raise into errors of the one tree.

`spark_core.phases` calls this where an error leaves a step, and a command where it leaves that.
What else is no error of lakegc is a mistake in it, and its traceback is shown.
"""

from __future__ import annotations

import errno
import os
import re

from spark_core.errors import LakegcError, SettingsError

_ROOM = (
    "Make room there (temporary files are where TMPDIR says, else in /tmp), and run the same "
    "command again."
)
_NEXT_STEPS = {
    errno.ENOENT: "Correct the name, or make its folder first.",
    errno.ENOTDIR: "Correct the name: a part of it is a file where a folder is needed.",
    errno.EACCES: "Give this user the right to it, or name another place.",
    errno.EPERM: "Give this user the right to it, or name another place.",
    errno.EROFS: "Name a place on a file system that may be written to.",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
}
_LOOK = "Look at the disk or the mount, and run the same command again."
_SHOWN, _LAST_LINES = 300, 3

# The libraries whose errors are told, by the first word of the module of their classes: none of
# them need be there, or be imported for this question.
_OF_JAVA = ("py4j", "pyspark")
_SPARKS_ROOM = (
    "Make room on that machine, where Spark keeps rows (SPARK_LOCAL_DIRS, else spark.local.dir, "
    "else /tmp), and run the same command again."
)
_LIBRARIES: dict[str, tuple[type[LakegcError], str, str]] = {
    "yaml": (SettingsError, "a file is not YAML", "Correct it."),
    "sqlite3": (LakegcError, "a database on this machine cannot be used", _LOOK),
    **dict.fromkeys(
        _OF_JAVA,
        (LakegcError, "Spark failed", "Look at Spark's own lines, and run the same command again."),
    ),
}

# A line that names an error, as Java or Python prints it.
_ERROR = re.compile(
    r"^\s*(?:: |Caused by: |Exception in thread \"[^\"]*\" )?"
    r"((?:[\w$]+\.)*[A-Z][\w$]*(?:Error|Exception|Exit|Interrupt)(?:: .*)?|\[[A-Z_.]+\] .*)$",
    re.MULTILINE,
)


def in_a_sentence(error: BaseException) -> LakegcError | None:
    """Return a foreign error as one of lakegc; None for what is a mistake in lakegc.

    A pipe that its reader closed is left to whoever writes to it.

    Examples:
        >>> in_a_sentence(OSError(errno.ENOSPC, "No space left on device", "/full/file")).found
        '/full/file cannot be used (No space left on device)'
        >>> in_a_sentence(KeyError("a mistake")) is None
        True
    """
    if isinstance(error, OSError) and error.errno and not isinstance(error, BrokenPipeError):
        what = error.filename or "a file or a connection of this process"
        return LakegcError(
            f"{what} cannot be used ({error.strerror})", _NEXT_STEPS.get(error.errno, _LOOK)
        )
    roots = (kind.__module__.partition(".")[0] for kind in type(error).__mro__)
    library = next((root for root in roots if root in _LIBRARIES), None)
    if library is None:
        return None
    kind, what, step = _LIBRARIES[library]
    why = reason(str(error)) if library in _OF_JAVA else one_line(str(error))
    is_full = library in _OF_JAVA and os.strerror(errno.ENOSPC) in why
    return kind(f"{what} ({why or type(error).__name__})", _SPARKS_ROOM if is_full else step)


def reason(text: str) -> str:
    r"""Return the first error that a text of Java or of Spark names, and the cause of them all.

    Args:
        text: The message of an error that crossed the border of Java, or the lines of a process.

    Examples:
        >>> reason('Exception in thread "main" a.InitError\n\tat b.c(D:1)\nCaused by: e.IOError: f')
        'a.InitError, because of e.IOError: f'
    """
    named = [each[1].strip() for each in _ERROR.finditer(text)]
    if not named:
        # Java itself ends with plain sentences, and the last ones say why.
        return one_line(" ".join(text.strip().splitlines()[-_LAST_LINES:]))
    first, last = one_line(named[0]), one_line(named[-1])
    return first if last in first else f"{first}, because of {last}"


def one_line(text: str) -> str:
    """Join the lines of a text, and cut it to what a sentence can hold."""
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} (cut)"
