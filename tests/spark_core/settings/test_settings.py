"""`lakegc.toml` and the environment become the engine's options."""

import os
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_core.errors import SettingsError
from spark_core.lakefs import ServerOptions
from spark_core.run import RunOptions
from spark_core.settings import Settings, load_settings, settings_are_given
from spark_core.settings import file as settings_file
from spark_core.settings.sections import RepositorySettings
from spark_core.settings.server_and_storage import ServerSettings, StorageSettings
from spark_core.storage import StoreOptions

SERVER = '[server]\nendpoint = "http://127.0.0.1:8000"\n'


@pytest.fixture
def write(tmp_path):
    def written(text):
        file = tmp_path / "lakegc.toml"
        file.write_text(text)
        return file

    return written


def test_a_server_is_all_that_has_to_be_said(write):
    settings = load_settings(write(SERVER), env={})
    assert settings.repository_ids == ()
    assert settings.spark_master == "local[*]"
    assert not settings.are_executors_chosen
    assert settings.schedule.run is False


def test_the_master_is_that_of_spark_submit_unless_the_settings_name_one(write, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert load_settings(write(SERVER), env={}).spark_config().get("spark.master") is None
    named = load_settings(write(f'{SERVER}[spark]\nmaster = "spark://head:7077"'), env={})
    assert named.spark_config()["spark.master"] == "spark://head:7077"


def test_a_connect_server_takes_the_place_of_a_master(write, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://of-the-environment")
    by_variable = load_settings(write(SERVER), env={})
    assert by_variable.spark_remote == "sc://of-the-environment"
    by_master = load_settings(write(f'{SERVER}[spark]\nmaster = "yarn"'), env={})
    assert by_master.spark_remote is None
    token = "sc://host:443/;token=S3CRET"
    named = load_settings(write(SERVER), env={"LAKEGC__SPARK__MASTER": token})
    assert named.spark_remote == token
    assert named.spark_master is None
    assert "spark.master" not in named.spark_config()
    assert os.environ["SPARK_REMOTE"] == "sc://of-the-environment", "no session has started"


@pytest.mark.parametrize("master", ["SC://host/;token=S3CRET", "host:15002/;token=S3CRET"])
def test_a_token_is_taken_in_the_address_of_a_connect_server_alone(write, master):
    with pytest.raises(SettingsError, match="like sc://host:15002") as refused:
        load_settings(write(SERVER), env={"LAKEGC__SPARK__MASTER": master})
    assert "S3CRET" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "carried"),
    [
        ("", "never"),
        ('[spark]\nmaster = "local[8]"', "never"),
        ('[spark]\nmaster = "local-cluster[2,1,1024]"', "auto"),
        ('[spark]\nmaster = "k8s://https://head:6443"', "auto"),
        ('[spark]\nmaster = "sc://head"', "auto"),
        ('[spark]\nmaster = "yarn"\n[storage]\nexecutor_credentials = "never"', "never"),
        ('[spark]\nmaster = "yarn"\n[storage]\nexecutor_credentials = "always"', "always"),
    ],
)
def test_credentials_go_to_executors_that_are_other_machines(write, words, carried):
    assert (
        load_settings(write(f"{SERVER}{words}"), env={}).store_options().carry_credentials
        == carried
    )


def test_a_repository_takes_the_defaults_and_says_only_what_differs(write):
    settings = load_settings(
        write(
            f"{SERVER}[defaults]\nmin_age_hours = 48\nflat = true\n[repositories.one]\n"
            "[repositories.two]\nflat = false"
        ),
        env={},
    )
    assert settings.run_options("one").min_age == timedelta(hours=48)
    assert settings.run_options("one").flat is True
    assert settings.run_options("two").min_age == timedelta(hours=48)
    assert settings.run_options("two").flat is False


def test_an_own_value_equal_to_the_built_in_default_still_beats_the_files_defaults(write):
    settings = load_settings(
        write(f"{SERVER}[defaults]\nmin_age_hours = 48\n[repositories.one]\nmin_age_hours = 24"),
        env={},
    )
    assert settings.run_options("one").min_age == timedelta(hours=24)


