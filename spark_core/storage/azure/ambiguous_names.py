"""Which names Azure Blob Storage would take for other ones."""

from __future__ import annotations

from spark_core.addresses.collectable import NOT_NAMEABLE, arrow_pattern

# The service takes `\` for `/` and drops dots at the end of a segment, so such a name means another
# object. It says itself that the other characters may not pass.
NOT_OF_AZURE = rf"{NOT_NAMEABLE}|\\|\.(?:/|$)|[\x80-\x9f]"
_MISNAMED = arrow_pattern(NOT_OF_AZURE)
_LONGEST_NAME = 1024


def misnamed(key: str, name: str) -> str | None:
    """Say why a key cannot be named safely; None if it can.

    Args:
        key: Relative to the namespace.
        name: In the container.
    """
    if _MISNAMED.search(key):
        return "holds a control character, a backslash, or a segment that is empty or ends in a dot"
    if len(name) > _LONGEST_NAME:
        return f"is longer than the {_LONGEST_NAME} characters that the service takes"
    return None
