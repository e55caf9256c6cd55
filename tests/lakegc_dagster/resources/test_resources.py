"""Spark in the background, the stores' credentials, and the open run of a partition."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from pyspark import SparkContext

from lakegc_dagster.resources import SparkResource, Wiring, build_resources
from lakegc_dagster.resources.s3 import with_s3
from lakegc_dagster.runs.run_config import LeaseConfig, SweepConfig
from spark_core.errors import SettingsError
from spark_core.model import Repository
from spark_core.settings import Settings
from spark_core.spark import placement
from spark_core.storage import StoreOptions
from tests.lakegc_dagster.conftest import failure, new_key


class FakeSession:
    """Stands for Spark where only its start matters."""

    sparkContext = SimpleNamespace(master="local[2]", applicationId="app")  # noqa: N815 - Spark's name


@pytest.fixture
def starting(monkeypatch):
    """Make Spark's start wait for an event.

    Returns the event, the session and the threads that started it.
    """
    may_start, session, threads = threading.Event(), FakeSession(), []

    def start(config):
        threads.append(threading.current_thread())
        assert may_start.wait(10)
        return session

    monkeypatch.setattr("spark_core.spark.one_session.start_session", start)
    return may_start, session, threads


@pytest.mark.slow
def test_spark_starts_in_the_background_while_the_run_goes_on(starting):
    may_start, session, threads = starting
    spark = SparkResource(spark_config={})
    spark.start_ahead()
    # Here the server is asked; only the first use waits.
    may_start.set()
    assert spark.spark_session is session
    assert threads != [threading.current_thread()]
    assert len(threads) == 1


def test_spark_starts_when_it_is_first_used_if_nobody_started_it_ahead(starting):
    may_start, session, threads = starting
    may_start.set()
    assert SparkResource(spark_config={}).spark_session is session
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("ship", [True, False])
def test_the_executors_get_the_package_as_the_settings_say(starting, monkeypatch, ship):
    may_start, session, _ = starting
    may_start.set()
    prepared = []
    monkeypatch.setattr(
        "spark_core.spark.cluster.prepare_cluster",
        lambda session, *, ship_package: prepared.append((session, ship_package)),
    )
    chosen = Settings.model_validate(
        {
            "server": {"endpoint": "http://127.0.0.1:9"},
            "spark": {"ship_package": ship, "config": {"spark.x": "y"}},
        }
    )
    spark = build_resources(Wiring(chosen))["spark"]
    assert spark.spark_config["spark.x"] == "y"
    assert spark.spark_session is session
    assert prepared == [(session, ship)]


@pytest.fixture
def without_java(monkeypatch, tmp_path):
    """A machine without Java, whatever another test of this process has started."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.usefixtures("without_java")
def test_without_java_the_run_says_so_in_the_thread_that_needs_it():
    spark = SparkResource(spark_config={})
    spark.start_ahead()
    for _ in range(2):
        with pytest.raises(SettingsError, match=r"Java: JAVA_HOME is "):
            _ = spark.spark_session


@pytest.mark.spark
@pytest.mark.usefixtures("without_java")
def test_without_java_a_dagster_run_that_needs_it_fails_by_name(ground, monkeypatch):
    # Much to read.
    monkeypatch.setattr(placement, "MOST_ROWS_OF_THE_DRIVER", 0)
    result = ground.job("mark", new_key())
    assert failure(result).startswith("SettingsError: Java: JAVA_HOME is ")


def settings(**storage):
    return Settings.model_validate(
        {"server": {"endpoint": "http://127.0.0.1:9"}, "storage": storage}
    )


def test_without_an_s3_resource_the_settings_stand_as_they_are():
    s3 = build_resources(Wiring(settings()))["s3"]
    said = StoreOptions(s3_endpoint="http://minio:9000", s3_region="eu-1", s3_profile="gc")
    assert with_s3(said, s3) == said


def test_an_s3_resource_wins_over_the_settings_and_leaves_alone_what_it_does_not_say():
    from dagster_aws.s3 import S3Resource

    said = S3Resource(region_name="eu-2", aws_access_key_id="AKIA1", aws_secret_access_key="hush")
    options = with_s3(
        StoreOptions(s3_endpoint="http://minio:9000", s3_region="eu-1", s3_path_style=False), said
    )
    assert options == StoreOptions(
        s3_endpoint="http://minio:9000",
        s3_region="eu-2",
        s3_access_key_id="AKIA1",
        s3_secret_access_key="hush",
        s3_path_style=False,
    )
    assert "hush" not in repr(options)


