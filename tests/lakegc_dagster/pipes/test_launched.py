"""A run in another process, started by Dagster, comes back as if it had run here."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.names import Names
from lakegc_dagster.notices.sensors import message_of
from lakegc_dagster.partitions import add_partition, partition_key
from lakegc_dagster.pipes import entry, launched
from lakegc_dagster.pipes.entry import told_of
from lakegc_dagster.pipes.launched import STEP, told_settings
from lakegc_dagster.pipes.launchers import ENTRY, command_of, in_a_process
from spark_core.closed_runs import ALREADY_MARKED, AT_REST
from spark_core.errors import TransientError
from spark_core.lakefs.failures import ServerAwayError
from spark_core.lakefs.server_tasks import TaskLostError
from spark_core.phases import NOTHING_DELETED, add_state
from spark_core.records import tables
from spark_core.settings import Settings
from spark_core.stored_runs import open_stored
from tests.lakegc_dagster.conftest import answers, failure, ground_on, new_key
from tests.lakegc_dagster.notices.test_sensors import failed_run
from tests.support.stored_rows import rows_of

NAMES = Names("lakegc")
# What two marks of one repository differ in: time, place, and how long it took.
VARIES = {
    "dump_made_at",
    "by_age", "clock_skew_seconds", "closed_before", "concluded_at", "cutoff", "digest", "headline",
    "manifest_sha256", "not_now", "page", "path", "read_at", "requests", "seconds",
    "server_calls_so_far", "server_runs", "size_bytes", "uri", "who_worked",
}  # fmt: skip


@pytest.fixture
def place(served, request, monkeypatch):
    """A repository whose keys are in the environment, as another process needs them."""
    monkeypatch.setenv("LAKEGC_ACCESS_KEY_ID", served.access_key_id)
    monkeypatch.setenv("LAKEGC_SECRET_ACCESS_KEY", served.secret_access_key)
    with ground_on(served, f"r{abs(hash(request.node.nodeid)) % 10**10}") as made:
        yield made


def run(place, job, key, *, launcher=None, launch=None, ops=None, chosen=None, **own):
    """Run a job that works elsewhere, under settings that say so."""
    document = place.with_settings(**own).settings.model_dump(exclude_unset=True)
    settings = Settings.model_validate({**document, "launch": launch or {"with": "python"}})
    add_partition(place.instance, place.repository_id, key, NAMES)
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    return (
        build_defs(settings, names=NAMES, launcher=launcher)
        .resolve_job_def(NAMES.named(job))
        .execute_in_process(
            instance=place.instance,
            partition_key=partition_key(place.repository_id, key),
            raise_on_error=False,
            run_config={**quiet, "ops": ops or {}},
            **(chosen or {}),
        )
    )


def shown(result):
    """What Dagster shows of each asset, by name."""
    return {
        event.asset_key.path[-1]: event.step_materialization_data.materialization.metadata
        for event in result.get_asset_materialization_events()
    }


def lasting(result, names):
    """What two marks of one repository have in common of what is shown of these assets."""
    return {
        f"{asset}: {name}": (type(value), value.value)
        for asset in names
        for name, value in shown(result)[asset].items()
        if not VARIES & set(name.split("/"))
    }


def fates(place, key):
    stored = open_stored(place.settings, place.repository_id, key).load(tables.FATES)
    return sorted((row["address_hash"], row["fate"]) for row in rows_of(stored))


@pytest.mark.slow
def test_a_run_elsewhere_decides_shows_and_deletes_as_one_here_does(place):
    # The second of two marks takes nothing from the index of the first.
    place = place.with_settings(optimized=False)
    before, key = new_key(ago=timedelta(minutes=1)), new_key()
    ours = place.job("mark", before)
    assert ours.success, failure(ours)
    full = {NAMES.named(STEP): {"config": {"full": True}}}
    theirs = run(place, "mark_and_sweep", key, ops=full)
    assert theirs.success, failure(theirs)

    assert place.objects() == place.alive
    assert fates(place, key) == fates(place, before) != []
    assert set(shown(theirs)) == {*shown(ours), "deletion_report"}
    for name, metadata in shown(ours).items():
        assert shown(theirs)[name].keys() >= {"headline", "who_worked"} & metadata.keys(), name
    # House is kept after the sweep, which ours did not do.
    marked = set(shown(ours)) - {"house_keeping", place.repository_id}
    assert lasting(theirs, marked) == lasting(ours, marked)
    report = shown(theirs)["deletion_report"]
    assert report["headline"].value.startswith(f"**{len(place.garbage)} object")
    assert place.sandbox.blockstore.as_posix() in report["page"].value
    assert answers(theirs) == {**answers(ours), "every_object_was_deleted": True}
    assert {check.asset_key.path[0] for check in theirs.get_asset_check_evaluations()} == {"lakegc"}
    told = [log.user_message for log in place.instance.all_logs(theirs.run_id)]
    assert any("deletion_report of" in line for line in told)
    assert any("objects done, 0 kept" in line for line in told)


@pytest.mark.slow
def test_a_run_elsewhere_of_a_mark_that_is_there_shows_it_and_begins_no_sweep(place):
    key = new_key()
    assert place.job("mark", key).success
    theirs = run(place, "mark_and_sweep", key)
    assert theirs.success, failure(theirs)
    said = {
        name: metadata["repeated"].value
        for name, metadata in shown(theirs).items()
        if "repeated" in metadata
    }
    assert said["namespace_slices"] == said["verdict"] == ALREADY_MARKED
    assert said["deletion_report"].startswith("not swept: ")
    assert said["house_keeping"] == AT_REST
    assert all(answers(theirs).values())
    assert place.objects() == place.alive | place.garbage


def test_what_is_launched_is_told_the_master_and_no_connect_server_with_its_token():
    def told(master):
        server = {"endpoint": "http://127.0.0.1:9"}
        document = {"server": server, "spark": master}
        return told_settings(Settings.model_validate(document))["settings"]

    assert told({"master": "yarn"})["spark"] == {"master": "yarn"}
    assert told({"master": "sc://host:443/;token=S3CRET", "always": True})["spark"] == {
        "always": True
    }


SECRET = {
    "spark": {
        "config": {
            "spark.authenticate": "true",
            "spark.authenticate.secret": "S3CRET",
            "spark.hadoop.fs.s3a.access.key": "S3CRET",
            "spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net": "S3CRET",
            "spark.executorEnv.AZURE_STORAGE_KEY": "S3CRET",
            "spark.driver.extraJavaOptions": "-Da=b -Djavax.net.ssl.keyStorePassword=S3CRET",
        }
    },
    "server": {
        "endpoint": "http://127.0.0.1:9",
        "token_command": ["vault", "-token=S3CRET"],
        "aws_iam_headers": {"Authorization": "S3CRET"},
    },
    "launch": {"with": "spark-submit", "arguments": ["--conf", "a.password=S3CRET"]},
    "notify": {"webhook_env": "HOOK", "webhook_template": '{"routing_key": "S3CRET"}'},
    "repositories": {"one-key": {"mode": "mark"}},
}


def test_the_context_of_no_client_holds_a_secret_but_the_names_of_the_variables_that_do():
    asked = []

    def launcher(_context, extras):
        asked.append(extras)
        return SimpleNamespace(get_custom_messages=list)

    defs = build_defs(Settings.model_validate(SECRET), names=NAMES, launcher=launcher)
    with dg.DagsterInstance.ephemeral() as instance:
        key = new_key()
        add_partition(instance, "one-key", key, NAMES)
        defs.resolve_job_def(NAMES.named("mark")).execute_in_process(
            instance=instance, partition_key=partition_key("one-key", key), raise_on_error=False
        )
    [extras] = asked
    assert "S3CRET" not in json.dumps(extras)
    told = extras[launched.ASKED]
    assert told["settings"] == {
        "spark": {"config": {"spark.authenticate": "true"}},
        "server": {"endpoint": "http://127.0.0.1:9", "aws_iam_headers": {}},
        "repositories": {"one-key": {"mode": "mark"}},
    }
    assert told["environment"] == [
        "LAKEGC__SERVER__AWS_IAM_HEADERS", "LAKEGC__SERVER__TOKEN_COMMAND", "LAKEGC__SPARK__CONFIG",
    ]  # fmt: skip


def test_the_entry_takes_what_it_was_not_told_from_its_own_environment_and_nothing_else(
    monkeypatch,
):
    config = SECRET["spark"]["config"]
    monkeypatch.setenv("LAKEGC__SPARK__CONFIG", json.dumps(config))
    monkeypatch.setenv("LAKEGC__DEFAULTS__MODE", "sweep")
    monkeypatch.setenv("LAKEGC_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("LAKEGC_SECRET_ACCESS_KEY", "hush")
    opened = []
    monkeypatch.setattr(
        entry, "open_environment", lambda settings, _spark, **_: opened.append(settings)
    )
    monkeypatch.setattr(entry, "open_run", lambda *_, **_options: None)
    document = {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one-key": {}}}
    told = told_settings(
        Settings.model_validate({**document, "spark": {"config": config, "always": True}})
    )
    key = str(new_key())
    entry._opened(
        entry.Asked(
            **told, file=None, repository="one-key", run=key, assets=[], checks=[], options={}
        )
    )
    [settings] = opened
    assert settings.spark.config == config
    assert settings.spark.always
    assert settings.defaults.mode == "mark"
    assert settings.server_options().secret_access_key == "hush"


@pytest.mark.deep
@pytest.mark.spark
def test_spark_submit_starts_the_entry_and_its_session(place, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    launch = {"with": "spark-submit", "arguments": ["--master", "local[2]"]}
    key = new_key()
    theirs = run(place, "mark_and_sweep", key, launch=launch)
    assert theirs.success, failure(theirs)
    assert place.objects() == place.alive


@pytest.mark.slow
def test_a_refusal_elsewhere_is_the_sentence_that_it_is_here(place):
    strict = {"share_from_objects": 1, "max_expired_share": 0.0}
    before, key = new_key(ago=timedelta(minutes=1)), new_key()
    ours = place.with_settings(**strict).job("mark_and_sweep", before)
    theirs = run(place, "mark_and_sweep", key, **strict)
    assert not theirs.success
    assert failure(theirs) == failure(ours).replace(str(before), str(key))
    assert failure(theirs).startswith("VerdictError: the mark of run")
    assert set(shown(theirs)) == set(shown(ours)) >= {"verdict"}
    assert answers(theirs) == answers(ours)
    assert not answers(theirs)["expired_share_is_plausible"]
    assert place.objects() == place.alive | place.garbage


@pytest.mark.slow
def test_an_error_elsewhere_is_an_error_of_its_class_with_what_was_done(place):
    theirs = run(place, "mark", new_key(ago=-timedelta(days=2)))
    (event,) = [event for event in theirs.all_events if event.is_step_failure]
    said = event.step_failure_data.user_failure_data
    assert said.description.startswith("UnsafePlanError: run key")
    assert said.description.endswith("Nothing was deleted.")
    assert said.metadata["error"].value == "UnsafePlanError"
    assert not shown(theirs)


def test_a_process_that_dies_is_a_failed_run_that_says_what_stands(place):
    theirs = run(
        place,
        "mark",
        new_key(),
        launcher=in_a_process([sys.executable, "-c", "raise SystemExit(3)"]),
    )
    (event,) = [event for event in theirs.all_events if event.is_step_failure]
    told = event.step_failure_data.error.to_string()
    assert "External execution process failed with code 3" in told
    assert "Whatever it stored or deleted stands" in told
    # Of a job of the project's own that makes lakegc's assets, its people are told as well.
    tags = {**theirs.dagster_run.tags, "lakegc/repository": place.repository_id}
    message = message_of(failed_run(place, theirs, job_name="theirs", tags=tags), NAMES)
    assert (message.event, message.repository) == ("failed", place.repository_id)


@pytest.mark.slow
def test_a_server_that_was_silent_elsewhere_is_asked_again(place, monkeypatch):
    at_once = partial(launched.raising_failures, retry_after=timedelta(0))
    monkeypatch.setattr(launched, "raising_failures", at_once)
    kept = {
        "asset": "house_keeping", "worked": "", "words": "nothing", "facts": {"pruned_runs": []},
    }  # fmt: skip
    silent = {"error": "TransientError", "found": "no answer", "next_step": "", "state": "So far."}
    told, asked = [[kept, silent], [kept]], []

    def launcher(context, extras):
        asked.append((context.retry_number, extras[launched.ASKED]["assets"]))
        return SimpleNamespace(get_custom_messages=lambda: told[len(asked) - 1])

    chosen = {"asset_selection": [NAMES.key("house_keeping")]}
    ended = run(place, "sweep", new_key(), launcher=launcher, chosen=chosen)
    assert ended.success, failure(ended)
    assert asked == [(0, ["house_keeping"]), (1, ["house_keeping"])]
    ended = run(place, "sweep", new_key(), launcher=lambda *_: told_always(silent), chosen=chosen)
    assert "TransientError: no answer. So far." in str(ended.all_events)


@pytest.mark.parametrize("raised", [ServerAwayError, TaskLostError, TransientError])
def test_an_error_of_a_class_of_its_own_comes_back_as_what_it_is_one_of(raised):
    # Else a server that is restarted would not be asked again.
    away = add_state(raised("no connection to the server", "Look at it."), NOTHING_DELETED)
    back = launched.error_of(told_of(away))
    assert type(back) is TransientError
    assert str(back) == str(away) == "no connection to the server. Look at it. Nothing was deleted."


@pytest.mark.parametrize("told", [0, 1], ids=["nothing arrived", "the last message was lost"])
def test_a_run_elsewhere_that_did_not_tell_of_all_that_was_asked_has_failed(place, told):
    # The message that was lost may have been the refusal.
    kept = {
        "asset": "house_keeping", "worked": "", "words": "nothing", "facts": {"pruned_runs": []},
    }  # fmt: skip
    silent = lambda *_: SimpleNamespace(get_custom_messages=lambda: [kept][:told])  # noqa: E731
    chosen = {"asset_selection": [NAMES.key("deletion_report"), NAMES.key("house_keeping")]}
    theirs = run(place, "sweep", new_key(), launcher=silent, chosen=chosen)
    assert not theirs.success
    missing = ["deletion_report", *(["house_keeping"] if not told else [])]
    said = f"told nothing of {', '.join(missing)}, 1 of the checks of 1 assets"
    assert said in failure(theirs)
    assert "Whatever it stored or deleted stands" in failure(theirs)


def told_always(message):
    return SimpleNamespace(get_custom_messages=lambda: [message])


@pytest.mark.slow
def test_the_entry_alone_is_what_spark_submit_gets():
    words = command_of("spark-submit", ["--master", "yarn"])
    assert words == ["spark-submit", "--master", "yarn", str(ENTRY)]
    code = f"import sys; sys.argv = ['x']; import runpy; runpy.run_path({str(ENTRY)!r})"
    code += "; print(sorted({'dagster', 'lakegc_dagster'} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_all_assets_of_a_run_are_one_step_and_look_as_they_do_here():
    settings = {"server": {"endpoint": "http://127.0.0.1:9"}, "repositories": {"one": {}}}
    ours = build_defs(Settings.model_validate(settings))
    launched = build_defs(Settings.model_validate({**settings, "launch": {"with": "spark-submit"}}))
    dg.Definitions.validate_loadable(launched)
    for one, other in zip(
        *(
            sorted(built.resolve_all_asset_specs(), key=lambda spec: spec.key)
            for built in (ours, launched)
        ),
        strict=True,
    ):
        for said in ("key", "group_name", "owners", "tags", "description", "freshness_policy"):
            assert getattr(one, said) == getattr(other, said)
        assert {dep.asset_key for dep in one.deps} == {dep.asset_key for dep in other.deps}
    graphs = [built.resolve_asset_graph() for built in (ours, launched)]
    assert graphs[0].asset_check_keys == graphs[1].asset_check_keys
    for job in ("mark", "mark_and_sweep", "sweep"):
        assert set(launched.resolve_job_def(job).graph.node_dict) == {STEP}
