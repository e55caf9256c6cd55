"""What wrong settings get: one clear line each, with the place."""

import re
from pathlib import Path

import pytest

from spark_core.errors import SettingsError
from spark_core.settings import load_settings, settings_are_given

SERVER = '[server]\nendpoint = "http://127.0.0.1:8000"\n'


@pytest.fixture
def refusal(tmp_path):
    """The message that settings are refused with; the file's name is cut to `FILE`."""

    def refused(text, env=None):
        file = tmp_path / "lakegc.toml"
        file.write_text(text)
        with pytest.raises(SettingsError) as raised:
            load_settings(file, env or {})
        return str(raised.value).replace(str(file), "FILE")

    return refused


def test_an_unknown_key_is_named_with_its_line_and_what_was_probably_meant(refusal):
    assert refusal(f"{SERVER}[defaults]\nmin_age_hour = 24") == (
        "FILE, line 4: [defaults] min_age_hour is not a setting; did you mean min_age_hours?"
    )


def test_an_unknown_key_like_no_other_gets_the_list_of_what_is_known(refusal):
    message = refusal(f"{SERVER}[schedule]\nxyz = 1")
    assert message == (
        "FILE, line 4: [schedule] xyz is not a setting; known there: cron, timezone, run."
    )


def test_an_unknown_table_is_named(refusal):
    assert "FILE, line 3: sever is not a setting; did you mean server?" in refusal(
        f"{SERVER}[sever]\nx = 1"
    )


def test_an_unknown_key_of_a_repository_is_named(refusal):
    assert "line 4: [repositories.one] modus is not a setting" in refusal(
        f'{SERVER}[repositories.one]\nmodus = "mark"'
    )


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("max_expired_share = 1.5", "max_expired_share is 1.5, wanted less than or equal to 1."),
        (
            "max_expired_share = -0.1",
            "max_expired_share is -0.1, wanted greater than or equal to 0",
        ),
        ("max_expired_share = nan", "max_expired_share is nan, wanted a finite number"),
        ("min_age_hours = inf", "min_age_hours is inf, wanted a finite number"),
        ('min_age_hours = "a day"', "min_age_hours is 'a day', wanted a valid number"),
        ("min_age_hours = true", "min_age_hours is True, wanted a valid number"),
        (
            "min_age_hours = 1e9",
            "min_age_hours is 1000000000.0, wanted less than or equal to 876000",
        ),
        ("keep_runs = 0", "keep_runs is 0, wanted greater than or equal to 1"),
        ("keep_runs = 2.5", "keep_runs is 2.5, wanted a valid integer"),
        ('mode = "swep"', "mode is 'swep', wanted 'mark' or 'sweep'"),
        ("flat = 1", "flat is 1, wanted a valid boolean"),
    ],
)
def test_a_bad_value_is_shown_with_its_line_and_what_was_wanted(refusal, line, found):
    message = refusal(f"{SERVER}\n[repositories.one]\n{line}")
    assert message.startswith(f"FILE, line 5: [repositories.one] {found}")
    assert "\n" not in message


def test_several_faults_are_told_at_once_a_line_each(refusal):
    assert (
        len(refusal(f"{SERVER}[defaults]\nmin_age_hours = -1\nflat = 3\nxyz = 1").splitlines()) == 3
    )


def test_a_bad_value_of_the_environment_is_told_by_the_name_of_the_variable(refusal):
    message = refusal(SERVER, {"LAKEGC__DEFAULTS__MIN_AGE_HOURS": "soon"})
    assert message.startswith(
        "LAKEGC__DEFAULTS__MIN_AGE_HOURS: [defaults] min_age_hours is 'soon', wanted a valid number"
    )


def test_a_variable_that_names_no_setting_is_refused(refusal):
    message = refusal(SERVER, {"LAKEGC__DEFAULTS__MIN_AGE": "1"})
    assert message.startswith(
        "LAKEGC__DEFAULTS__MIN_AGE names no setting: there is no defaults.min_age"
    )


def test_a_missing_server_says_what_to_write(refusal):
    expected = (
        "no server is named. Write under [server] the line endpoint = "
        '"https://lakefs.example.com", '
        "or set LAKEGC__SERVER__ENDPOINT."
    )
    assert refusal("[defaults]\nflat = true") == f"FILE: {expected}"
    assert refusal("\n[server]\nread_timeout_seconds = 200") == f"FILE, line 2: {expected}"


