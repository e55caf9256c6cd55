"""What a repository is refused for before anything of it is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_core import clocks
from spark_core.addresses.namespace import Namespace
from spark_core.clocks import ClockReading
from spark_core.errors import RepositoryStateError, SettingsError, UnsafePlanError
from spark_core.lakefs import Clock, StorageConfig, SystemClock
from spark_core.model import Branch, Repository, RunKey
from spark_core.run import Environment, Run, RunOptions, Storage, open_run, preflight, require_alone
from spark_core.run.preconditions import (
    require_branches,
    require_in_list,
    require_kind_of_store,
    require_old_enough,
    require_own_namespace,
    require_tables_apart,
    require_writable,
)
from spark_core.storage import StoreOptions
from tests.support.clock import FakeClock

DAY = timedelta(days=1)


def repository(
    namespace: str = "s3://bucket/docs", name: str = "docs", *, read_only: bool = False
) -> Repository:
    return Repository(
        name, namespace, "main", datetime(2026, 1, 1, tzinfo=UTC), read_only=read_only
    )


@pytest.mark.parametrize(
    ("namespace", "kind"),
    [
        ("s3://bucket", "s3"),
        ("gs://bucket/docs/", "gs"),
        ("https://account.blob.core.windows.net/container/docs", "azure"),
        ("local://docs", "local"),
    ],
)
def test_a_namespace_must_be_of_the_kind_that_the_server_keeps_it_in(
    namespace: str, kind: str
) -> None:
    parsed, stored = Namespace.parse(namespace, server_path="/srv/bs"), repository(namespace)
    require_kind_of_store(stored, parsed, kind)
    for other in {"s3", "gs", "azure", "local", "mem", ""} - {kind}:
        with pytest.raises(
            RepositoryStateError, match=rf"docs lies in {namespace}.*kind '{kind}'.*kind '{other}'"
        ):
            require_kind_of_store(stored, parsed, other)


def test_a_read_only_repository_is_refused() -> None:
    require_writable(repository())
    with pytest.raises(RepositoryStateError, match=r"docs is read-only.*Make it writable"):
        require_writable(repository(read_only=True))


@pytest.mark.parametrize(
    "step", [-timedelta(microseconds=1), timedelta(0), timedelta(microseconds=1)]
)
def test_the_minimum_age_is_at_least_the_grace_period_unless_that_is_waived(
    step: timedelta,
) -> None:
    require_old_enough(repository(), DAY + step, DAY, allow_unsafe=True)
    if step >= timedelta(0):
        require_old_enough(repository(), DAY + step, DAY, allow_unsafe=False)
        return
    with pytest.raises(
        SettingsError,
        match=r"min_age_hours of docs is 23 hours 59 minutes 59 seconds, the server lets .* 1 day ",
    ):
        require_old_enough(repository(), DAY + step, DAY, allow_unsafe=False)


def test_a_repository_without_branches_is_refused() -> None:
    require_branches(repository(), [Branch("main", "c")])
    with pytest.raises(
        RepositoryStateError, match="docs has no branch: it is bare, or it was deleted a moment ago"
    ):
        require_branches(repository(), [])


@pytest.mark.parametrize("prefix", ["", "data", "data/_lakefs"])
def test_tables_among_the_data_are_refused(prefix: str) -> None:
    require_tables_apart(repository(), "_lakefs")
    require_tables_apart(repository(), "database")
    with pytest.raises(RepositoryStateError, match=r"among the data that lakegc may collect"):
        require_tables_apart(repository(), prefix)


@pytest.mark.parametrize(
    ("own", "other", "shared"),
    [
        ("s3://bucket/docs", "s3://bucket/docs", True),
        ("s3://bucket/docs", "s3://bucket/docs/", True),
        ("s3://bucket/docs/", "s3://bucket/docs/inner", True),
        ("s3://bucket/docs/inner", "s3://bucket/docs", True),
        ("s3://bucket", "s3://bucket/docs", True),
        ("s3://bucket/", "s3://bucket", True),
        ("s3://bucket/docs", "s3://bucket/docs-2", False),
        ("s3://bucket/docs", "s3://bucket-2/docs", False),
        ("s3://bucket", "s3://bucket-2", False),
        ("s3://bucket/docs", "gs://bucket/docs", False),
        ("s3://bucket/docs", "mem://bucket/docs", False),
        ("local://docs", "local://docs/inner", True),
        ("local://docs/", "local://docs2", False),
    ],
)
def test_a_namespace_that_is_shared_nested_or_not_told_apart_is_refused_naming_both(
    own: str, other: str, *, shared: bool
) -> None:
    stored, namespace = repository(own), Namespace.parse(own, server_path="/srv/bs")
    everybody = [stored, repository(other, "other")]
    if not shared:
        require_own_namespace(stored, namespace, everybody)
        return
    with pytest.raises(
        RepositoryStateError, match=r"docs \(.*\) and other \(.*\) share a storage namespace"
    ):
        require_own_namespace(stored, namespace, everybody)


@pytest.mark.parametrize(
    "odd",
    [
        "s3://my.dotted.bucket/team//x",
        "s3://bucket/team//x",
        "s3://bucket/u?y",
        "s3://bucket/p%20q",
    ],
)
def test_one_odd_repository_ended_every_run_of_every_other_of_its_server(odd: str) -> None:
    stored = repository("s3://bucket/docs")
    require_own_namespace(
        stored, Namespace.parse("s3://bucket/docs"), [stored, repository(odd, "odd")]
    )


@pytest.mark.parametrize(
    ("odd", "told", "reading"),
    [
        ("s3://bucket/team/..//docs", "s3://bucket/team/..//docs", "s3://bucket/docs"),
        ("s3://bucket/d%6Fcs", "s3://bucket/d%6Fcs", "s3://bucket/docs"),
        ("s3://user:SECRET@bucket/docs", "s3://...@bucket/docs", "s3://bucket/docs"),
        ("s3://", "s3://", "s3://bucket"),
    ],
)
def test_a_namespace_that_may_overlap_was_told_as_one_that_does(
    odd: str, told: str, reading: str
) -> None:
    stored = repository("s3://bucket/docs")
    with pytest.raises(RepositoryStateError) as refusal:
        require_own_namespace(
            stored, Namespace.parse("s3://bucket/docs"), [stored, repository(odd, "odd")]
        )
    assert str(refusal.value) == (
        f"repositories docs (s3://bucket/docs) and odd ({told}) may share a storage namespace, as "
        f"one reading of the second is '{reading}': neither knows what the other still needs. Move "
        "one of them to a namespace of its own, or delete it in lakeFS."
    )


def _stored_in(storage_id: str, name: str) -> Repository:
    return Repository(
        name, "s3://bucket/docs", "main", datetime(2026, 1, 1, tzinfo=UTC), storage_id=storage_id
    )


def _on_storages(usual: str | None = None, **endpoints: str | None) -> Environment:
    return Environment(
        server=SimpleNamespace(
            repositories=lambda: [_stored_in("cold", "docs"), _stored_in("hot", "other")]
        ),  # type: ignore[arg-type]
        store_options=StoreOptions(s3_endpoint=usual),
        spark=lambda: None,  # type: ignore[arg-type,return-value]
        storages={
            name: Storage(StoreOptions(s3_endpoint=endpoint))
            for name, endpoint in endpoints.items()
        },
    )


def _alone(environment: Environment, repository: Repository) -> int:
    namespace = Namespace.parse(repository.storage_namespace)
    run = SimpleNamespace(
        repository=repository,
        namespace=namespace,
        server=environment.server,
        environment=environment,
    )
    return require_alone(run)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cold", "hot"),
    [
        ("https://cold.example.com", "https://hot.example.com"),
        ("https://minio.example.com:9000", "https://minio.example.com:9002"),
        ("https://minio.example.com", "https://s3.eu-west-1.amazonaws.com"),
        ("https://s3.cn-north-1.amazonaws.com.cn", "https://s3.eu-west-1.amazonaws.com"),
    ],
)
def test_two_storages_with_endpoints_of_their_own_were_taken_for_one_store(
    cold: str, hot: str
) -> None:
    assert _alone(_on_storages(cold=cold, hot=hot), _stored_in("cold", "docs")) == 2
    assert _alone(_on_storages(cold=hot, hot=cold), _stored_in("cold", "docs")) == 2


@pytest.mark.parametrize(
    ("cold", "hot"),
    [
        ("https://minio.example.com", "https://minio.example.com"),
        ("https://minio.example.com", "https://MinIO.example.com.:443/"),
        ("https://minio.example.com", "http://minio.example.com"),
        ("http://127.0.0.1:9000", "http://localhost:9000"),
        ("http://[::1]:9000", "http://localhost:9000"),
        ("https://minio.example.com/one", "https://minio.example.com/two"),
        # The name of a bucket is given once, whatever the way to it.
        ("https://s3.us-east-1.amazonaws.com", "https://s3.eu-west-1.amazonaws.com"),
        ("https://s3.amazonaws.com", "https://bucket.vpce-1a2b.s3.eu-west-1.vpce.amazonaws.com"),
        ("https://minio.example.com", None),
        (None, None),
    ],
)
def test_storages_that_may_be_one_store_count_as_one(cold: str | None, hot: str | None) -> None:
    text = (
        r"docs \(s3.*\) and other \(.*\) share a storage namespace.*"
        r"different stores.*s3_endpoint in \[storages\.cold\] and \[storages\.hot\]"
    )
    for one, other in ((cold, hot), (hot, cold)):
        with pytest.raises(RepositoryStateError, match=text):
            _alone(_on_storages(cold=one, hot=other), _stored_in("cold", "docs"))


def test_a_storage_without_a_table_of_its_own_is_at_an_unknown_endpoint() -> None:
    usual = "https://usual.example.com"
    only_cold = _on_storages(usual, cold="https://cold.example.com")
    with pytest.raises(RepositoryStateError, match="share a storage namespace"):
        _alone(only_cold, _stored_in("cold", "docs"))
    # The one storage of a server that names none is where [storage] says.
    assert only_cold.endpoint_of(_stored_in("hot", "other")) is None
    assert only_cold.endpoint_of(_stored_in("", "other")) == usual


def test_repositories_of_one_storage_share_it_whatever_else_is_said() -> None:
    namespace = Namespace.parse("s3://bucket/docs")
    both = [_stored_in("cold", "docs"), _stored_in("cold", "other")]
    ways = iter(["https://one.example.com", "https://two.example.com"])
    with pytest.raises(RepositoryStateError, match="share a storage namespace") as refusal:
        require_own_namespace(both[0], namespace, both, endpoint_of=lambda _: next(ways))
    assert "s3_endpoint" not in str(refusal.value)


def test_azure_and_gcs_names_are_given_once_whatever_the_endpoints() -> None:
    for place in ("gs://bucket/docs", "https://account.blob.core.windows.net/container/docs"):
        namespace, created = Namespace.parse(place), datetime(2026, 1, 1, tzinfo=UTC)
        both = [
            Repository(name, place, "main", created, storage_id=name) for name in ("docs", "other")
        ]
        with pytest.raises(RepositoryStateError, match="share a storage namespace"):
            require_own_namespace(
                both[0], namespace, both, endpoint_of=lambda one: f"https://{one.id}.example.com"
            )


def test_a_list_of_repositories_that_leaves_out_the_repository_itself_is_refused() -> None:
    others = [repository("s3://bucket/other", "other")]
    require_in_list(repository(), [*others, repository()])
    with pytest.raises(
        RepositoryStateError, match=r"leaves out docs itself.*fs:ListRepositories on \*"
    ):
        require_in_list(repository(), others)


class _Machine:
    """A machine whose clock is set by hand while a run begins.

    The server and the store tell the true time.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.ahead = folder, timedelta(0)
        (folder / "docs").mkdir()
        monkeypatch.setattr(clocks, "_wall", self.wall)
        self.server: Any = SimpleNamespace(
            repository=lambda _: repository("local://docs"),
            repositories=lambda: [repository("local://docs")],
            storage_config=lambda _: StorageConfig("local", "", pre_sign_support=False),
            grace_period=lambda: DAY,
            branches=lambda _: [Branch("main", "c")],
            table_prefix=lambda _: "_lakefs",
            clock_reading=ClockReading(timedelta(0), timedelta(seconds=1)),
        )

    def wall(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def open(self, clock: Clock, key: RunKey, **chosen: Any) -> Run:
        store = StoreOptions(local_path=str(self.folder))
        environment = Environment(
            self.server, store, lambda: pytest.fail("Spark was started"), clock
        )
        return open_run(environment, "docs", key, RunOptions(**chosen))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Machine:
    return _Machine(tmp_path, monkeypatch)


def test_a_run_whose_key_was_given_by_a_clock_that_was_ahead_and_set_right_since_is_not_opened(
    machine: _Machine,
) -> None:
    machine.ahead = timedelta(hours=30)
    clock, key = SystemClock(), RunKey.at(machine.wall())
    machine.ahead = timedelta(0)
    with pytest.raises(
        UnsafePlanError, match=r"was set back by 1 day, 6:00:00 .*upload under way could look old"
    ):
        machine.open(clock, key)
    with pytest.raises(UnsafePlanError, match="lies in the future"):
        machine.open(SystemClock(), key)
    assert preflight(machine.open(SystemClock(), RunKey.at(machine.wall()))).branches == 1


def test_a_clock_that_is_set_right_between_the_beginning_of_a_run_and_its_first_look_is_refused(
    machine: _Machine,
) -> None:
    machine.ahead = timedelta(hours=30)
    run = machine.open(SystemClock(), RunKey.at(machine.wall()))
    machine.ahead = timedelta(0)
    with pytest.raises(
        UnsafePlanError,
        match=r"was set back by 1 day, 6:00:00 since this process began.*start again",
    ):
        preflight(run)


def test_a_clock_that_was_ahead_only_while_the_run_key_was_given_is_refused(
    machine: _Machine,
) -> None:
    clock = SystemClock()
    machine.ahead = timedelta(hours=30)
    run = machine.open(clock, RunKey.at(machine.wall()))
    machine.ahead = timedelta(0)
    assert clock.ahead == timedelta(0)
    with pytest.raises(
        UnsafePlanError, match=r"is 1 day, (6:00:00|5:59:\d\d) ahead of the clock of this machine"
    ):
        preflight(run)


@pytest.mark.parametrize(("off", "refused"), [(299, False), (302, True)])
def test_a_clock_may_be_set_back_by_as_much_as_clocks_may_differ(
    machine: _Machine, off: int, *, refused: bool
) -> None:
    machine.ahead = timedelta(seconds=off)
    clock, key = SystemClock(), RunKey.at(machine.wall())
    opened = machine.open(clock, key)
    machine.ahead = timedelta(0)
    if not refused:
        preflight(machine.open(clock, key))
        return
    with pytest.raises(
        UnsafePlanError,
        match=r"was set back by .*, at most 0:05:00 is accepted",
    ):
        machine.open(clock, key)
    with pytest.raises(
        UnsafePlanError,
        match=r"was set back by .*, at most 0:05:00 is accepted",
    ):
        preflight(opened)


def test_a_store_that_is_behind_counts_too_where_a_key_is_as_late_as_it_may_be(
    machine: _Machine,
) -> None:
    machine.ahead = timedelta(minutes=4)
    run = machine.open(SystemClock(), RunKey.at(machine.wall()))
    machine.ahead = timedelta(0)
    preflight(run)
    machine.server.clock_reading = ClockReading(
        -timedelta(minutes=2, seconds=1), -timedelta(minutes=2)
    )
    with pytest.raises(
        UnsafePlanError,
        match=r"ahead of the clock of the lakeFS server, at most 0:05:00 is accepted",
    ):
        preflight(run)


@pytest.mark.parametrize("years", [-20, 20])
def test_a_clock_that_a_test_or_a_sandbox_moves_is_not_compared_with_the_machines(
    machine: _Machine, years: int
) -> None:
    now = datetime.now(UTC) + years * 365 * DAY
    run = machine.open(FakeClock(now), RunKey.at(now))
    assert preflight(run).clock_skew_seconds == {"server": 0.0, "store": 0.0}