def test_the_built_in_defaults_are_those_of_the_engine(write):
    settings = load_settings(
        write(f"{SERVER}[repositories.one]"),
        env={"LAKEGC_ACCESS_KEY_ID": "key", "LAKEGC_SECRET_ACCESS_KEY": "secret"},
    )
    assert settings.run_options("one") == RunOptions()
    assert settings.store_options() == StoreOptions()
    assert settings.server_options() == ServerOptions("http://127.0.0.1:8000", "key", "secret")


def test_a_storage_of_a_server_with_several_takes_what_it_does_not_say_from_the_common_table(write):
    file = write(
        f'{SERVER}[storage]\ns3_region = "eu-1"\nmax_retries = 3\n'
        '[storages.cold]\ns3_region = "us-1"\n[storages."disk 2"]\nlocal_path = "blocks"'
    )
    settings = load_settings(file, env={"LAKEGC__STORAGES__COLD__S3_ENDPOINT": "http://cold:9000"})
    cold = settings.storage_of("cold")
    assert (cold.s3_region, cold.s3_endpoint, cold.max_retries) == ("us-1", "http://cold:9000", 3)
    assert settings.storage_of("hot") == settings.storage
    assert settings.own_store_options("cold") == {
        "s3_region": "us-1",
        "s3_endpoint": "http://cold:9000",
    }
    assert settings.own_store_options("disk 2") == {"local_path": str(file.parent / "blocks")}


def test_every_word_of_a_storage_has_an_option_of_the_store(write):
    settings = load_settings(write(SERVER), env={})
    options = {field.name for field in fields(StoreOptions)}
    for name in StorageSettings.model_fields.keys() - {"server_path"}:
        table = StorageSettings.model_construct(**{name: getattr(StorageSettings(), name)})
        whole = settings.model_copy(update={"storages": {"x": table}})
        assert options & whole.own_store_options("x").keys(), name


def test_how_patient_to_be_with_the_server_can_be_set(write):
    said = {
        "read_timeout_seconds": 2.5,
        "prepare_deadline_seconds": 3.5,
        "longest_outage_seconds": 0.0,
    }
    assert said.keys() == {
        name for name in ServerSettings.model_fields if name.endswith("_seconds")
    }
    lines = "".join(f"{name} = {value}\n" for name, value in said.items())
    keys = {"LAKEGC_ACCESS_KEY_ID": "key", "LAKEGC_SECRET_ACCESS_KEY": "secret"}
    options = load_settings(write(SERVER + lines), env=keys).server_options()
    assert {
        name: getattr(options, name.removesuffix("_seconds")).total_seconds() for name in said
    } == said
    assert options.connect_timeout == options.read_timeout, "it is no longer than an answer"
    usual = load_settings(write(SERVER), env=keys).server_options()
    assert usual.connect_timeout == timedelta(seconds=10)


def test_every_option_of_a_run_can_be_set(write):
    said = {
        "mode": "sweep",
        "min_age_hours": 1,
        "allow_unsafe_min_age": True,
        "flat": True,
        "inventory": "s3://inventories/bucket/all/",
        "tags_protect": False,
        "keep_last": 3,
        "clock_margin_minutes": 1,
        "twin_calls": 1,
        "twin_time_minutes": 2,
        "hidden_entries": "ask_all",
        "compacted": "ignore",
        "longest_upload_days": 8,
        "branches_at_once": 1,
        "strangers": "collect",
        "inherited": "collect",
        "policies": "only",
        "max_policy_share": 0.1,
        "explain": "short",
        "max_expired_share": 0.1,
        "max_missing_share": 0.1,
        "share_from_objects": 1,
        "max_sudden_drop": 0.1,
        "max_expired_rise": 0.1,
        "max_mark_age_days": 1,
        "max_deletes_per_second": 0.5,
        "quarantine": True,
        "quarantine_days": 1,
        "repository_cache_seconds": 1,
        "read_threads": 1,
        "write_reference_mark": True,
        "exclusive": True,
        "lease_ttl_seconds": 30,
        "price_per_gb_month": "0.5 EUR",
        "price_by_class": {"STANDARD_IA": 0.125},
        "optimized": False,
        "full_every": 2,
        "keep_runs": 1,
    }
    assert said.keys() == RepositorySettings.model_fields.keys()
    lines = "\n".join(f"{name} = {_as_toml(value)}" for name, value in said.items())
    options = load_settings(
        write(f'throwaway_repositories = ["one"]\n{SERVER}[repositories.one]\n{lines}'), env={}
    ).run_options("one")
    unchanged = [
        f.name
        for f in fields(RunOptions)
        if getattr(options, f.name) == getattr(RunOptions(), f.name)
    ]
    assert unchanged == []


