"""Repositories by pattern: what the settings say of a name, and what the server's list comes to."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.names import OWN
from lakegc_dagster.schedules.known_repositories import known_repositories
from lakegc_dagster.schedules.nightly import nightly_runs
from spark_core.errors import SettingsError
from spark_core.model import Repository
from spark_core.settings import Settings, load_settings
from spark_core.settings.collected_repositories import collected_repositories
from spark_core.settings.sections import DagsterSettings

NIGHT = datetime(2026, 11, 20, 2, tzinfo=UTC)


def settings(**repositories):
    return Settings.model_validate(
        {
            "server": {"endpoint": "http://127.0.0.1:9"},
            "repositories": {name.replace("_", "-"): own for name, own in repositories.items()},
        }
    )


class Server:
    """A server that lists some repositories."""

    def __init__(self, *names, read_only=()):
        self.found = [
            Repository(name, f"local://{name}", "main", NIGHT, read_only=name in read_only)
            for name in names
        ]

    def repositories(self):
        return self.found


TEAMS = {"team-*": {"mode": "sweep"}, "team-a": {}, "other": {}}


def test_an_exact_name_wins_over_a_pattern():
    found = settings(**TEAMS)
    assert found.repository("team-a").mode == "mark"
    assert found.repository("team-b").mode == "sweep"
    assert found.repository_ids == ("team-a", "other")


def test_a_name_that_nothing_matches_is_not_in_the_settings():
    with pytest.raises(SettingsError, match=r"'elsewhere' is not in the settings.*team-\*"):
        settings(**TEAMS).repository("elsewhere")


def test_two_patterns_that_match_are_an_error_that_names_both():
    both = settings(**{"team-*": {}, "*-prod": {}})
    with pytest.raises(
        SettingsError, match=r'"team-\*".* and .*"\*-prod".* both match .*team-prod'
    ):
        both.repository("team-prod")
    assert both.repository("team-x").mode == "mark"
    with pytest.raises(SettingsError, match="both match"):
        collected_repositories(both, Server("team-prod"))


def test_an_exact_name_ends_the_quarrel_of_two_patterns():
    found = settings(**{"team-*": {}, "*-prod": {}, "team-prod": {"mode": "sweep"}})
    assert found.repository("team-prod").mode == "sweep"
    assert collected_repositories(found, Server("team-prod")) == ("team-prod",)


def test_the_servers_list_gives_the_names_and_a_read_only_one_is_none():
    server = Server("team-c", "team-a", "stranger", "team-b", "team-ro", read_only=("team-ro",))
    assert collected_repositories(settings(**TEAMS), server) == (
        "team-a", "other", "team-b", "team-c",
    )  # fmt: skip


def test_a_question_mark_is_one_letter():
    found = settings(**{"repo-?": {}})
    assert collected_repositories(found, Server("repo-1", "repo-12", "repo-")) == ("repo-1",)


def test_without_a_pattern_nobody_is_asked():
    assert collected_repositories(settings(other={})) == ("other",)


def test_no_repository_that_a_pattern_matches_may_have_an_unsafe_age_unless_it_is_throwaway():
    found = settings(**{"team-*": {"allow_unsafe_min_age": True}})
    with pytest.raises(SettingsError, match="throwaway_repositories"):
        found.repository("team-a")


def test_what_is_neither_a_name_nor_a_pattern_is_refused_with_its_line(tmp_path):
    file = tmp_path / "lakegc.toml"
    file.write_text('[server]\nendpoint = "http://x"\n[repositories."Team_*"]\n')
    with pytest.raises(SettingsError, match=r"line 3: 'Team_\*' is not .* nor a pattern"):
        load_settings(file, {})


def test_the_night_runs_what_the_patterns_match(monkeypatch):
    monkeypatch.setattr(
        "lakegc_dagster.schedules.nightly.collected_repositories",
        lambda found: collected_repositories(found, Server("team-b", "team-a")),
    )
    named = {
        job: [run.repository_id for run in nightly_runs(settings(**TEAMS), job, NIGHT)]
        for job in ("mark", "mark_and_sweep")
    }
    assert named == {"mark": ["team-a", "other"], "mark_and_sweep": ["team-b"]}


def test_the_sensor_remembers_what_the_patterns_match_for_their_assets(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "lakegc_dagster.schedules.sensors.collected_repositories",
        lambda found: collected_repositories(found, Server("team-b")),
    )
    teams = settings(**TEAMS).model_copy(update={"dagster": DagsterSettings(home=str(tmp_path))})
    sensor = next(
        each for each in build_defs(teams).sensors if each.name == "configured_repositories"
    )
    with dg.DagsterInstance.ephemeral() as instance:
        asked = sensor.evaluate_tick(dg.build_sensor_context(instance=instance))
        assert not asked.dynamic_partitions_requests
        assert instance.get_dynamic_partitions("repository_run") == []
    assert set(known_repositories(teams, OWN)) == {"team-a", "other", "team-b"}