@pytest.mark.slow
def test_each_storage_of_a_server_is_reached_by_its_own_words_over_the_common_ones(monkeypatch):
    from dagster_aws.s3 import S3Resource

    monkeypatch.setattr(SparkResource, "start_ahead", lambda self: None)
    document = {
        "server": {"endpoint": "http://127.0.0.1:9"},
        "storage": {
            "s3_endpoint": "http://one:9000",
            "s3_region": "eu-1",
            "s3_profile": "one",
            "max_retries": 3,
        },
        "storages": {
            "two": {
                "s3_endpoint": "http://two:9000",
                "read_timeout_seconds": 7.0,
                "s3_profile": "two",
            },
            "files": {"local_path": "/mnt/files", "server_path": "/srv/files"},
        },
    }
    loaded = Settings.model_validate(document)
    monkeypatch.setenv("LAKEGC_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("LAKEGC_SECRET_ACCESS_KEY", "secret")
    said = S3Resource(
        endpoint_url="http://one:9000", aws_access_key_id="AKIA1", aws_secret_access_key="hush"
    )

    def reached(storage_id):
        with dg.build_resources(build_resources(Wiring(loaded), said)) as given:
            stored = Repository(
                "docs", "s3://b/docs", "main", datetime.now(UTC), storage_id=storage_id
            )
            return given.runs.environment.storage_of(stored)

    common = reached("").store_options
    assert reached("one that the settings do not name").store_options == common
    assert (common.s3_endpoint, common.s3_access_key_id) == ("http://one:9000", "AKIA1")
    assert reached("two").store_options == replace(
        common,
        s3_endpoint="http://two:9000",
        read_timeout=timedelta(seconds=7),
        s3_profile="two",
        s3_access_key_id=None,
        s3_secret_access_key=None,
    )
    assert (reached("files").store_options.local_path, reached("files").server_path) == (
        "/mnt/files",
        "/srv/files",
    )
    assert reached("files").store_options.s3_access_key_id == "AKIA1"


def test_keys_in_an_s3_resource_may_come_from_the_environment_as_dagster_users_write_it(
    monkeypatch,
):
    from dagster_aws.s3 import S3Resource

    monkeypatch.setattr(SparkResource, "start_ahead", lambda self: None)
    monkeypatch.setenv("MY_SECRET", "hush")
    s3 = S3Resource(aws_access_key_id="AKIA1", aws_secret_access_key=dg.EnvVar("MY_SECRET"))
    with dg.build_resources(build_resources(Wiring(settings()), s3)) as given:
        assert with_s3(StoreOptions(), given.runs.s3).s3_secret_access_key == "hush"


@pytest.mark.spark
def test_the_tables_of_one_dagster_run_share_one_open_run_and_the_server_is_asked_once(ground):
    with dg.build_resources(build_resources(Wiring(ground.settings))) as given:
        key = f"{ground.repository_id}|{new_key()}"
        before = ground.sandbox.requests["get_repository"]
        with given.runs.opened(key, "namespace_slices") as first:
            pass
        with given.runs.opened(key, "expired_addresses") as second:
            pass
        assert first is second
        assert ground.sandbox.requests["get_repository"] - before == 1


@pytest.mark.spark
def test_what_a_person_asks_of_an_asset_reaches_its_run_and_no_other(ground):
    dead, key = str(new_key()), f"{ground.repository_id}|{new_key()}"
    with dg.build_resources(build_resources(Wiring(ground.settings))) as given:
        with given.runs.opened(key, "namespace_slices") as asked_nothing:
            assert (asked_nothing.reference_mark, asked_nothing.take_over) == (None, None)
        with given.runs.opened(
            key, "deletion_report", SweepConfig(take_over=dead, reference_mark="mark")
        ) as run:
            assert (run.reference_mark, run.take_over) == ("mark", dead)
            # Tables that one of them stored the other knows.
            assert run.known is asked_nothing.known
        with given.runs.opened(key, "house_keeping", LeaseConfig(take_over=dead)) as run:
            assert (run.reference_mark, run.take_over) == (None, dead)


def test_no_secret_is_in_what_dagster_keeps_of_the_resources(monkeypatch, tmp_path):
    (tmp_path / "lakegc.toml").write_text('[server]\nendpoint = "http://127.0.0.1:9"\n')
    from lakegc_dagster.definitions import build_defs
    from spark_core.settings import load_settings

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-aws")
    loaded = load_settings(
        Path(tmp_path / "lakegc.toml"),
        {"LAKEGC_SECRET_ACCESS_KEY": "hush", "LAKEGC_ACCESS_KEY_ID": "k"},
    )
    repository = build_defs(loaded).get_repository_def()
    shown = [
        repr(definition) + str(definition.description)
        for definition in repository.get_top_level_resources().values()
    ]
    assert shown
    assert not any("hush" in text for text in shown)
    assert "hush" not in repr(Wiring(loaded))