def _as_toml(value):
    if isinstance(value, dict):
        inner = ", ".join(f"{name} = {each!r}" for name, each in value.items())
        return f"{{{inner}}}"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def test_a_class_has_no_price_below_0(write):
    with pytest.raises(SettingsError, match="prices of at least 0"):
        load_settings(write(f"{SERVER}[defaults]\nprice_by_class = {{COLD = -1}}"), env={})


@pytest.mark.parametrize("price", ['"free"', '"EUR 1"', '"-1"', '"nan"', '"inf EUR"', '""', "1.5"])
def test_a_price_is_a_number_of_at_least_0_with_its_currency(write, price):
    with pytest.raises(
        SettingsError, match=r'wanted a price of at least 0 in quotes, like "0\.023'
    ):
        load_settings(write(f"{SERVER}[defaults]\nprice_per_gb_month = {price}"), env={})


def test_every_value_can_be_overridden_by_the_environment(write):
    file = write(f"{SERVER}[repositories.lakegc-demo]\nmin_age_hours = 1")
    settings = load_settings(
        file,
        env={
            "LAKEGC__SERVER__ENDPOINT": "https://other.example.com",
            "LAKEGC__SERVER__READ_TIMEOUT_SECONDS": "300",
            "LAKEGC__STORAGE__S3_PATH_STYLE": "false",
            "LAKEGC__STORAGE__S3_REGION": "eu-central-1",
            "LAKEGC__SPARK__CONFIG": '{"spark.driver.memory": "4g"}',
            "LAKEGC__DEFAULTS__MAX_EXPIRED_SHARE": "0.25",
            "LAKEGC__THROWAWAY_REPOSITORIES": '["lakegc-demo"]',
            "LAKEGC__REPOSITORIES__LAKEGC_DEMO__MODE": "sweep",
            "LAKEGC__REPOSITORIES__ANOTHER__MIN_AGE_HOURS": "36",
            "LAKEGC__SCHEDULE__RUN": "true",
        },
    )
    assert settings.server.endpoint == "https://other.example.com"
    assert settings.server.read_timeout_seconds == 300
    assert settings.storage.s3_path_style is False
    assert settings.storage.s3_region == "eu-central-1"
    assert settings.spark.config == {"spark.driver.memory": "4g"}
    assert settings.schedule.run is True
    assert settings.repository_ids == ("lakegc-demo", "another")
    assert settings.run_options("lakegc-demo").may_sweep is True
    assert settings.run_options("lakegc-demo").max_expired_share == 0.25
    assert settings.run_options("another").min_age == timedelta(hours=36)


def test_the_name_of_every_setting_leads_to_itself_as_a_variable():
    for section, model in (
        ("server", ServerSettings),
        ("storage", StorageSettings),
        ("defaults", RepositorySettings),
    ):
        for name in model.model_fields:
            source = settings_file.SettingsSource(None, "", {})
            settings_file._override(
                source, f"LAKEGC__{section.upper()}__{name.upper()}", "1", Settings
            )
            assert list(source.document[section]) == [name]


def test_the_environment_alone_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"LAKEGC__SERVER__ENDPOINT": "http://127.0.0.1:8000"}
    assert settings_are_given(env)
    assert load_settings(env=env).file is None


def test_the_file_is_the_one_given_else_the_one_named_else_the_one_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("given", "named", "lakegc"):
        Path(f"{name}.toml").write_text(SERVER.replace("8000", f"{8000 + len(name)}"))
    env = {"LAKEGC_CONFIG": "named.toml"}
    assert load_settings(Path("given.toml"), env).file == tmp_path / "given.toml"
    assert load_settings(None, env).file == tmp_path / "named.toml"
    assert load_settings(None, {}).file == tmp_path / "lakegc.toml"
    assert load_settings(None, {}).server.endpoint.endswith("8006")


def test_paths_start_at_the_settings_file_wherever_it_is_read_from(write, tmp_path, monkeypatch):
    file = write(f'{SERVER}[storage]\nlocal_path = "blocks"\n[dagster]\nhome = "home"')
    monkeypatch.chdir("/")
    settings = load_settings(file, env={})
    assert settings.store_options().local_path == str(tmp_path / "blocks")
    assert settings.dagster_home == tmp_path / "home"


