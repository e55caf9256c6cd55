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


def chosen_repositories(settings: Settings, named: Sequence[str]) -> tuple[str, ...]:
    """Return the named repositories; without names, those that the settings collect.

    Raises:
        SettingsError: If there is none.
    """
    chosen = tuple(dict.fromkeys(named)) or collected_repositories(settings)
    if chosen:
        return chosen
    where = settings.file or "the settings"
    if settings.repository_patterns:
        patterns = ", ".join(settings.repository_patterns)
        raise SettingsError(
            f"{where}: no repository of the server matches {patterns}",
            "Look at the patterns, and at what the user of the keys may see (fs:ListRepositories).",
        )
    raise SettingsError(
        f"{where}: no repository is named, on the command line or in the settings",
        "Add a table like [repositories.my-repo].",
    )
