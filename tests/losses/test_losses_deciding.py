"""Losses that began with a wrong decision: what is retained, inside, old enough, or of this run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_core import lakegc_keys
from spark_core.addresses.collectable import is_collectable, may_be_own, nested_repository, own_name
from spark_core.addresses.namespace import AddressType, Namespace
from spark_core.checks import check_mark, verdict
from spark_core.clocks import ClockReading, require_near
from spark_core.errors import (
    AddressError,
    ChainError,
    RepositoryStateError,
    SettingsError,
    UnsafePlanError,
    VerdictError,
)
from spark_core.lakefs import LakeFSServer, walk_refs
from spark_core.model import Repository, RetentionRules
from spark_core.records import tables
from spark_core.records.writing import Draft
from spark_core.retention import retained_commits
from spark_core.run import chain, preconditions
from tests.spark_core.retention.graphs import NOW, graph
from tests.support.figures import Given
from tests.support.passing_mark import passing_mark
from tests.support.scripted_server import Asked, page
from tests.support.written_run import written_run

EXACT = timedelta(0)
TEN_DAYS = RetentionRules(10, {})


def retained(commits: str, rules: RetentionRules | None, **refs: Any) -> set[str]:
    found = retained_commits(graph(commits, **refs), rules, NOW, clock_margin=EXACT)
    return {retention.commit_id for retention in found}


def test_3_no_rules_fell_back_to_no_commits_at_all() -> None:
    assert retained("A:300 B:200(A) C:100(B)", None, branches={"main": "C"}) == {"A", "B", "C"}
    with pytest.raises(RepositoryStateError, match="refs hold no commits"):
        retained("", None, branches={"main": "C"})


def test_4_the_absolute_form_of_an_address_was_not_recognised() -> None:
    namespace = Namespace.parse("s3://bucket/repo/")
    relative, types = pa.array(["data/s/x"]), pa.array([AddressType.RELATIVE], pa.int32())
    absolute, full = (
        pa.array(["s3://bucket/repo/data/s/x"]),
        pa.array([AddressType.FULL], pa.int32()),
    )
    assert namespace.relative_batch(absolute, full) == namespace.relative_batch(relative, types)
    assert namespace.relative_absolute("s3://other/repo/data/s/x") is None
    with pytest.raises(AddressError, match="could be read as"):
        namespace.relative_absolute("s3://bucket/repo/data/s/x%79")


@pytest.mark.parametrize(
    "address",
    [
        "data/!ab/c/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag",
        "data/repo-main:b40b9540-91f0-4add-96ba-205f17e03c57/77I_VsbUg1vU05hWRnTlw",
    ],
)
def test_4_an_object_in_a_sharded_slice_was_not_recognised_by_another_name_of_its_store(
    address: str,
) -> None:
    for before in (
        "s3://an-access-point/repo/",
        "https://cdn.example/x/data/",
        "local:///mnt/link/",
    ):
        assert own_name(f"{before}{address}") == address
        assert may_be_own(
            pa.array([f"{before}{address}", f"{before}{address}/more"])
        ).to_pylist() == [True, False]


@pytest.mark.parametrize(
    "detour", ["exports/%2e%2e/data/s/x", "exports/..%2Fdata%2Fs%2Fx", "%2564ata/x/y"]
)
def test_4_a_detour_through_a_folder_beside_data_was_taken_for_another_object(detour: str) -> None:
    namespace = Namespace.parse("s3://bucket/repo")
    assert (
        namespace.relative_absolute("s3://bucket/repo/exports/at=10%3A00/x")
        == "exports/at=10%3A00/x"
    )
    with pytest.raises(AddressError, match="could be read as"):
        namespace.relative_absolute(f"s3://bucket/repo/{detour}")


def test_5_an_error_while_the_live_side_was_listed_was_ignored(tmp_path: Path) -> None:
    run = written_run(tmp_path, spark=None).run
    facts = {"live_objects": 10_000, "missing_objects": 101, "missing_named": ["data/s/gone"]}
    manifests = passing_mark(run, expired_addresses=facts)
    (failed,) = [result for result in check_mark(run, manifests) if not result.passed]
    assert failed.name == "live_objects_are_listed"
    assert "101 of 10000 objects that branches reach are not in the listing" in failed.summary


def test_7_tables_of_the_server_were_taken_for_data() -> None:
    kinds = [
        "_lakefs/" + "a" * 64,
        "_lakefs/retention/gc/rules/config.json",
        "dummy",
        "data/",
        "a" * 32,
        "other/x",
    ]
    assert [kind for kind in kinds if is_collectable(kind)] == []


@pytest.mark.parametrize(
    ("age", "kept"), [("9.9999999", True), ("10", False), ("10.0000001", False)]
)
def test_8_a_commit_at_the_threshold_was_off_by_one(age: str, *, kept: bool) -> None:
    # The age of the child decides whether its parent, the state at the threshold, is kept.
    assert ("A" in retained(f"A:99 B:{age}(A) C:99(B)", TEN_DAYS, branches={"main": "C"})) is kept


def test_9_the_parent_was_lost_by_the_order_in_which_branches_were_walked() -> None:
    rules = RetentionRules(1, {"long": 40})
    # `short` reaches P first and stops there, because it keeps nothing of it. `long` must go on
    # below P.
    for commits in ("A:60 P:30(A) Q:20(P) S:2(P)", "A:60 P:30(A) S:2(P) Q:20(P)"):
        for branches in ({"short": "S", "long": "Q"}, {"long": "Q", "short": "S"}):
            assert retained(commits, rules, branches=branches) == {"A", "P", "Q", "S"}


def test_10_tagged_commits_expired() -> None:
    assert "A" in retained(
        "A:99 B:98(A) C:97(B) D:1(C)", TEN_DAYS, branches={"main": "D"}, tags={"v1": "A"}
    )


@pytest.mark.parametrize(
    "other", ["local://repo", "local://repo/", "local://repo/inner", "local://"]
)
def test_11_two_repositories_shared_a_namespace_or_one_was_inside_the_other(other: str) -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    ours = Repository("ours", "local://repo", "main", created)
    if other == "local://":
        ours, other = Repository("ours", "local://repo/inner", "main", created), "local://repo"
    theirs = Repository("theirs", other, "main", created)
    with pytest.raises(
        RepositoryStateError, match=r"ours .* and theirs .* share a storage namespace"
    ):
        preconditions.require_own_namespace(
            ours, Namespace.parse(ours.storage_namespace, server_path="/bs"), [ours, theirs]
        )


@pytest.mark.parametrize("other", ["local://re%70o", "local://x/../repo/inner", "local://REPO"])
def test_68_a_neighbour_that_can_be_read_in_two_ways_shared_the_namespace(other: str) -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    ours, theirs = (
        Repository(name, uri, "main", created)
        for name, uri in (("ours", "local://repo"), ("theirs", other))
    )
    with pytest.raises(RepositoryStateError, match=r"ours .* and theirs .* may share a storage"):
        preconditions.require_own_namespace(
            ours, Namespace.parse("local://repo", server_path="/bs"), [ours, theirs]
        )


def test_68_one_odd_repository_stopped_all_collection_of_a_server() -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    both = [
        Repository(name, uri, "main", created)
        for name, uri in (("ours", "local://repo"), ("odd", "local://p%20q//x"))
    ]
    preconditions.require_own_namespace(
        both[0], Namespace.parse("local://repo", server_path="/bs"), both
    )


@pytest.mark.parametrize(
    "second", [None, "https://minio.example.com:443/", "http://minio.example.com"]
)
def test_11_two_storages_were_one_store(second: str | None) -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    ours, theirs = (
        Repository(name, "s3://b/repo", "main", created, storage_id=name)
        for name in ("ours", "theirs")
    )
    endpoints = {"ours": "https://minio.example.com", "theirs": second}
    with pytest.raises(
        RepositoryStateError, match=r"ours .* and theirs .* share a storage namespace"
    ):
        preconditions.require_own_namespace(
            ours,
            Namespace.parse("s3://b/repo"),
            [ours, theirs],
            endpoint_of=lambda one: endpoints[one.id],
        )


def test_6_an_upload_under_way_looked_old() -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(SettingsError, match="the server lets an upload wait 1 day"):
        preconditions.require_old_enough(
            Repository("repo", "local://repo", "main", created),
            timedelta(hours=23),
            timedelta(hours=24),
            allow_unsafe=False,
        )


def test_16_the_store_dated_objects_by_another_clock() -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    ahead = ClockReading.of(noon + timedelta(minutes=6), sent=noon, received=noon)
    with pytest.raises(
        UnsafePlanError, match=r"the clock of the store is .*0:06:00 ahead of this machine's"
    ):
        require_near(ahead, "the store")


def test_23_linked_objects_of_a_local_store_have_absolute_addresses_that_were_not_recognised() -> (
    None
):
    namespace = Namespace.parse("local://repo", server_path="/var/lakefs")
    assert namespace.relative_absolute("local:///var/lakefs/repo/data/s/x") == "data/s/x"
    with pytest.raises(AddressError, match=r"looks like an object of local://repo/.*server_path"):
        namespace.relative_absolute("local:///mnt/lakefs/repo/data/s/x")


def test_27_two_tables_were_made_again_out_of_order(tmp_path: Path) -> None:
    run = written_run(tmp_path, spark=None).run
    manifests = passing_mark(run)
    later = run.keep(
        Draft(
            tables.COMMITTED_ADDRESSES,
            tables.COMMITTED_ADDRESSES.schema.empty_table(),
            manifests["namespace_slices"].reading_began,
            [manifests["retained_commits"]],
            figures=lambda _, __: Given(manifests["committed_addresses"].facts),
        )
    ).manifest
    with pytest.raises(
        ChainError, match=r"committed_addresses began at .*, before retained_commits ended at"
    ):
        chain.require_unbroken(run, list({**manifests, later.table: later}.values())[:4])


def test_28_commits_that_only_a_tag_leads_to_were_not_walked(
    answering: Callable[[Any], LakeFSServer],
) -> None:
    head, tagged = "a" * 64, "b" * 64

    def answers(asked: Asked) -> tuple[int, Any]:
        *_, ref, what = asked.path.split("/")
        if what == "branches":
            return 200, page([{"id": "main", "commit_id": head}], asked.query)
        if what == "tags":
            return 200, page([{"id": "v1", "commit_id": tagged}], asked.query)
        id_ = head if ref == "main" else tagged
        commit = {
            "id": id_,
            "parents": [],
            "meta_range_id": "",
            "version": 1,
            "creation_date": 1_795_000_000,
        }
        return 200, {"results": [commit], "pagination": {"has_more": False}}

    assert walk_refs(answering({("GET", ".*"): answers}), "repo").commits.keys() == {head, tagged}


def test_31_a_repository_was_made_inside_anothers_data(tmp_path: Path) -> None:
    inner = "data/s/inner/_lakefs/" + "a" * 64
    assert nested_repository(inner)
    assert not is_collectable(inner)
    run = written_run(tmp_path, spark=None).run
    manifests = passing_mark(run)
    listing = manifests["namespace_slices"]
    nested = replace(listing, facts={**listing.facts, "nested_objects": 1})
    (on_listing,) = [
        result
        for result in check_mark(run, {**manifests, listing.table: nested})
        if "inside" in result.summary
    ]
    assert not on_listing.passed


@pytest.mark.parametrize("prefix", ["data/tables", "data", ""])
def test_32_the_server_kept_its_tables_among_the_data(prefix: str) -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(RepositoryStateError, match="among the data that lakegc may collect"):
        preconditions.require_tables_apart(
            Repository("repo", "local://repo", "main", created), prefix
        )


def test_43_looking_at_the_checks_of_a_mark_concluded_it(tmp_path: Path) -> None:
    from spark_core.checks_of_stored_tables import judge

    run = written_run(tmp_path, spark=None).run
    passing_mark(run)
    with pytest.raises(VerdictError, match="has no verdict"):
        judge(run, tables.EXPIRED_ADDRESSES)
    assert not run.store.exists(lakegc_keys.verdict_key(run.key))
    # The conclusion itself, and what a person confirmed of it, are shown as they are stored.
    found, _ = verdict.conclude(replace(run, options=replace(run.options, max_expired_share=0.0)))
    stored = {
        str(check["name"]): check["passed"]
        for check in found.checks
        if check["table"] == "expired_addresses"
    }
    assert {result.name: result.passed for result in judge(run, tables.EXPIRED_ADDRESSES)} == stored


def test_65_old_commits_of_a_branch_at_rest_went_although_its_last_ones_were_to_stay() -> None:
    found = retained_commits(
        graph("A:300 B:200(A) C:100(B)", branches={"main": "C"}), TEN_DAYS, NOW, keep_last=2
    )
    assert {one.commit_id for one in found} == {"B", "C"}
