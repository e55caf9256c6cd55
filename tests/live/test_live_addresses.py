"""Addresses that other calls make.

Linked, staged by hand, uploaded twice, shared with another repository.
"""

import pytest

from spark_core.errors import RepositoryStateError
from tests.support.live_collection import collect, require_exactly_the_dead_gone
from tests.support.live_repository import import_or_skip
from tests.support.live_server import LiveError
from tests.support.pipeline import mark_and_conclude, mark_only
from tests.support.stored_rows import rows_of

pytestmark = pytest.mark.spark


def test_a_linked_object_is_kept_staged_and_committed_wherever_its_absolute_address_points(
    repository, spark
):
    """On a local blockstore linked objects have absolute addresses, which the server's scan leaves
    out.
    """
    repository.link("main", "committed", b"committed")
    repository.commit("main")
    linked = repository.link("main", "staged", b"staged")
    repository.branch("hidden", hidden=True)
    repository.link("hidden", "staged", b"staged on a hidden branch")
    dropped = repository.link("main", "dropped", b"dropped")
    repository.delete("main", "dropped")
    done = require_exactly_the_dead_gone(repository, spark)
    assert done.gone == {dropped}
    facts = done.marked.tables.uncommitted.manifest.facts
    assert facts["from_diffs"] == 2
    assert linked in {row.address for row in rows_of(done.marked.tables.uncommitted)}


def test_one_address_linked_to_two_paths_is_kept_until_both_are_gone(repository, spark):
    place = repository.write_unlinked("main", "a", b"shared")
    repository.link_to("main", "a", place["physical_address"], b"shared")
    # Not every server takes the address a second time, and a local one takes it for any path.
    second = "b" if repository.server.is_local else "a"
    repository.link_to("main", second, place["physical_address"], b"shared")
    repository.delete("main", "a")
    address = repository.store.relative(place["physical_address"])
    gone = set() if repository.server.is_local else {address}
    assert require_exactly_the_dead_gone(repository, spark).gone == gone


def test_an_object_staged_by_hand_in_another_spelling_than_the_namespace_is_kept(repository, spark):
    """The server resolves it to the object and leaves it out of its scan."""
    if repository.server.is_local:
        pytest.skip("a local blockstore has no bucket to spell otherwise")
    dead = repository.upload("main", "a", b"dead, then staged again")
    gone = repository.upload("main", "b", b"dropped")
    repository.delete("main", "a")
    repository.delete("main", "b")
    scheme, _, rest = f"{repository.store.namespace}/{dead}".partition("://")
    answer = repository.stage("main", "again", f"{scheme}://x@{rest}", size_bytes=23)
    if answer.status == 400:
        pytest.skip(f"this server refuses the spelling: {answer.body!r}")
    assert answer.status == 201
    done = collect(repository, spark)
    assert done.gone == {gone}
    assert repository.get("main", "again") == b"dead, then staged again"


def test_live_addresses_that_never_existed_do_not_stop_a_collection(repository, spark):
    """The server takes any address inside data/ when it is staged by hand."""
    dead = repository.upload("main", "a", b"dead, then staged again")
    repository.delete("main", "a")
    never = f"{repository.store.namespace}/data/slice/never"
    known = f"{repository.store.namespace}/{dead}"
    if repository.server.is_local:
        here = repository.server.server_path or repository.server.local_path
        never, known = (uri.replace("local://", f"local://{here}/") for uri in (never, known))
    answer = repository.stage("main", "never", never)
    if answer.status == 400:
        pytest.skip(f"this server refuses unsigned addresses inside data/: {answer.body!r}")
    assert answer.status == 201
    assert repository.stage("main", "again", known, size_bytes=23).status == 201
    gone = repository.upload("main", "b", b"dropped")
    repository.delete("main", "b")

    done = collect(repository, spark)
    assert done.gone == {gone}
    assert repository.get("main", "again") == b"dead, then staged again"
    assert done.facts["missing_named"] == ["data/slice/never"]
    assert done.facts["missing_objects"] == 1


def test_an_object_that_somebody_took_out_of_the_store_is_named_and_the_others_are_kept(
    repository, spark
):
    lost = repository.upload("main", "lost", b"lost")
    repository.upload("main", "kept", b"kept")
    repository.commit("main")
    repository.store.delete(lost)
    dropped = repository.upload("main", "dropped", b"dropped")
    repository.delete("main", "dropped")
    done = collect(repository, spark)
    assert done.gone == {dropped}
    assert done.facts["missing_named"] == [lost]
    assert repository.get("main", "kept") == b"kept"
    assert repository.ask("GET", "/refs/main/objects", query={"path": "lost"}).status == 410


