"""Ask the lakeFS server what a collection needs to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from spark_core.clocks import Clock, ClockReading, SystemClock
from spark_core.errors import IncompleteReadError, RepositoryStateError, SettingsError
from spark_core.graveler.table_format import COMMIT_VERSIONS, LAKEFS_CHECKED
from spark_core.lakefs import prepare
from spark_core.lakefs.answer_types import (
    DatedEntry,
    EntriesPage,
    Instants,
    LoggedCommit,
    PreparedCommits,
    PreparedUncommitted,
    RefsDump,
    StorageConfig,
)
from spark_core.lakefs.answers import Body, unreadable
from spark_core.lakefs.branch_reads import BranchReads
from spark_core.lakefs.calls import Call
from spark_core.lakefs.options import ServerOptions
from spark_core.lakefs.transport import OnAway, Transport
from spark_core.model import Branch, Commit, Repository, RetentionRules, Tag

if TYPE_CHECKING:
    # Imported where a call is made: executors import this package, and never call the server.
    from lakefs_sdk.api_response import ApiResponse

    from spark_core.lakefs.pages import PageReader

_Row = TypeVar("_Row")

# The server keeps days in 32 bits and wraps silently: 4294967301 became 5 (`lakefs-facts` 11.17).
LONGEST_RETENTION_DAYS = 36_500
_PAGE = 1_000
_NOT_FOUND = "not found"
# The server answers for any id, even if no such table exists (`lakefs-facts` 11.39).
_ANY_TABLE = "0" * 64
# What servers call themselves that never compact what is staged; one before 1.60 says nothing.
_OPEN_EDITIONS = ("", "lakeFS")


class LakeFSServer:
    """Calls one server with one user's keys; one instance for each process.

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
        from lakefs_sdk.api.branches_api import BranchesApi
        from lakefs_sdk.api.config_api import ConfigApi
        from lakefs_sdk.api.internal_api import InternalApi
        from lakefs_sdk.api.metadata_api import MetadataApi
        from lakefs_sdk.api.objects_api import ObjectsApi
        from lakefs_sdk.api.refs_api import RefsApi
        from lakefs_sdk.api.repositories_api import RepositoriesApi
        from lakefs_sdk.api.tags_api import TagsApi

        from spark_core.lakefs.pages import PageReader, ShownChange, ShownEntry

        self._transport = Transport(options, clock or SystemClock(), on_away)
        self.requests: Counter[str] = self._transport.requests
        client = self._transport.client
        self._repositories = RepositoriesApi(client)
        self._branches = BranchesApi(client)
        self._config = ConfigApi(client)
        self._internal = InternalApi(client)
        self._metadata = MetadataApi(client)
        self._objects = ObjectsApi(client)
        self._refs = RefsApi(client)
        self._tags = TagsApi(client)
        self._entries, self._changes = PageReader(ShownEntry), PageReader(ShownChange)
        self._rows = PageReader(dict[str, Any])

    @property
    def url(self) -> str:
        """URL of the server, without keys."""
        return self._transport.options.url

    @property
    def clock_reading(self) -> ClockReading | None:
        """The server's clock compared with this machine's; None if no answer had a date yet."""
        return self._transport.clock_reading

    @property
    def transport(self) -> Transport:
        """What makes the calls; `branches` makes those that change branches with it."""
        return self._transport

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

    def retention_rules(self, repository_id: str) -> RetentionRules | None:
        """Read the garbage-collection rules; None if there are none.

        Raises:
            NotFoundError: If there is no such repository.
            RepositoryStateError: If days are outside 0..36500. The server wraps numbers
                that do not fit, so such days are not what somebody meant.
            IncompleteReadError: If the answer cannot be read. Taking it for "no rules"
                would change what is kept.

        References:
            `lakefs-facts` 4.1, 11.17, 11.18.
        """
        call = self._on(repository_id, "get_rules", "rules", "retention:GetGarbageCollectionRules")
        answer = self._transport.call(
            call, self._repositories.get_gc_rules_with_http_info, repository_id, expected=(404,)
        )
        if answer.status == 404:
            if answer.message == _NOT_FOUND:
                return None
            raise self._transport.errors.of_answer(call, answer)
        body = Body.of(call, answer)
        branches: dict[str, int] = {}
        for rule in body.optional_parts("branches"):
            branch, days = rule.text("branch_id"), rule.integer("retention_days")
            if branches.setdefault(branch, days) != days:
                raise unreadable(call, f"two rules for branch {branch!r}")
        rules = RetentionRules(body.integer("default_retention_days"), branches)
        for where, days in _days(rules):
            if not 0 <= days <= LONGEST_RETENTION_DAYS:
                raise RepositoryStateError(
                    f"rules of repository {repository_id}: {where} is {days} days, wanted 0 to "
                    f"{LONGEST_RETENTION_DAYS}. The server wraps numbers that do not fit, so this "
                    "is not what somebody meant",
                    "Set the rules again with `lakegc rules set`.",
                )
        return rules

    def set_retention_rules(self, repository_id: str, rules: RetentionRules) -> None:
        """Replace the garbage-collection rules, and read them back.

        Raises:
            SettingsError: If days are outside 0..36500, a branch has no name, or
                the server would store the rules as "no rules".
            IncompleteReadError: If the server then shows other rules.
        """
        _require_settable(repository_id, rules)
        call = self._on(
            repository_id, "set_rules", "setting the rules", "retention:SetGarbageCollectionRules"
        )
        from lakefs_sdk.models.garbage_collection_rule import GarbageCollectionRule
        from lakefs_sdk.models.garbage_collection_rules import GarbageCollectionRules

        sent = GarbageCollectionRules(
            default_retention_days=rules.default_retention_days,
            branches=[
                GarbageCollectionRule(branch_id=branch, retention_days=days)
                for branch, days in rules.branches.items()
            ],
        )
        self._transport.call(
            call, self._repositories.set_gc_rules_with_http_info, repository_id, sent
        )
        kept = self.retention_rules(repository_id)
        if (
            kept is None
            or dict(kept.branches) != dict(rules.branches)
            or kept != RetentionRules(rules.default_retention_days, kept.branches)
        ):
            raise IncompleteReadError(
                f"rules of repository {repository_id}: the server shows {kept} after {rules} were "
                "set",
                "Somebody may have set others at the same time: look at `lakegc rules get`.",
            )

    def delete_retention_rules(self, repository_id: str) -> None:
        """Delete the garbage-collection rules; from then on every commit is retained."""
        call = self._on(
            repository_id,
            "delete_rules",
            "deleting the rules",
            "retention:SetGarbageCollectionRules",
        )
        self._transport.call(call, self._repositories.delete_gc_rules_with_http_info, repository_id)

    def branches(self, repository_id: str) -> list[Branch]:
        """List every branch, hidden ones too."""
        call = self._on(repository_id, "list_branches", "branches", "fs:ListBranches")
        listed = self._listed(
            call, self._branches.list_branches_with_http_info, repository_id, show_hidden=True
        )
        return [Branch(body.text("id"), body.text("commit_id")) for body in listed]

    def tags(self, repository_id: str) -> list[Tag]:
        """List every tag."""
        call = self._on(repository_id, "list_tags", "tags", "fs:ListTags")
        listed = self._listed(call, self._tags.list_tags_with_http_info, repository_id)
        return [Tag(body.text("id"), body.commit_id("commit_id")) for body in listed]

    def log(self, repository_id: str, ref: str, *, first_page: int = _PAGE) -> Iterator[Commit]:
        """List the commits that a ref reaches through any parent, newest first.

        Each answer is a whole commit, with the id that the branch or a child names. The
        call for one commit answers from a cache that may be damaged (`lakefs-facts`
        11.42), so commits are read from the log where there is no dump.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit.
            first_page: Number of commits on the first page; each further page is ten times as long,
                up to the server's limit.

        Raises:
            NotFoundError: If the ref is not there.
            IncompleteReadError: If an answer is not as documented.
        """
        call = self._on(
            repository_id, "log_commits", f"commits that {ref} reaches", "fs:ReadBranch"
        )
        listed = self._listed(
            call,
            self._refs.log_commits_with_http_info,
            repository_id,
            ref,
            first_page=min(first_page, _PAGE),
        )
        for body in listed:
            yield _commit(call, body)

    def main_line(
        self, repository_id: str, ref: str, *, first_page: int = _PAGE
    ) -> Iterator[LoggedCommit]:
        """List the commits that a ref reaches through main parents alone, newest first.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit; a branch's own head comes first.
            first_page: As for `log`.

        Raises:
            NotFoundError: If the ref is not there.
            IncompleteReadError: If a commit is not the main parent of the one before it: the server
                does not know such a list.
        """
        call = self._on(
            repository_id, "log_commits", f"main line of commits of {ref}", "fs:ReadBranch"
        )
        listed = self._listed(
            call,
            self._refs.log_commits_with_http_info,
            repository_id,
            ref,
            first_page=min(first_page, _PAGE),
            first_parent=True,
        )
        wanted: str | None = ""
        for body in listed:
            commit = _commit(call, body)
            if wanted not in ("", commit.id):
                raise unreadable(call, f"commit {commit.id} where {wanted} was expected")
            wanted = commit.main_parent
            yield LoggedCommit(commit, body.texts_by_key("metadata"))
        if wanted:
            raise unreadable(call, f"no commit where {wanted} was expected")

    def prepare_commits(self, repository_id: str) -> PreparedCommits | None:
        """Let the server list its retained commits; see `prepare.prepare_commits`."""
        return prepare.prepare_commits(self._transport, repository_id)

    def prepare_uncommitted(self, repository_id: str) -> PreparedUncommitted:
        """Let the server scan the staged entries; see `prepare.prepare_uncommitted`."""
        return prepare.prepare_uncommitted(self._transport, repository_id)

    def dump_refs(self, repository_id: str) -> RefsDump:
        """Let the server dump commits, branches and tags; see `prepare.dump_refs`."""
        return prepare.dump_refs(self._transport, repository_id)

    def list_entries(self, repository_id: str, ref: str, *, after: str) -> EntriesPage:
        """List one page of a ref's entries, staged ones included, in order of path; one call.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit.
            after: Lists only entries whose path sorts after this one; empty for the first page.

        Raises:
            NotFoundError: If the repository or the ref is not there.
        """
        call = self._on(repository_id, "list_objects", f"entries of {ref}", "fs:ListObjects")
        where: dict[str, Any] = {"after": after} if after else {}
        answer = self._transport.call(
            call,
            self._objects.list_objects_with_http_info,
            repository_id,
            ref,
            user_metadata=False,
            presign=False,
            amount=_PAGE,
            **where,
        )
        page = self._entries.read(call, answer)
        entries = [(row.path, row.physical_address) for row in page.results]
        dates = Instants([row.mtime for row in page.results])
        has_more = page.pagination.has_more
        if has_more and not entries:
            raise unreadable(
                call, "a page without entries that has a next one, so the list has no end"
            )
        return EntriesPage(entries, has_more=has_more, dates=dates)

    def entries_under(
        self, repository_id: str, ref: str, prefix: str, *, first_page: int = _PAGE
    ) -> Iterator[DatedEntry]:
        """List a ref's entries under a prefix of paths, by path; of a branch staged ones, too.

        Args:
            repository_id: Repository name.
            ref: Branch, tag or commit.
            prefix: Beginning of the paths; empty for all.
            first_page: As for `log`.

        Raises:
            NotFoundError: If the repository or the ref is not there.
            IncompleteReadError: If the list cannot be read to its end.
        """
        call = self._on(repository_id, "list_objects", f"entries of {ref}", "fs:ListObjects")
        for body in self._listed(
            call,
            self._objects.list_objects_with_http_info,
            repository_id,
            ref,
            first_page=first_page,
            user_metadata=False,
            presign=False,
            **_under(prefix),
        ):
            yield DatedEntry(
                path=body.text("path"),
                physical_address=body.text("physical_address"),
                size_bytes=body.integer("size_bytes") if body.has("size_bytes") else 0,
                modified=body.any_instant("mtime"),
            )

    def diff_commits(
        self, repository_id: str, left: str, right: str, prefix: str
    ) -> Iterator[tuple[str, str]]:
        """List path and type (added, changed, removed) of what differs, from one ref to another.

        Args:
            repository_id: Repository name.
            left: The older side.
            right: The newer side.
            prefix: Beginning of the paths; empty for all.
        """
        call = self._on(
            repository_id,
            "diff_refs",
            f"differences from {left} to {right}",
            "fs:ListObjects",
        )
        for body in self._listed(
            call,
            self._refs.diff_refs_with_http_info,
            repository_id,
            left,
            right,
            type="two_dot",
            **_under(prefix),
        ):
            yield body.text("path"), body.text("type")

    def diff_branch(
        self, repository_id: str, branch: str, *, prefix: str = "", first_page: int = _PAGE
    ) -> Iterator[tuple[str, str]]:
        """List path and type (added, changed, removed) of a branch's staged entries, by path.

        Args:
            repository_id: Repository name.
            branch: Name of the branch.
            prefix: Beginning of the paths; empty for all.
            first_page: As for `log`.
        """
        call = self._on(
            repository_id,
            "diff_branch",
            f"uncommitted changes of branch {branch}",
            "fs:ListObjects",
        )
        pages = self._pages(
            call,
            self._changes,
            self._branches.diff_branch_with_http_info,
            repository_id,
            branch,
            first_page=first_page,
            **_under(prefix),
        )
        return chain.from_iterable([(row.path, row.type) for row in page] for page in pages)

    def _on(self, repository_id: str, name: str, what: str, action: str) -> Call:
        if not repository_id:
            raise SettingsError(
                "a repository without a name was asked for; name one in the settings"
            )
        return Call(name, f"{what} of repository {repository_id}", action)

    def _listed(
        self,
        call: Call,
        method: Callable[..., ApiResponse],
        *arguments: str,
        first_page: int = _PAGE,
        **options: Any,
    ) -> Iterator[Body]:
        """Read a list row by row, only as far as the caller iterates; see `_pages`."""
        pages = self._pages(call, self._rows, method, *arguments, first_page=first_page, **options)
        return (Body(call, row) for row in chain.from_iterable(pages))

    def _pages(
        self,
        call: Call,
        reader: PageReader[_Row],
        method: Callable[..., ApiResponse],
        *arguments: str,
        first_page: int = _PAGE,
        **options: Any,
    ) -> Iterator[list[_Row]]:
        """Read a list page by page, only as far as the caller iterates.

        Raises:
            IncompleteReadError: If the list has no end, or a page does not say where to continue.
        """
        after: set[str] = set()
        offset = ""
        for page in range(self._transport.options.max_pages):
            where: dict[str, Any] = {"after": offset} if offset else {}
            amount = min(first_page * 10 ** min(page, 3), _PAGE)
            answer = self._transport.call(
                call, method, *arguments, amount=amount, **where, **options
            )
            found = reader.read(call, answer)
            yield found.results
            if not found.pagination.has_more:
                return
            offset = found.pagination.next_offset or ""
            if not offset or offset in after:
                raise unreadable(call, f"more results behind {offset!r}, where the list was before")
            if "\ufffd" in offset:
                # The server shows bytes that are no UTF-8 like this. Continuing from there could
                # skip names.
                raise unreadable(
                    call,
                    f"more results behind {offset!r}, a name that is no UTF-8 and cannot be asked "
                    "for",
                )
            after.add(offset)
        raise unreadable(
            call, f"a list without end (max_pages = {self._transport.options.max_pages})"
        )


