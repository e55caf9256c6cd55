"""The commands of `lakegc` for a script of a platform, which must not end where all went well."""

from __future__ import annotations

from collections.abc import Sequence

from spark_core.cli.main import main as program


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks for.

    Some platforms take every `SystemExit` for a failure, and the program itself ends with one.

    Args:
        arguments: The words after the program's name; those of this process when None.

    Returns:
        Its exit code.
    """
    try:
        code = program(arguments)
    except SystemExit as ended:
        code = ended.code
    return int(code or 0)