def test_dagsters_home_is_the_files_else_the_environments_else_beside_the_file(write, tmp_path):
    assert (
        load_settings(write(SERVER), env={}).dagster_home == tmp_path / ".lakegc" / "dagster_home"
    )
    env = {"DAGSTER_HOME": "/srv/dagster"}
    assert load_settings(write(SERVER), env=env).dagster_home == Path("/srv/dagster")
    assert (
        load_settings(write(f'{SERVER}[dagster]\nhome = "mine"'), env=env).dagster_home
        == tmp_path / "mine"
    )


@pytest.mark.parametrize(
    "text",
    [
        'access_key_id = "AKIA1"\nsecret_access_key = "s3cr3t/+="\n',
        "[default]\naccess_key_id=AKIA1\nsecret_access_key=s3cr3t/+=\n",
        '{"access_key_id": "AKIA1", "secret_access_key": "s3cr3t/+="}',
        (
            "credentials:\n    access_key_id: AKIA1\n    secret_access_key: s3cr3t/+=\nserver:\n"
            "    endpoint_url: http://x\n"
        ),
    ],
    ids=["toml", "ini", "json", "lakectl"],
)
def test_keys_are_read_from_a_file_that_the_settings_name(write, tmp_path, text):
    (tmp_path / "keys").write_text(text)
    options = load_settings(write(f'{SERVER}credentials_file = "keys"'), env={}).server_options()
    assert (options.access_key_id, options.secret_access_key) == ("AKIA1", "s3cr3t/+=")


def test_keys_of_the_environment_beat_those_of_a_file(write, tmp_path):
    (tmp_path / "keys").write_text('access_key_id = "file"\nsecret_access_key = "file"')
    settings = load_settings(
        write(f'{SERVER}credentials_file = "keys"'),
        env={"LAKEGC_ACCESS_KEY_ID": "mine", "LAKEGC_SECRET_ACCESS_KEY": "hidden"},
    )
    assert settings.server_options().access_key_id == "mine"


def test_no_secret_shows_in_the_settings(write, tmp_path):
    (tmp_path / "keys").write_text('access_key_id = "AKIA1"\nsecret_access_key = "s3cr3t"')
    env = {"AWS_SECRET_ACCESS_KEY": "s3cr3t", "LAKEGC_SECRET_ACCESS_KEY": ""}
    settings = load_settings(write(f'{SERVER}credentials_file = "keys"'), env=env)
    assert settings.server_options().secret_access_key == "s3cr3t"
    for shown in (
        repr(settings),
        str(settings),
        settings.model_dump_json(),
        repr(settings.server_options()),
    ):
        assert "s3cr3t" not in shown


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(["one", "two", "three"]), unique=True),
    st.sets(st.sampled_from(["one", "two", "three"])),
)
def test_every_repository_may_be_swept_and_only_throwaway_ones_with_an_unsafe_age(
    listed, throwaway
):
    document = {
        "server": {"endpoint": "http://127.0.0.1"},
        "throwaway_repositories": sorted(throwaway),
        "repositories": {name: {} for name in listed},
    }
    settings = Settings.model_validate({**document, "defaults": {"mode": "sweep"}})
    unsafe = Settings.model_validate({**document, "defaults": {"allow_unsafe_min_age": True}})
    for name in listed:
        assert settings.run_options(name).may_sweep
        assert not settings.run_options(name).allow_unsafe_min_age
        if name in throwaway:
            assert unsafe.run_options(name).allow_unsafe_min_age
        else:
            with pytest.raises(SettingsError, match="is not in throwaway_repositories"):
                unsafe.run_options(name)


@pytest.mark.parametrize(
    ("spark", "chosen"),
    [
        ({}, False),
        ({"master": "local[2]"}, False),
        ({"always": True}, True),
        ({"master": "local[2]", "always": True}, True),
        ({"master": "yarn"}, True),
        ({"master": "spark://host:7077", "always": False}, True),
        ({"master": "local-cluster[2,1,1024]"}, True),
        ({"master": "sc://host"}, True),
    ],
)
def test_executors_do_all_work_where_always_says_so_or_the_master_is_elsewhere(spark, chosen):
    document = {"server": {"endpoint": "http://127.0.0.1:9"}, "spark": spark}
    assert Settings.model_validate(document).are_executors_chosen == chosen
