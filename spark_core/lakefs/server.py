"""Ask the lakeFS server what a collection needs to know."""

from __future__ import annotations

from datetime import timedelta

from spark_core.clocks import Clock, SystemClock
from spark_core.errors import RepositoryStateError
from spark_core.lakefs import prepare
from spark_core.lakefs.answer_types import (
    PreparedCommits,
    PreparedUncommitted,
    RefsDump,
    StorageConfig,
)
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.branch_reads import BranchReads
from spark_core.lakefs.calls import Call
from spark_core.lakefs.entry_lists import EntryCalls
from spark_core.lakefs.options import ServerOptions
from spark_core.lakefs.refs import RefsCalls
from spark_core.lakefs.rules import RulesCalls
from spark_core.lakefs.sdk import import_sdk
from spark_core.lakefs.transport import OnAway, Transport
from spark_core.model import Repository

# The server answers for any id, even if no such table exists (`lakefs-facts` 11.39).
_ANY_TABLE = "0" * 64
# What servers call themselves that never compact what is staged; one before 1.60 says nothing.
_OPEN_EDITIONS = ("", "lakeFS")


class LakeFSServer(RefsCalls, EntryCalls, RulesCalls):
    """Calls one server with one user's keys; one instance for each process.

    The calls about refs, entries and rules have files of their own. Those that change branches are
    in `branches`, which no mark and no sweep can reach.

    Args:
        options: How to reach the server.
        clock: The clock for pauses and time limits.
        on_away: Told of each try of a call that found the server away after it had answered: the
            number of the try, and what was found.

    Attributes:
        requests: Calls made so far, by name; repeated calls count again.

    Examples:
        >>> server = LakeFSServer(server_options)
        >>> server.repository("lake").default_branch
        'main'
        >>> server.retention_rules("lake").days_for("main")
        7
    """

    def __init__(
        self, options: ServerOptions, *, clock: Clock | None = None, on_away: OnAway | None = None
    ) -> None:
        import_sdk()
        from lakefs_sdk.api.config_api import ConfigApi
        from lakefs_sdk.api.internal_api import InternalApi
        from lakefs_sdk.api.metadata_api import MetadataApi
        from lakefs_sdk.api.repositories_api import RepositoriesApi

        super().__init__(Transport(options, clock or SystemClock(), on_away))
        client = self._transport.client
        self._repositories = RepositoriesApi(client)
        self._config = ConfigApi(client)
        self._internal = InternalApi(client)
        self._metadata = MetadataApi(client)

    @property
    def branch_reads(self) -> BranchReads:
        """Questions about what speaks for a branch."""
        return BranchReads(self._transport, self._listed)

    def repository(self, repository_id: str) -> Repository:
        """Describe a repository.

        Raises:
            NotFoundError: If there is no repository of that name.
        """
        call = self._on(repository_id, "get_repository", "description", "fs:ReadRepository")
        found = _repository(
            Body.of(
                call,
                self._transport.call(
                    call, self._repositories.get_repository_with_http_info, repository_id
                ),
            )
        )
        if found.id != repository_id:
            raise unreadable(
                call, f"repository {found.id!r} although {repository_id!r} was asked for"
            )
        return found

    def repositories(self) -> list[Repository]:
        """Describe all repositories that the user may see."""
        call = Call("list_repositories", "list of repositories", "fs:ListRepositories")
        return [
            _repository(body)
            for body in self._listed(call, self._repositories.list_repositories_with_http_info)
        ]

    def storage_config(self, repository: Repository) -> StorageConfig:
        """Describe the store behind a repository.

        Raises:
            RepositoryStateError: If the server has several stores and names none as the
                repository's.
        """
        call = Call("get_config", f"configuration for repository {repository.id}")
        body = Body.of(call, self._transport.call(call, self._config.get_config_with_http_info))
        several = (
            body.optional_parts("storage_config_list") if body.has("storage_config_list") else []
        )
        may_compact = _edition(body) not in _OPEN_EDITIONS
        if len(several) < 2:
            return _storage_config(body.part("storage_config"), may_compact=may_compact)
        for part in several:
            if part.optional_text("blockstore_id") == repository.storage_id:
                return _storage_config(part, may_compact=may_compact)
        raise RepositoryStateError(
            f"repository {repository.id} is kept in storage {repository.storage_id!r}, which is "
            f"none of the server's {len(several)} stores",
            "Ask the server's operator which store holds it.",
        )

    def version(self) -> str:
        """Return the version that the server reports."""
        call = Call("get_version", "version of the server")
        body = Body.of(
            call, self._transport.call(call, self._internal.get_lake_fs_version_with_http_info)
        )
        return body.text("version")

    def grace_period(self) -> timedelta:
        """Return how long an upload may wait for its reference."""
        call = Call("get_grace_period", "grace period of the server")
        answer = self._transport.call(
            call, self._internal.get_garbage_collection_config_with_http_info
        )
        seconds = Body.of(call, answer).integer("grace_period")
        if not 0 <= seconds <= 10**9:
            raise unreadable(call, f"a grace period of {seconds} seconds")
        return timedelta(seconds=seconds)

    def table_prefix(self, repository_id: str) -> str:
        """Return the prefix of the server's tables in the namespace, normally `_lakefs`.

        Returns:
            The prefix without a slash at its end.
        """
        call = self._on(
            repository_id,
            "get_table_location",
            "location of tables",
            "fs:ListObjects and fs:ReadRepository",
        )
        answer = self._transport.call(
            call, self._metadata.get_range_with_http_info, repository_id, _ANY_TABLE
        )
        location = Body.of(call, answer).text("location")
        prefix, slash, name = location.rpartition("/")
        if (
            not slash
            or name != _ANY_TABLE
            or not prefix
            or prefix.startswith("/")
            or "://" in prefix
        ):
            raise unreadable(
                call, f"the location {location[:200]!r}, which is no path below the namespace"
            )
        return prefix

    def prepare_commits(self, repository_id: str) -> PreparedCommits | None:
        """Let the server list its retained commits; see `prepare.prepare_commits`."""
        return prepare.prepare_commits(self._transport, repository_id)

    def prepare_uncommitted(self, repository_id: str) -> PreparedUncommitted:
        """Let the server scan the staged entries; see `prepare.prepare_uncommitted`."""
        return prepare.prepare_uncommitted(self._transport, repository_id)

    def dump_refs(self, repository_id: str) -> RefsDump:
        """Let the server dump commits, branches and tags; see `prepare.dump_refs`."""
        return prepare.dump_refs(self._transport, repository_id)


def _repository(body: Body) -> Repository:
    return Repository(
        id=body.text("id"),
        storage_namespace=body.text("storage_namespace"),
        default_branch=body.text("default_branch"),
        creation_date=body.instant("creation_date"),
        storage_id=body.optional_text("storage_id"),
        read_only=body.optional_flag("read_only"),
    )


def _edition(body: Body) -> str:
    """Return the edition that a server names in its configuration; empty for an old server."""
    has = body.has("version_config")
    return body.part("version_config").optional_text("version_context") if has else ""


def _storage_config(body: Body, *, may_compact: bool) -> StorageConfig:
    return StorageConfig(
        blockstore_type=body.text("blockstore_type"),
        blockstore_id=body.optional_text("blockstore_id"),
        pre_sign_support=body.flag("pre_sign_support"),
        may_compact=may_compact,
    )
