"""The repositories to collect: those that the settings name, and those that their patterns match.

Only a pattern makes a request: the server is asked for its list of repositories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_core.errors import SettingsError
from spark_core.settings import Settings, patterns

if TYPE_CHECKING:
    from spark_core.lakefs import LakeFSServer


def collected_repositories(
    settings: Settings, server: LakeFSServer | None = None
) -> tuple[str, ...]:
    """Return the repositories to collect.

    A pattern takes no read-only repository, because none can be collected. A read-only repository
    that the settings name in full stays in the list, and its run is refused.

    Args:
        settings: The settings.
        server: The server; made from the settings when None and needed.

    Raises:
        SettingsError: If two patterns match one repository, or the settings have no keys.
        LakegcError: If the server does not give its list.
    """
    if not settings.repository_patterns:
        return settings.repository_ids
    if server is None:
        from spark_core.lakefs import LakeFSServer

        server = LakeFSServer(settings.server_options())
    return patterns.resolved(
        settings.repository_ids,
        settings.repository_patterns,
        [found.id for found in server.repositories() if not found.read_only],
        str(settings.file or "the settings"),
    )


def chosen_repositories(
    settings: Settings,
    named: Sequence[str],
    server: LakeFSServer | None = None,
    *,
    are_known: bool = True,
) -> tuple[str, ...]:
    """Return the repositories that a person names; without names, those that the settings collect.

    Args:
        settings: The settings.
        named: Names, and patterns of what the settings collect.
        server: As for `collected_repositories`.
        are_known: Whether the settings must know each name; `doctor` shows those that they do not.

    Returns:
        Each once, in the order in which they are named.

    Raises:
        SettingsError: If there is none, or a pattern matches none, or the settings do not know a
            name.
    """
    collected = (
        collected_repositories(settings, server)
        if not named or any(map(patterns.is_pattern, named))
        else ()
    )
    if named:
        return tuple(
            dict.fromkeys(
                each
                for word in named
                for each in _meant(settings, word, collected, are_known=are_known)
            )
        )
    if collected:
        return collected
    where = settings.file or "the settings"
    if settings.repository_patterns:
        named_there = ", ".join(settings.repository_patterns)
        raise SettingsError(
            f"{where}: no repository of the server matches {named_there}",
            "Look at the patterns, and at what the user of the keys may see (fs:ListRepositories).",
        )
    raise SettingsError(
        f"{where}: no repository is named, on the command line or in the settings",
        "Add a table like [repositories.my-repo].",
    )


def _meant(
    settings: Settings, word: str, collected: Sequence[str], *, are_known: bool
) -> Sequence[str]:
    """Return the repositories that one name or pattern means."""
    if not patterns.is_pattern(word):
        if are_known:
            settings.repository(word)
        return [word]
    found = patterns.all_matching(word, collected)
    if not found:
        there = ", ".join(collected[:10]) or "none"
        more = f" and {len(collected) - 10:,} more" if len(collected) > 10 else ""
        raise SettingsError(
            f"the pattern {word} matches no repository that "
            f"{settings.file or 'the settings'} collects (there: {there}{more})",
            "Correct it, or name a repository.",
        )
    return found
