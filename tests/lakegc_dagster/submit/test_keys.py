"""Every configuration key of lakeFS's own job: what becomes of it, and what is refused."""

from datetime import timedelta

import pytest

from lakegc_dagster.submit.keys import read_job
from spark_core.errors import SettingsError

SECRET = "lakefs/secret+0123456789"
KEYS = {
    "lakefs.api.url": "https://lakefs.example.com/api/v1",
    "lakefs.api.access_key": "AKIASUBMIT",
    "lakefs.api.secret_key": SECRET,
}
NAMESPACE = "s3://bucket/repo"


def job(*arguments, **more):
    return read_job(arguments or ("repo",), KEYS | more.pop("keys", {}))


def keys(**named):
    return {name.replace("__", "."): value for name, value in named.items()}


def refusal(given, arguments=("repo",)):
    with pytest.raises(SettingsError) as refused:
        read_job(arguments, given)
    return str(refused.value)


def test_three_keys_and_a_name_mark_and_sweep_that_repository():
    found = job()
    assert (found.mark, found.sweep, found.mark_id) == (True, True, "")
    assert found.settings.run_options("repo").may_sweep is True
    server = found.settings.server_options()
    assert server.api_url == "https://lakefs.example.com/api/v1"
    assert (server.access_key_id, server.secret_access_key) == ("AKIASUBMIT", SECRET)
    assert found.settings.run_options("repo").min_age == timedelta(hours=24)
    assert found.settings.run_options("repo").allow_unsafe_min_age is False
    assert (found.ignored, found.notes) == ({}, [])


def test_no_other_repository_may_be_swept():
    with pytest.raises(SettingsError, match="'other' is not in the settings"):
        job().settings.run_options("other")


def test_timeouts_go_where_lakegc_has_them():
    found = job(
        keys={
            "lakefs.api.read.timeout_seconds": "300",
            "lakefs.gc.prepare_commits.timeout_seconds": "99",
        }
    )
    server = found.settings.server_options()
    assert server.read_timeout == timedelta(seconds=300)
    assert server.prepare_deadline == timedelta(seconds=99)
    assert found.notes == []


def test_a_read_timeout_that_breaks_large_repositories_is_raised_and_said():
    found = job(keys={"lakefs.api.read.timeout_seconds": "10"})
    assert found.settings.server_options().read_timeout == timedelta(seconds=120)
    assert found.notes == [
        (
            "lakefs.api.read.timeout_seconds = 10: raised to 120, since the server works up to a "
            "minute on one answer"
        )
    ]


def test_a_minimum_age_that_is_given_is_the_unsafe_override():
    options = job(keys={"lakefs.debug.gc.uncommitted_min_age_seconds": "1"}).settings.run_options(
        "repo"
    )
    assert options.min_age == timedelta(seconds=1)
    assert options.allow_unsafe_min_age is True


@pytest.mark.parametrize("text", ["", " ", "0", "-5"])
def test_a_minimum_age_of_nothing_is_the_default(text):
    options = job(keys={"lakefs.debug.gc.uncommitted_min_age_seconds": text}).settings.run_options(
        "repo"
    )
    assert options.min_age == timedelta(hours=24)
    assert options.allow_unsafe_min_age is False