def test_an_identical_re_upload_is_kept_although_the_server_lists_it_nowhere(repository, spark):
    repository.upload("main", "a", b"same bytes")
    repository.commit("main")
    repository.branch("dev")
    twin = repository.upload("main", "a", b"same bytes")
    other = repository.upload("dev", "a", b"same bytes")
    overwritten = repository.upload("dev", "b", b"same bytes")
    repository.upload("dev", "b", b"other bytes")
    assert repository.call("GET", "/branches/main/diff")["results"] == []

    done = require_exactly_the_dead_gone(repository, spark)
    assert done.gone == {overwritten}
    assert {twin, other} <= repository.data()
    assert done.facts["twins"]["kept_objects"] == 2
    assert done.facts["twins"]["kept_named"] == sorted([twin, other])
    repository.reset("main")
    assert collect(repository, spark).gone == {twin}


def test_twins_that_nobody_may_ask_about_are_kept_and_named(repository, spark):
    repository.upload("main", "a", b"same bytes")
    repository.commit("main")
    twin = repository.upload("main", "a", b"same bytes")
    like_it = repository.upload("main", "b", b"also  bytes"[:10])
    repository.delete("main", "b")
    unlike = repository.upload("main", "c", b"longer than the others")
    repository.delete("main", "c")
    done = collect(repository, spark, twin_calls=0, hidden_entries="ask_all")
    # Where everything is to be asked, no size is believed either.
    assert done.gone == set()
    assert done.facts["twins"]["unchecked_named"] == sorted([twin, like_it, unlike])
    assert repository.get("main", "a") == b"same bytes"


def test_objects_of_a_namespace_that_another_repository_shares_are_refused(repository, make, spark):
    """The server makes a bare repository on a namespace that is in use, and one inside it."""
    repository.upload("main", "a", b"dropped")
    repository.reset("main")
    before = repository.data()
    other = make(namespace=repository.namespace, bare=True)
    for asked, also in ((repository, other), (other, repository)):
        run = repository.server.open_run(spark, asked.name)
        refused = (
            f"{asked.name} .*no branch"
            if asked is other
            else f"{asked.name} .* and {also.name} .* share a storage"
        )
        with pytest.raises(RepositoryStateError, match=refused):
            mark_only(run)
    assert repository.data() == before


@pytest.mark.parametrize("inside", ["inner", "data/inner"])
def test_a_namespace_inside_another_one_is_refused_both_ways(repository, make, spark, inside):
    inner = make(namespace=f"{repository.namespace}/{inside}")
    for asked, also in ((repository, inner), (inner, repository)):
        run = repository.server.open_run(spark, asked.name)
        with pytest.raises(
            RepositoryStateError,
            match=f"{asked.name} .* and {also.name} .* share a storage namespace",
        ):
            mark_only(run)
    inner.call("DELETE", "", query={"force": "true"})
    repository.settle()
    if inside == "inner":
        assert collect(repository, spark).outcomes == {}
        return
    _, verdict, results = mark_and_conclude(repository.server.open_run(spark, repository.name))
    assert not verdict.passed
    assert [result.name for result in results if not result.passed] == [
        "listing_lies_in_one_repository"
    ]


def test_an_import_from_elsewhere_is_no_business_of_a_collection(repository, make, spark):
    source = make()
    source.upload("main", "source", b"imported")
    import_or_skip(
        repository, "main", "imported", source.stat("main", "source")["physical_address"]
    )
    gone = repository.upload("main", "imported", b"other")
    repository.reset("main")
    done = collect(repository, spark)
    assert done.gone == {gone}
    assert repository.get("main", "imported") == b"imported"


def test_an_object_of_its_own_that_a_repository_imports_in_another_spelling_is_kept(
    repository, spark
):
    """The server refuses to import from the repository's own namespace, but only as it spells that
    namespace itself.
    """
    again = repository.upload("main", "a", b"dead, then imported")
    gone = repository.upload("main", "b", b"dropped")
    repository.reset("main")
    uri = f"{repository.store.namespace}/{again}"
    with pytest.raises(LiveError):
        repository.import_object("main", "as it is spelt", uri)
    if repository.server.is_local:
        here = repository.server.server_path or repository.server.local_path
        uri = uri.replace("local://", f"local://{here}/")
    else:
        uri = uri.replace("://", "://x@")
    import_or_skip(repository, "main", "again", uri)
    assert require_exactly_the_dead_gone(repository, spark).gone == {gone}
    assert repository.get("main", "again") == b"dead, then imported"
