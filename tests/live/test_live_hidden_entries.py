"""Entries that hide from the server's scan, as a real server makes them.

By sizes, by dates, by hard resets.
"""

import hashlib
import time
from datetime import timedelta
from itertools import product

import pytest

from tests.support.live_collection import collect
from tests.support.live_repository import import_or_skip
from tests.support.pipeline import mark_and_conclude

pytestmark = pytest.mark.spark

# Of a server that runs for real nothing is older than the test, so a longest upload of none shows
# the bound itself.
EXACT = {"min_age": timedelta(0), "allow_unsafe_min_age": True}


def _say(repository, branch, path, data, *, size, checksum=None):
    """Upload past the server, and link the object with a size that is not its own.

    Return its address.
    """
    place = repository.write_unlinked(branch, path, data)
    repository.call(
        "PUT",
        f"/branches/{branch}/staging/backing",
        query={"path": path},
        data={
            "staging": {"physical_address": place["physical_address"]},
            "checksum": checksum or hashlib.md5(data).hexdigest(),
            "size_bytes": size,
        },
    )
    repository.last_write = time.time()
    return repository.store.relative(place["physical_address"])


def _require_hidden(repository, branch, path):
    changes = repository.call("GET", f"/branches/{branch}/diff")["results"]
    assert path not in {change["path"] for change in changes}, (
        "the server shows it, so nothing hides here"
    )


def _dropped(repository, branch="main", data=b"not needed"):
    """Leave an object to which nothing leads; return its address."""
    address = repository.upload(branch, "dropped", data)
    repository.delete(branch, "dropped")
    return address


def test_a_repair_of_a_lost_object_by_linking_the_same_content_with_size_zero_is_kept(
    repository, spark
):
    lost = _say(repository, "main", "p", b"the content", size=0)
    repository.commit("main")
    repository.store.delete(lost)
    assert repository.ask("GET", "/refs/main/objects", query={"path": "p"}).status == 410
    twin = _say(repository, "main", "p", b"the content", size=0)
    _require_hidden(repository, "main", "p")
    dead = _dropped(repository)
    assert collect(repository, spark, **EXACT).gone == {dead}
    assert repository.store.relative(repository.stat("main", "p")["physical_address"]) == twin
    # The server finds the object again, and sends as many bytes as the entry says: none. The store
    # has all of them.
    assert repository.get("main", "p") == b""
    assert repository.store.keys("data/")[twin] == len(b"the content")


def test_a_dishonest_twin_of_an_honest_entry_is_kept(repository, spark):
    repository.upload("main", "p", b"ten bytes.")
    repository.commit("main")
    checksum = repository.stat("main", "p")["checksum"]
    twin = _say(repository, "main", "p", b"gzip", size=10, checksum=checksum)
    _require_hidden(repository, "main", "p")
    dead = _dropped(repository)
    gone = collect(repository, spark, **EXACT).gone
    assert gone == {dead}
    assert twin in repository.data()
    # A whole read promises ten bytes and breaks off behind the last one that is there, so the entry
    # tells.
    assert repository.store.relative(repository.stat("main", "p")["physical_address"]) == twin


def test_what_was_staged_before_the_head_was_made_is_gone_and_nobody_is_asked(repository, spark):
    repository.upload("main", "p", b"same bytes")
    repository.commit("main")
    twin = repository.upload("main", "p", b"same bytes")
    time.sleep(3)
    repository.upload("main", "other", b"another")
    repository.commit("main")
    done = collect(repository, spark, **EXACT)
    assert done.gone == {twin}, "the commit dropped what was staged"
    assert done.facts["twins"]["calls"] == 0


def test_a_branch_that_rests_is_asked_and_an_active_one_is_not(repository, spark):
    repository.upload("main", "p", b"same bytes")
    repository.commit("main")
    repository.branch("resting")
    twin = repository.upload("resting", "p", b"same bytes")
    dead = _dropped(repository, data=b"ten bytes.")
    time.sleep(3)
    repository.upload("main", "other", b"another")
    repository.commit("main")
    done = collect(repository, spark, **EXACT)
    assert done.gone == {dead}
    assert done.facts["twins"]["branches_asked"] == 1
    assert {twin} <= repository.data()


