"""The lakegc error behind a failure of Spark."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from spark_core import errors
from spark_core.errors import LakegcError

# The last line of a Python traceback that crossed the JVM: "spark_core.errors.AddressError: ...".
# Between an error and the one that was raised because of it, or while it was handled, Python writes
# a sentence.
_AND_THEN = re.compile(
    r"\n\n(?:The above exception was the direct cause of"
    r"|During handling of the above exception, another exception occurred)"
)
_RAISED = re.compile(
    r"spark_core\.errors\.(\w+): ((?:.|\n)*?)"
    rf"(?={_AND_THEN.pattern}|\n\s*(?:at |\t|SQLSTATE|$)|\Z)"
)


def spark_failures(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what Spark raises where no error of lakegc is behind it (see `surfacing_errors`).

    To be called in an `except`: where Spark was not imported, it has raised nothing.

    Args:
        *others: Classes to catch besides.
    """
    if "pyspark" not in sys.modules:
        return others
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (*others, PySparkException, Py4JJavaError)


@contextmanager
def surfacing_errors() -> Iterator[None]:
    """Turn a failed Spark action back into the lakegc error that an executor raised.

    Spark wraps the error of a Python worker in its own exception and keeps only the text. Callers
    here decide by class.

    Raises:
        LakegcError: The error that was raised on the executor, with its class and message.
    """
    try:
        yield
    except spark_failures() as failure:
        original = _original(str(failure))
        if original is None:
            raise
        raise original from failure


def _original(text: str) -> LakegcError | None:
    # The last of the errors of a chain was raised; those before are its causes.
    errors_there = _RAISED.finditer(text)
    found = next((each for each in errors_there if not _AND_THEN.match(text, each.end())), None)
    if found is None:
        return None
    kind = getattr(errors, found[1], None)
    if not (isinstance(kind, type) and issubclass(kind, LakegcError)):
        return None
    return kind.from_message(found[2].strip())
