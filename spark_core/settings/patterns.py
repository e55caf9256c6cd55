"""Repositories by pattern: `[repositories."team-*"]` stands for each name of the server's list."""

from __future__ import annotations

from collections.abc import Sequence

from spark_core.errors import SettingsError
from spark_core.globs import Syntax, matches


def is_pattern(name: str) -> bool:
    """Say whether a key of `[repositories]` is a pattern, and no name."""
    return "*" in name or "?" in name


def matching(repository_id: str, patterns: Sequence[str], where: str) -> str | None:
    """Return the one pattern that matches a repository; None if none does.

    Args:
        repository_id: Repository name.
        patterns: Patterns of the settings.
        where: The settings, for the message.

    Raises:
        SettingsError: If two patterns match it: their order in the file decides nothing.
    """
    found = [pattern for pattern in patterns if matches(pattern, repository_id, Syntax())]
    if len(found) > 1:
        named = " and ".join(f'[repositories."{pattern}"]' for pattern in found)
        raise SettingsError(
            f"{where}: {named} both match repository {repository_id!r}",
            f"Give it a table of its own, [repositories.{repository_id}]: an exact name wins.",
        )
    return found[0] if found else None


def all_matching(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the names that a pattern matches, in their order.

    Examples:
        >>> all_matching("team-*", ["team-b", "other", "team-a"])
        ['team-b', 'team-a']
    """
    return [name for name in names if matches(pattern, name, Syntax())]


def resolved(
    names: Sequence[str], patterns: Sequence[str], on_server: Sequence[str], where: str
) -> tuple[str, ...]:
    """Return the repositories that names and patterns stand for.

    Args:
        names: Names of the settings; they stay, whether the server lists them or not.
        patterns: Patterns of the settings.
        on_server: Repositories of the server that may be collected.
        where: The settings, for the message.

    Returns:
        The names in their order, then what the patterns match, sorted; each once.

    Raises:
        SettingsError: If two patterns match one repository that has no table of its own.
    """
    others = sorted(set(on_server) - set(names))
    return (
        *names,
        *(each for each in others if matching(each, patterns, where) is not None),
    )