@pytest.mark.parametrize(
    ("given", "mark", "sweep", "mark_id"),
    [
        ({"lakefs.gc.do_sweep": "false"}, True, False, ""),
        ({"lakefs.gc.do_sweep": " FALSE "}, True, False, ""),
        ({"lakefs.debug.gc.no_delete": "true"}, True, False, ""),
        (
            {"lakefs.gc.do_mark": "false", "lakefs.gc.mark_id": "ft6s0e1ksdufuaulm34g"},
            False,
            True,
            "ft6s0e1ksdufuaulm34g",
        ),
        (
            {"lakefs.gc.do_mark": "true", "lakefs.gc.do_sweep": "", "lakefs.gc.mark_id": ""},
            True,
            True,
            "",
        ),
    ],
)
def test_the_phases_are_those_of_the_reference_job(given, mark, sweep, mark_id):
    found = job(keys=given)
    assert (found.mark, found.sweep, found.mark_id) == (mark, sweep, mark_id)
    assert found.settings.run_options("repo").may_sweep is sweep


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"lakefs.gc.do_mark": "false", "lakefs.gc.do_sweep": "false"}, "there is nothing to do"),
        (
            {
                "lakefs.gc.do_mark": "false",
                "lakefs.gc.mark_id": "x",
                "lakefs.debug.gc.no_delete": "true",
            },
            "there is nothing to do",
        ),
        ({"lakefs.gc.do_mark": "false"}, "no mark to sweep was named"),
        ({"lakefs.gc.mark_id": "x"}, "a new mark gets an id of its own"),
        ({"lakefs.gc.do_sweep": "no"}, "lakefs.gc.do_sweep is 'no', wanted true or false"),
    ],
)
def test_phases_that_cannot_be_are_refused(given, problem):
    assert problem in refusal(KEYS | given)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("lakefs.gc.do_swep", "did you mean lakefs.gc.do_sweep?"),
        ("lakefs.gc.markid", "did you mean lakefs.gc.mark_id?"),
        (
            "lakefs.debug.gc.min_age_seconds",
            "did you mean lakefs.debug.gc.uncommitted_min_age_seconds?",
        ),
        ("lakefs.api.acces_key", "did you mean lakefs.api.access_key?"),
        ("lakefs.gc.zzzzzzzz", "known are: lakefs.api.access_key"),
    ],
)
def test_a_key_that_nobody_knows_is_refused_with_its_nearest(key, near):
    said = refusal(KEYS | {key: "x"})
    assert said.startswith(f"spark.hadoop.{key} is no key of the reference job; ")
    assert near in said


def test_what_is_ignored_is_named_with_its_reason():
    found = job(
        keys={
            "lakefs.api.connection.timeout_seconds": "7",
            "lakefs.gc.range.num_partitions": "64",
            "lakefs.job.range_read_parallelism": "9",
            "lakefs.gc.s3.min_backoff_secs": "1",
            "lakefs.gc.address.write_as_text": "true",
            "lakefs.job.repo_name": "x",
            "lakefs.other": "x",
            "fs.s3a.connection.maximum": "100",
            "fs.s3a.bucket.data.endpoint": "x",
            "fs.azure.always.use.https": "true",
            "google.cloud.auth.service.account.enable": "true",
            "spark.executor.memory": "4g",
        }
    )
    assert found.ignored.keys() == {
        "lakefs.api.connection.timeout_seconds",
        "lakefs.gc.range.num_partitions",
        "lakefs.job.range_read_parallelism",
        "lakefs.gc.s3.min_backoff_secs",
        "lakefs.gc.address.write_as_text",
        "lakefs.job.repo_name",
        "lakefs.other",
        "fs.s3a.connection.maximum",
        "fs.s3a.bucket.data.endpoint",
        "fs.azure.always.use.https",
        "google.cloud.auth.service.account.enable",
    }
    assert all(found.ignored.values())
    assert (
        found.ignored["fs.s3a.bucket.data.endpoint"] == "of one bucket; give it without bucket.NAME"
    )


@pytest.mark.parametrize("missing", list(KEYS))
def test_each_of_the_three_keys_is_needed(missing):
    said = refusal({key: value for key, value in KEYS.items() if key != missing})
    assert said.startswith(f"spark.hadoop.{missing}: not set.")


@pytest.mark.parametrize("arguments", [(), ("",), ("repo", "region", "more")])
def test_other_arguments_than_repository_and_region_are_refused(arguments):
    assert "wanted REPOSITORY [REGION]" in refusal(KEYS, arguments)


def test_a_wrong_value_is_told_under_the_name_that_the_user_wrote():
    said = refusal(KEYS | {"lakefs.gc.prepare_commits.timeout_seconds": "long"})
    assert said.startswith(
        "spark.hadoop.lakefs.gc.prepare_commits.timeout_seconds: [server] prepare_deadline_seconds "
        "is 'long',"
    )
    assert "LAKEGC__" not in said


def test_lakegcs_own_settings_have_their_own_prefix():
    found = job(
        keys={
            "spark.lakegc.storage.local_path": "/srv/blocks",
            "spark.lakegc.defaults.max_expired_share": "0.9",
            "spark.lakegc.defaults.write_reference_mark": "true",
            "spark.master": "local[2]",
        }
    )
    assert found.settings.store_options().local_path == "/srv/blocks"
    assert found.settings.run_options("repo").max_expired_share == 0.9
    assert found.settings.run_options("repo").write_reference_mark is True
    assert found.settings.spark_master == "local[2]"
    said = refusal(KEYS | {"spark.lakegc.defaults.max_share": "1"})
    assert said.startswith("spark.lakegc.defaults.max_share")
    assert "secrets are not settings" in refusal(KEYS | {"spark.lakegc.storage.secret_key": "x"})