@pytest.mark.parametrize(
    ("operation", "content"),
    [*product(["merge", "revert", "cherry_pick"], ["new", "old"]), ("import", "new")],
)
def test_each_operation_that_moves_a_head_drops_what_hid_there(
    repository, make, spark, operation, content
):
    """The server seals the staging area when it begins, and drops it when it ends, over hidden
    entries, too.

    Where one side is what both grew from, the head's metarange becomes the other side's, and no
    file is written. The date of the file is then from before the twin, so the branch is asked about
    it.
    """
    repository.upload("main", "p", b"same bytes")
    repository.commit("main")
    repository.branch("dev")
    repository.upload("dev", "more", b"more")
    picked = repository.commit("dev")
    if operation == "revert":
        repository.merge("dev", "main")
    if content == "new":
        repository.upload("main", "own", b"of main alone")
        repository.commit("main")
    if operation == "import":
        source = make()
        source.upload("main", "source", b"imported")
        elsewhere = source.stat("main", "source")["physical_address"]
    before = {commit["meta_range_id"] for commit in repository.commits.values()}
    twin = repository.upload("main", "p", b"same bytes")
    _require_hidden(repository, "main", "p")
    time.sleep(3)
    # A branch that rested since before the twin would have to be asked.
    repository.upload("dev", "later", b"later")
    repository.commit("dev")
    if operation == "merge":
        repository.merge(picked, "main")
    elif operation == "revert":
        repository.revert("main", picked, parent_number=0)
    elif operation == "import":
        import_or_skip(repository, "main", "imported", elsewhere)
    else:
        repository.cherry_pick("main", picked)
    head = repository.note_head("main")
    assert (repository.commits[head]["meta_range_id"] in before) == (content == "old")
    assert repository.store.relative(repository.stat("main", "p")["physical_address"]) != twin
    done = collect(repository, spark, **EXACT)
    assert done.gone == {twin}
    twins = done.facts["twins"]
    assert (twins["branches_asked"], twins["calls"]) == ((0, 0) if content == "new" else (1, 1))


def test_an_empty_commit_elsewhere_writes_the_metarange_again_and_makes_no_twin_older(
    repository, spark
):
    repository.upload("main", "p", b"same bytes")
    repository.commit("main")
    repository.branch("elsewhere")
    twin = repository.upload("main", "p", b"same bytes")
    time.sleep(3)
    repository.commit("elsewhere", allow_empty=True)
    assert collect(repository, spark, **EXACT).gone == set()
    assert repository.store.relative(repository.stat("main", "p")["physical_address"]) == twin


def test_a_commit_that_is_dated_in_the_future_hides_no_twin(repository, spark):
    repository.upload("main", "p", b"same bytes")
    repository.commit("main", days_ago=-400)
    twin = repository.upload("main", "p", b"same bytes")
    time.sleep(3)
    assert collect(repository, spark, **EXACT).gone == set()
    assert repository.store.relative(repository.stat("main", "p")["physical_address"]) == twin


def test_a_hard_reset_keeps_what_is_staged_and_each_sign_of_one_is_seen(repository, spark):
    """What dev staged first is what main commits later: dev is reset there, and it hides."""
    repository.upload("main", "base", b"base")
    repository.commit("main")
    repository.branch("dev")
    twin = repository.upload("dev", "p", b"same bytes")
    time.sleep(3)
    repository.upload("main", "p", b"same bytes")
    repository.commit("main")
    repository.settle()
    mark_and_conclude(repository.server.open_run(spark, repository.name))
    repository.hard_reset("dev", "main")
    _require_hidden(repository, "dev", "p")
    assert repository.store.relative(repository.stat("dev", "p")["physical_address"]) == twin
    time.sleep(2)
    first = collect(repository, spark, **EXACT)
    assert first.gone == set()
    assert sum(first.facts["twins"]["without_bound"].values()) == 1
    # Noted, so the next run knows as well, although nothing moved since the last one.
    time.sleep(2)
    assert collect(repository, spark, **EXACT).gone == set()
    assert repository.get("dev", "p") == b"same bytes"


def test_a_commit_that_descends_from_a_head_and_that_no_branch_reaches_is_a_sign(repository, spark):
    repository.upload("main", "base", b"base")
    repository.commit("main")
    repository.branch("dev")
    twin = repository.upload("dev", "p", b"same bytes")
    time.sleep(3)
    repository.upload("main", "p", b"same bytes")
    head = repository.commit("main")
    repository.branch("short-lived")
    repository.upload("short-lived", "more", b"more")
    repository.commit("short-lived")
    repository.hard_reset("dev", "short-lived")
    repository.hard_reset("dev", head)
    repository.drop_branch("short-lived")
    _require_hidden(repository, "dev", "p")
    assert collect(repository, spark, **EXACT).gone == set()
    assert repository.store.relative(repository.stat("dev", "p")["physical_address"]) == twin


def test_a_reset_of_a_path_leaves_identical_content_as_it_is(repository, spark):
    repository.upload("main", "p", b"same bytes")
    repository.commit("main")
    twin = repository.upload("main", "p", b"same bytes")
    repository.reset("main", type="object", path="p")
    assert repository.store.relative(repository.stat("main", "p")["physical_address"]) == twin
    assert collect(repository, spark, **EXACT).gone == set()


def test_sizes_that_repeat_keep_only_their_own_candidates_where_calls_are_short(repository, spark):
    for number in range(5):
        repository.upload("main", f"many/{number}", b"12345")
    repository.commit("main")
    waiting = _dropped(repository, data=b"54321")
    goes = _dropped(repository, data=b"a size that no head has")
    done = collect(repository, spark, twin_calls=0, **EXACT)
    assert done.gone == {goes}
    assert done.facts["twins"]["unchecked_named"] == [waiting]
    (said,) = [result for result in done.results if result.name == "hidden_entries_were_asked"]
    assert not said.passed
    assert "raise twin_calls" in said.summary
    assert collect(repository, spark, **EXACT).gone == {waiting}
