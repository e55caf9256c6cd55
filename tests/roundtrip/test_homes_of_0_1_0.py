"""What lakegc 0.1.0 left, and what a later version does next: the same, or what is written here."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakegc_dagster.sandbox import Sandbox
from spark_core import lakegc_keys
from spark_core.errors import UnsafePlanError
from spark_core.model import RunKey
from spark_core.records import journal
from spark_core.undo.restore import restore
from spark_core.upkeep import house_keeping
from tests.support.pipeline import mark_and_conclude, sweep_only
from tests.support.sandbox_repository import SandboxServer
from tests.support.sandbox_runs import open_sandbox_run

pytestmark = pytest.mark.spark

DATA = Path(__file__).parents[1] / "data/lakegc-0.1.0"
EXPECTED = json.loads((DATA / "expected.json").read_bytes())
NOW = datetime.fromisoformat(EXPECTED["now"])
# 0.1.0 dated the outcomes of a sweep by the clock of the machine that made the homes, not by the
# run's: their days in quarantine begin then.
MADE = datetime(2026, 11, 29, 8, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lakegc-0.1.0")
    with tarfile.open(DATA / "homes.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder


class Home:
    """A copy of a home, with its sandbox running."""

    def __init__(self, sandbox: Sandbox, spark, name: str):
        self.sandbox, self.spark = sandbox, spark
        self.expected = EXPECTED[name]
        self.then = self.expected["then, as 0.1.0"]

    def run(self, key: str | datetime, *, at: datetime | None = None, **options):
        """Open a run, at its own instant or at another, as the homes were made: with quarantine."""
        instant = key if isinstance(key, datetime) else RunKey.parse(key).instant
        self.sandbox.clock.set(at or instant)
        kept = {"quarantine": True, "quarantine_days": 30, "optimized": True}
        return open_sandbox_run(
            self.sandbox, "repo", self.spark, instant, opened=at, **{**kept, **options}
        )

    def keys(self, prefix: str) -> list[str]:
        below = self.sandbox.blockstore / "repo"
        found = (file.relative_to(below).as_posix() for file in below.rglob("*") if file.is_file())
        return sorted(key for key in found if key.startswith(prefix))

    def aside(self, run: str) -> list[str]:
        return self.keys(lakegc_keys.in_quarantine(run))


@pytest.fixture
def home(request, unpacked, tmp_path, spark) -> Iterator[Home]:
    name = request.param
    place = tmp_path / name
    # With the times of its files.
    shutil.copytree(unpacked / name, place)
    with Sandbox(place) as sandbox:
        yield Home(sandbox, spark, name)


collection = pytest.mark.parametrize("home", ["collection"], indirect=True)
dead = pytest.mark.parametrize("home", ["dead"], indirect=True)
policies = pytest.mark.parametrize("home", ["policies"], indirect=True)


@collection
def test_the_waiting_mark_is_swept(home):
    waiting = home.expected["waiting_run"]["run"]
    assert home.keys("data/") == home.expected["data_left"]
    told = sweep_only(home.run(waiting))
    assert told == home.then["the waiting mark is swept, a day later"]
    assert home.keys("data/") == sorted(set(home.expected["data_left"]) - told.keys())


@collection
def test_everything_swept_is_restored(home):
    run = home.expected["swept_run"]["run"]
    done = restore(home.run(run))
    assert done.objects == Counter(home.then["the swept run is restored, all of it"])
    assert set(home.keys("data/")) == {*home.expected["data_left"], *home.expected["outcomes"]}


@collection
def test_quarantine_ends_after_its_days_but_for_what_a_hold_keeps(home):
    run = home.expected["swept_run"]["run"]
    assert home.aside(run) == home.expected["in_quarantine"]
    later = home.run(MADE + 31 * DAY)
    mark_and_conclude(later)
    house = house_keeping.keep_house(later)
    assert house.problem is None
    left = "a mark and its house-keeping on day 31: left in quarantine of the swept run"
    assert home.aside(run) == home.then[left]


@dead
def test_a_dead_sweep_is_finished_two_hours_later(home):
    run = home.expected["run"]["run"]
    assert home.aside(run) == home.expected["in_quarantine"]
    told = sweep_only(home.run(run, at=NOW + timedelta(hours=2)))
    assert told == home.then["the same sweep, two hours later"]
    assert len(home.aside(run)) == len(home.expected["run"]["expired"]) == len(told)


@dead
def test_the_next_days_run_takes_over(home):
    """It does the rest, and what the dead sweep had moved lies where it was, for its days."""
    run = home.expected["run"]["run"]
    later = replace(home.run(NOW + DAY), take_over=run)
    mark_and_conclude(later)
    assert sweep_only(later) == home.then["the next day's run, which takes over"]
    assert home.aside(run) == home.expected["in_quarantine"]


@dead
def test_what_a_dead_sweep_moved_goes_after_its_days(home):
    """The one wanted difference: 0.1.0 left these copies where they are for ever."""
    run = home.expected["run"]["run"]
    mark_and_conclude(later := replace(home.run(NOW + DAY), take_over=run))
    sweep_only(later)
    ended = journal.ended(later.store, RunKey.parse(run))
    assert (ended.objects, ended.ended_by) == (110, str(later.key))
    with pytest.raises(UnsafePlanError, match=f"run {later.key} ended it"):
        sweep_only(home.run(run, at=NOW + DAY))
    for day, left in ((29, 110), (31, 0)):
        mark_and_conclude(later := home.run(MADE + day * DAY))
        house = house_keeping.keep_house(later)
        assert house.problem is None
        assert len(home.aside(run)) == left


@policies
@pytest.mark.parametrize("allowed", ["sweep", "off"])
def test_what_goes_by_policies_is_swept(home, allowed):
    waiting = home.expected["waiting_run"]["run"]
    told = sweep_only(home.run(waiting, policies=allowed, quarantine=False))
    scenario = "the waiting mark is swept" + (", policies = off" if allowed == "off" else "")
    assert told == home.then[scenario]
    counted = {"deleted": 26} if allowed == "sweep" else {"kept": 25, "deleted": 1}
    assert Counter(told.values()) == counted


@policies
def test_an_object_stays_that_main_shows_under_a_path_that_no_rule_names(home):
    (scenario,) = (each for name, each in home.then.items() if name.startswith("main shows"))
    waiting = home.expected["waiting_run"]["run"]
    run = home.run(waiting, policies="sweep", quarantine=False)
    address = scenario["address"]
    shown = {
        "physical_address": f"local://repo/{address}",
        "size_bytes": len(run.store.read(address)),
        "checksum": "said",
    }
    where = "/repositories/repo/branches/main/objects"
    SandboxServer.of(home.sandbox).call("PUT", where, query={"path": "kept/copy"}, data=shown)
    assert sweep_only(run) == scenario["outcomes"]
    assert scenario["outcomes"][address] == "kept"
    assert address in home.keys("data/")