def test_a_dead_run_is_taken_over_by_its_name():
    assert (
        job(keys={"spark.lakegc.take_over": " 2026-11-20T02-00-00Z "}).take_over
        == "2026-11-20T02-00-00Z"
    )
    assert job().take_over is None
    assert "run key 'the last one' is not an instant" in refusal(
        KEYS | {"spark.lakegc.take_over": "the last one"}
    )


def test_what_lakegcs_own_keys_say_of_the_repository_is_not_lost():
    found = job(
        keys={
            "spark.lakegc.repositories.repo.min_age_hours": "72",
            "spark.lakegc.repositories.repo.max_expired_share": "0.1",
            "spark.lakegc.defaults.max_expired_share": "0.9",
        }
    ).settings.run_options("repo")
    assert (found.min_age, found.max_expired_share, found.may_sweep) == (
        timedelta(hours=72),
        0.1,
        True,
    )
    said = refusal(KEYS | {"spark.lakegc.repositories.other.min_age_hours": "72"})
    assert said.startswith("spark.lakegc.repositories does not hold settings of repo alone")
    assert "does not hold settings of repo alone" in refusal(
        KEYS | {"spark.lakegc.repositories": '["repo"]'}
    )
    assert "spark.lakegc.repositories" in refusal(KEYS | {"spark.lakegc.repositories.repo": "72"})


@pytest.mark.parametrize("table", ["defaults", "repositories.repo"])
def test_a_mode_of_mark_never_sweeps(table):
    only_mark = {f"spark.lakegc.{table}.mode": "mark"}
    said = refusal(KEYS | only_mark)
    assert (
        'mode is "mark", and lakefs.gc.do_sweep is not false: the two contradict each other' in said
    )
    found = job(keys=only_mark | {"lakefs.gc.do_sweep": "false"})
    assert found.settings.run_options("repo").may_sweep is False
    swept = {f"spark.lakegc.{table}.mode": "sweep", "lakefs.gc.do_sweep": "false"}
    assert job(keys=swept).settings.run_options("repo").may_sweep is False


def test_lakegcs_own_words_about_the_store_win_over_hadoops():
    found = job(
        keys={
            "fs.s3a.endpoint": "http://of-all-jobs.example",
            "spark.lakegc.storage.s3_endpoint": "https://of-lakegc.example",
            "spark.lakegc.storage.allow_http": "false",
        }
    ).settings.store_options()
    assert (found.s3_endpoint, found.allow_http) == ("https://of-lakegc.example", False)


def test_the_keys_of_s3a_reach_the_store_and_no_text():
    found = job(
        "repo",
        "eu-central-1",
        keys={
            "fs.s3a.access.key": "AKIASTORE",
            "fs.s3a.secret.key": "store/secret",
            "fs.s3a.session.token": "store/token",
            "fs.s3a.endpoint": "minio.example.com:9000",
            "fs.s3a.path.style.access": "false",
            "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/gc",
            "fs.s3a.assumed.role.sts.endpoint": "sts.example.com",
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",  # noqa: E501 - a row of data
        },
    )
    options = found.stores.over(found.settings.store_options(), NAMESPACE)
    assert options.s3_endpoint == "https://minio.example.com:9000"
    assert (options.s3_access_key_id, options.s3_secret_access_key) == ("AKIASTORE", "store/secret")
    assert options.s3_session_token == "store/token"
    assert options.s3_region == "eu-central-1"
    assert options.s3_path_style is False
    assert options.s3_role_arn == "arn:aws:iam::1:role/gc"
    assert options.s3_sts_endpoint == "https://sts.example.com"
    assert options.allow_http is False
    assert found.ignored == {}
    for secret in (SECRET, "store/secret", "store/token"):
        assert secret not in repr(found)


@pytest.mark.parametrize(
    ("given", "endpoint", "http"),
    [
        ({"fs.s3a.endpoint": "s3.amazonaws.com"}, None, False),
        ({"fs.s3a.endpoint": "http://127.0.0.1:9000"}, "http://127.0.0.1:9000", True),
        (
            {"fs.s3a.endpoint": "m:9000", "fs.s3a.connection.ssl.enabled": "false"},
            "http://m:9000",
            True,
        ),
        ({}, None, False),
    ],
)
def test_an_endpoint_of_s3a_becomes_a_url(given, endpoint, http):
    found = job(keys=given)
    options = found.stores.over(found.settings.store_options(), NAMESPACE)
    assert (options.s3_endpoint, options.allow_http) == (endpoint, http)