def _under(prefix: str) -> dict[str, Any]:
    return {"prefix": prefix} if prefix else {}


def _commit(call: Call, body: Body) -> Commit:
    version = body.integer("version")
    if version not in COMMIT_VERSIONS:
        raise unreadable(
            call,
            f"a commit of version {version}, which may change which parent is the main "
            f"one (lakeFS up to {LAKEFS_CHECKED} writes 0 and 1)",
        )
    return Commit(
        id=body.commit_id("id"),
        parents=tuple(body.commit_ids("parents")),
        # The client sets it. A date in milliseconds, for instance, is beyond any calendar.
        creation_date=body.any_instant("creation_date"),
        metarange_id=body.table_id("meta_range_id") if body.text("meta_range_id") else "",
        version=version,
        generation=body.integer("generation") if body.has("generation") else 0,
    )


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


def _require_settable(repository_id: str, rules: RetentionRules) -> None:
    """Refuse rules that the server would refuse, or keep as others than they are.

    Raises:
        SettingsError: As for `set_retention_rules`.
    """
    for where, days in _days(rules):
        if not 0 <= days <= LONGEST_RETENTION_DAYS:
            raise SettingsError(
                f"rules of repository {repository_id}: {where} would be {days} days, wanted 0 "
                f"to {LONGEST_RETENTION_DAYS}; the rules were not changed."
            )
    if "" in rules.branches:
        raise SettingsError(
            f"rules of repository {repository_id}: a rule names no branch; the rules were not "
            "changed."
        )
    if rules.default_retention_days == 0 and not rules.branches:
        raise SettingsError(
            f"rules of repository {repository_id}: a default of 0 days and no branch is what "
            "the server keeps as 'no rules', under which every commit is retained; the rules "
            "were not changed. Add a rule for a branch, or delete the rules if that is what "
            "you want."
        )


def _days(rules: RetentionRules) -> list[tuple[str, int]]:
    return [("the default", rules.default_retention_days)] + [
        (f"branch {branch!r}", days) for branch, days in rules.branches.items()
    ]