def test_no_settings_at_all_says_what_to_write_and_what_needs_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not settings_are_given({})
    with pytest.raises(
        SettingsError,
        match=r"there is no lakegc\.toml in .*LAKEGC_CONFIG names no other(.|\n)*lakegc demo",
    ):
        load_settings(env={})


def test_a_settings_file_that_is_named_must_exist(tmp_path):
    with pytest.raises(
        SettingsError, match=r"nowhere\.toml \(named by LAKEGC_CONFIG\) does not exist"
    ):
        load_settings(env={"LAKEGC_CONFIG": str(tmp_path / "nowhere.toml")})
    with pytest.raises(SettingsError, match=r"nowhere\.toml does not exist"):
        load_settings(tmp_path / "nowhere.toml", env={})


def test_a_file_that_is_not_toml_is_told_with_the_parsers_place(refusal):
    assert "FILE is not TOML: " in refusal("[server\nendpoint = 1")
    assert "line 1" in refusal("[server\nendpoint = 1")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f'{SERVER}secret_access_key = "hush-hush"', r"line 3: \[server\] secret_access_key"),
        (f'{SERVER}access_key_id = "hush-hush"', r"line 3: \[server\] access_key_id"),
        (
            f'{SERVER}[storage]\ns3_secret_access_key = "hush-hush"',
            r"line 4: \[storage\] s3_secret_access_key",
        ),
        (f'{SERVER}[storage]\naccount_key = "hush-hush"', r"line 4: \[storage\] account_key"),
        (
            f'{SERVER}[spark.config]\n"spark.hadoop.fs.s3a.secret.key" = "hush-hush"',
            r"line 4: \[spark\.config\] spark\.hadoop",
        ),
        (
            f'{SERVER}[repositories.one]\npassword = "hush-hush"',
            r"line 4: \[repositories\.one\] password",
        ),
        (
            f'{SERVER}spark = {{config = {{token = "hush-hush"}}}}',
            r"line 3: \[server\.spark\.config\] token",
        ),
    ],
)
def test_a_secret_in_the_file_is_refused_without_being_shown(refusal, text, place):
    message = refusal(text)
    assert "hush" not in message
    assert re.search(place, message)
    assert "is a secret, and secrets do not belong in this file. Take the line out" in message


def test_a_secret_as_a_setting_of_the_environment_is_refused_without_being_shown(refusal):
    message = refusal(SERVER, {"LAKEGC__SERVER__SECRET_ACCESS_KEY": "hush-hush"})
    assert message.startswith("LAKEGC__SERVER__SECRET_ACCESS_KEY: secrets are not settings")
    assert "Set LAKEGC_ACCESS_KEY_ID and LAKEGC_SECRET_ACCESS_KEY instead" in message
    assert "hush" not in message


@pytest.mark.parametrize(
    "url", ["http://user:hush@host", "ftp://hush", "http://host?key=hush", "http://[hush", "hush"]
)
@pytest.mark.parametrize(("table", "key"), [("server", "endpoint"), ("storage", "s3_endpoint")])
def test_a_url_that_is_none_or_carries_a_password_is_refused_without_being_shown(
    refusal, table, key, url
):
    text = (
        f'[server]\nendpoint = "{url}"'
        if table == "server"
        else f'{SERVER}[storage]\ns3_endpoint = "{url}"'
    )
    message = refusal(text)
    assert f"[{table}] {key}: wanted a URL" in message
    assert "hush" not in message


def test_an_unsafe_age_is_for_repositories_whose_data_may_be_lost(refusal):
    message = refusal(f"{SERVER}[repositories.production]\nallow_unsafe_min_age = true")
    assert message == (
        "FILE: [repositories.production] has allow_unsafe_min_age, and production is not in "
        "throwaway_repositories. "
        "Uploads in flight could look old. Take it out, or name the repository there if its data "
        "may be lost."
    )


def test_neither_the_defaults_nor_the_environment_are_a_way_around_that(refusal):
    wanted = "production is not in throwaway_repositories"
    assert wanted in refusal(
        f"{SERVER}[defaults]\nallow_unsafe_min_age = true\n[repositories.production]"
    )
    variable = "LAKEGC__REPOSITORIES__PRODUCTION__ALLOW_UNSAFE_MIN_AGE"
    assert wanted in refusal(f"{SERVER}[repositories.production]", {variable: "true"})