def test_the_region_of_the_command_line_beats_that_of_the_keys():
    assert (
        job(keys={"fs.s3a.endpoint.region": "eu-west-1"}).settings.storage.s3_region == "eu-west-1"
    )
    both = job("repo", "us-east-2", keys={"fs.s3a.endpoint.region": "eu-west-1"})
    assert both.settings.storage.s3_region == "us-east-2"


def test_half_a_pair_of_keys_is_refused():
    assert "only one of fs.s3a.access.key and fs.s3a.secret.key is set" in refusal(
        KEYS | {"fs.s3a.access.key": "AKIA"}
    )


def test_nothing_is_deleted_without_credentials():
    provider = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    said = refusal(
        KEYS | {"fs.s3a.aws.credentials.provider": f"a.b.SimpleAWSCredentialsProvider, {provider}"}
    )
    assert "nothing is deleted without credentials" in said


def test_a_class_of_ones_own_is_told_what_stands_in_its_place():
    (note,) = job(keys={"fs.s3a.aws.credentials.provider": "com.example.Mine"}).notes
    assert note.startswith(
        "fs.s3a.aws.credentials.provider names com.example.Mine, a Java class; lakegc uses"
    )


def _azure(given, account="lake"):
    found = job(keys=given)
    options = found.stores.over(
        found.settings.store_options(), f"https://{account}.blob.core.windows.net/c/repo"
    )
    return {
        name: getattr(options, name)
        for name in (
            "azure_account_key",
            "azure_sas_token",
            "azure_tenant_id",
            "azure_client_id",
            "azure_client_secret",
        )
        if getattr(options, name)
    }


def test_the_key_of_the_azure_account_is_chosen_by_the_namespace():
    given = {
        "fs.azure.account.key.lake.dfs.core.windows.net": "key-of-lake",
        "fs.azure.account.key.other.dfs.core.windows.net": "key-of-other",
    }
    assert _azure(given) == {"azure_account_key": "key-of-lake"}
    assert _azure(given, "other") == {"azure_account_key": "key-of-other"}
    assert _azure(given, "third") == {}


@pytest.mark.parametrize("suffix", ["", ".lake.dfs.core.windows.net"])
def test_oauth_of_azure_is_a_service_principal(suffix):
    given = {
        f"fs.azure.account.auth.type{suffix}": "OAuth",
        f"fs.azure.account.oauth.provider.type{suffix}": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",  # noqa: E501 - a row of data
        f"fs.azure.account.oauth2.client.id{suffix}": "client",
        f"fs.azure.account.oauth2.client.secret{suffix}": "hidden",
        f"fs.azure.account.oauth2.client.endpoint{suffix}": "https://login.microsoftonline.com/tenant/oauth2/token",
        "fs.azure.account.key.lake.dfs.core.windows.net": "unused",
    }
    wanted = {
        "azure_tenant_id": "tenant",
        "azure_client_id": "client",
        "azure_client_secret": "hidden",
    }
    assert _azure(given) == wanted


def test_a_sas_token_of_azure_is_used():
    given = {
        "fs.azure.account.auth.type": "SAS",
        "fs.azure.sas.fixed.token.lake.dfs.core.windows.net": "sv=1&sig=x",
    }
    assert _azure(given) == {"azure_sas_token": "sv=1&sig=x"}


def test_what_is_no_token_endpoint_is_refused():
    said = refusal(KEYS | {"fs.azure.account.oauth2.client.endpoint": "https://login.example.com"})
    assert (
        "is not a token endpoint like https://login.microsoftonline.com/TENANT/oauth2/token" in said
    )


def test_a_java_class_for_azure_is_refused():
    assert "a Java class" in refusal(KEYS | {"fs.azure.account.auth.type": "Custom"})


@pytest.mark.parametrize(
    "key",
    ["google.cloud.auth.service.account.json.keyfile", "fs.gs.auth.service.account.json.keyfile"],
)
def test_the_key_file_of_google_is_used(key):
    found = job(keys={key: "/etc/gc.json"})
    assert found.settings.store_options().gcs_service_account_file == "/etc/gc.json"
    assert found.ignored == {}