def test_a_repository_that_is_not_named_says_the_line_to_add(tmp_path):
    file = tmp_path / "lakegc.toml"
    file.write_text(f"{SERVER}[repositories.one]")
    settings = load_settings(file, env={})
    with pytest.raises(
        SettingsError,
        match=r"'two' is not in .*\(there: one\).*Add the line `\[repositories\.two\]`",
    ):
        settings.run_options("two")


@pytest.mark.parametrize("name", ["UPPER", "x", "under_score", "a|b"])
def test_the_name_of_a_repository_is_one_that_lakefs_takes(refusal, name):
    message = refusal(f'{SERVER}[repositories."{name}"]')
    assert f"line 3: {name!r} is not the name of a lakeFS repository" in message


def test_an_unknown_time_zone_is_refused(refusal):
    assert refusal(f'{SERVER}[schedule]\ntimezone = "Mars/Base"') == (
        "FILE, line 4: [schedule] timezone: wanted a time zone like Europe/Berlin or UTC."
    )


class TestKeys:
    """The server's keys are asked for when the server is."""

    def settings(self, tmp_path: Path, more="", env=None):
        file = tmp_path / "lakegc.toml"
        file.write_text(SERVER + more)
        return load_settings(file, env or {})

    def test_without_keys_the_variables_to_set_are_named(self, tmp_path):
        with pytest.raises(
            SettingsError,
            match=r"no keys for http://127\.0\.0\.1:8000: LAKEGC_ACCESS_KEY_ID and "
            r"LAKEGC_SECRET_ACCESS_KEY are not set",
        ):
            self.settings(tmp_path).server_options()

    def test_one_of_two_keys_is_told_apart_from_none(self, tmp_path):
        with pytest.raises(
            SettingsError, match="LAKEGC_SECRET_ACCESS_KEY is set and LAKEGC_ACCESS_KEY_ID is not"
        ):
            self.settings(tmp_path, env={"LAKEGC_SECRET_ACCESS_KEY": "hush"}).server_options()
        with pytest.raises(
            SettingsError, match="LAKEGC_ACCESS_KEY_ID is set and LAKEGC_SECRET_ACCESS_KEY is not"
        ):
            self.settings(tmp_path, env={"LAKEGC_ACCESS_KEY_ID": "hush"}).server_options()

    def test_a_credentials_file_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(
            SettingsError, match=r"credentials_file .*keys cannot be read \(No such file"
        ):
            self.settings(tmp_path, 'credentials_file = "keys"').server_options()

    def test_a_credentials_file_must_hold_one_pair_of_keys(self, tmp_path):
        settings = self.settings(tmp_path, 'credentials_file = "keys"')
        for text, counts in (
            ("", "0 access_key_id and 0 secret_access_key"),
            ("access_key_id = hush", "1 access_key_id and 0 secret_access_key"),
            (
                "[a]\naccess_key_id = hush\nsecret_access_key = hush\n[b]\naccess_key_id = hush",
                "2 access_key_id and 1 secret_access_key",
            ),
            ("access_key_id = hush\n" * 2, "has a name twice"),
            ("- access_key_id: hush", "is no YAML, JSON, TOML or INI"),
        ):
            (tmp_path / "keys").write_text(text)
            with pytest.raises(SettingsError, match=counts) as raised:
                settings.server_options()
            assert "hush" not in str(raised.value)

    def test_a_credentials_file_that_is_not_text_is_not_quoted(self, tmp_path):
        (tmp_path / "keys").write_bytes(b"\xffhush")
        with pytest.raises(SettingsError, match="from line 1 on it is not UTF-8") as raised:
            self.settings(tmp_path, 'credentials_file = "keys"').server_options()
        assert "hush" not in str(raised.value)
        assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    "host", ["https://lakegc.example.com", "lakegc.example.com:8443", "*", "", "a b", "[fd00::1]"]
)
def test_a_host_of_the_ui_is_a_name_or_an_address_and_nothing_around_it(refusal, host):
    assert refusal(f'{SERVER}[ui]\nhosts = ["fd00::1", "{host}"]') == (
        "FILE, line 4: [ui] hosts: wanted names or addresses like lakegc.example.com, without "
        "scheme and port."
    )
