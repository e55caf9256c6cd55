"""A store that is sent to other machines takes the credentials of this one along, when it should
and as they are then.
"""

import json
import os
import pickle
from datetime import UTC, datetime, timedelta

import botocore.session
import pytest
from botocore.credentials import Credentials, RefreshableCredentials

from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.storage import StoreOptions, open_store
from spark_core.storage.local import LocalStore

S3 = Namespace.parse("s3://bucket/lake")
AZURE = Namespace.parse("https://account.blob.core.windows.net/container/lake")
GCS = Namespace.parse("gs://bucket/lake")
SERVICE_ACCOUNT = json.dumps({"type": "service_account", "private_key": "PRIVATE"})


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine with nothing of its own: no variables, no files, no identity."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def _sent(namespace, **options):
    store = open_store(namespace, StoreOptions(**{"carry_credentials": "auto", **options}))
    return pickle.loads(pickle.dumps(store)).options


def _aws(options):
    return options.s3_access_key_id, options.s3_secret_access_key, options.s3_session_token


def test_keys_of_the_environment_go_along_and_the_receiver_sends_nothing_further(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    sent = _sent(S3)
    assert _aws(sent) == ("AKIA1", "secret", "token")
    assert sent.carry_credentials == "never"
    assert "secret" not in repr(sent)
    assert "token" not in repr(sent).replace("azure_sas_token", "")


def test_nothing_goes_along_where_it_is_not_asked_for(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert _sent(S3, carry_credentials="never") == StoreOptions()


def test_each_journey_begins_with_the_credentials_of_its_moment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "first")
    before = _sent(S3)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "second")
    assert (before.s3_secret_access_key, _sent(S3).s3_secret_access_key) == ("first", "second")


def test_a_profile_goes_along_as_what_it_says(machine):
    (machine / "credentials").write_text(
        "[lake]\naws_access_key_id = AKIAP\naws_secret_access_key = profiled\n"
    )
    (machine / "config").write_text(
        "[profile lake]\nregion = eu-north-1\nendpoint_url = https://minio.example.com\n"
    )
    sent = _sent(S3, s3_profile="lake")
    assert _aws(sent) == ("AKIAP", "profiled", None)
    assert (sent.s3_profile, sent.s3_region, sent.s3_endpoint) == (
        None,
        "eu-north-1",
        "https://minio.example.com",
    )


def test_a_profile_that_does_not_exist_is_refused():
    with pytest.raises(SettingsError, match=r"AWS credentials of this machine.*absent"):
        _sent(S3, s3_profile="absent")


def test_the_endpoint_of_the_environment_goes_along_and_that_of_aws_does_not(monkeypatch):
    assert _sent(S3).s3_endpoint is None
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://minio.example.com")
    assert _sent(S3).s3_endpoint == "https://minio.example.com"
    assert (
        _sent(S3, s3_endpoint="https://other.example.com").s3_endpoint
        == "https://other.example.com"
    )


def test_a_machine_whose_environment_names_another_endpoint_still_means_the_drivers_store(
    monkeypatch,
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    driver = open_store(S3, StoreOptions(carry_credentials="auto", s3_region="eu-north-1"))
    sent = pickle.dumps(driver)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://mirror.example.com")
    there = pickle.loads(sent)._clients
    assert (
        there.boto.meta.endpoint_url
        == there.objects.config["endpoint"]
        == "https://s3.eu-north-1.amazonaws.com"
    )


def test_explicit_keys_stay_what_they_are(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert _aws(_sent(S3, s3_access_key_id="own", s3_secret_access_key="mine")) == (
        "own",
        "mine",
        None,
    )


def _found(monkeypatch, credentials):
    monkeypatch.setattr(botocore.session.Session, "get_credentials", lambda _: credentials)
    # The cache asks once per environment; this is another one.
    monkeypatch.setenv("AWS_TEST", str(id(credentials)))


@pytest.mark.parametrize("method", ["iam-role", "container-role", "assume-role-with-web-identity"])
def test_an_identity_of_the_machine_stays_on_the_machine_unless_always(monkeypatch, method):
    _found(monkeypatch, Credentials("ASIA1", "of the machine", "token", method=method))
    assert _aws(_sent(S3)) == (None, None, None)
    assert _aws(_sent(S3, carry_credentials="always")) == ("ASIA1", "of the machine", "token")


def test_temporary_keys_are_renewed_before_a_journey(monkeypatch):
    life = iter(range(1, 10))

    def renewed():
        # Less than botocore's 15 minutes: due for renewal whenever somebody asks.
        ends = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        return {
            "access_key": "ASIA",
            "secret_key": "s",
            "token": f"token {next(life)}",
            "expiry_time": ends,
        }

    credentials = RefreshableCredentials.create_from_metadata(renewed(), renewed, "sso")
    _found(monkeypatch, credentials)
    assert [_sent(S3).s3_session_token for _ in range(2)] == ["token 2", "token 3"]


@pytest.mark.parametrize(
    ("variables", "field", "value"),
    [
        ({"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}, "azure_account_key", "a2V5"),
        (
            {"AZURE_STORAGE_KEY": "a2V5", "AZURE_STORAGE_ACCOUNT": "account"},
            "azure_account_key",
            "a2V5",
        ),
        (
            {"AZURE_STORAGE_KEY": "a2V5", "AZURE_STORAGE_ACCOUNT": "another"},
            "azure_account_key",
            None,
        ),
        ({"AZURE_STORAGE_SAS_TOKEN": "sig=x"}, "azure_sas_token", "sig=x"),
        (
            {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_SECRET": "s"},
            "azure_client_secret",
            "s",
        ),
        ({"AZURE_CLIENT_SECRET": "s"}, "azure_client_secret", None),
    ],
)
def test_azure_credentials_of_the_environment_go_along(monkeypatch, variables, field, value):
    for name, said in variables.items():
        monkeypatch.setenv(name, said)
    assert getattr(_sent(AZURE), field) == value
    assert getattr(_sent(S3), field) is None


def test_explicit_azure_credentials_are_not_joined_by_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    assert _sent(AZURE, azure_sas_token="sig=x").azure_account_key is None


@pytest.mark.parametrize("by", ["variable", "setting", "gcloud"])
def test_a_google_key_file_goes_along_as_its_content(machine, monkeypatch, by):
    path = machine / ".config/gcloud/application_default_credentials.json"
    path.parent.mkdir(parents=True)
    path.write_text(SERVICE_ACCOUNT)
    if by == "variable":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    sent = _sent(GCS, **({"gcs_service_account_file": str(path)} if by == "setting" else {}))
    assert sent.gcs_service_account_key == SERVICE_ACCOUNT
    assert sent.gcs_service_account_file is None
    assert "PRIVATE" not in repr(sent)


def test_google_credentials_that_name_something_of_the_machine_stay(machine, monkeypatch):
    path = machine / "federated.json"
    path.write_text('{"type": "external_account", "credential_source": {"file": "/var/run/token"}}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    assert _sent(GCS).gcs_service_account_key is None


@pytest.mark.parametrize("content", [None, "PRIVATE but no json", "[]"])
def test_a_google_key_file_that_cannot_be_read_is_refused_without_a_word_of_it(
    machine, monkeypatch, content
):
    path = machine / "key.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with pytest.raises(
        SettingsError, match=r"Google credentials file .*key\.json cannot be read"
    ) as refused:
        _sent(GCS)
    assert "PRIVATE" not in str(refused.value)


def test_a_pickled_store_carries_what_it_should(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    namespace = Namespace.parse("local://lake", server_path=str(tmp_path))
    local = LocalStore(namespace, StoreOptions(local_path=str(tmp_path), carry_credentials="auto"))
    # A local store needs no keys, so none are sent.
    assert pickle.loads(pickle.dumps(local)).options.s3_access_key_id is None
    from spark_core.storage.s3.store import S3Store

    there = pickle.loads(pickle.dumps(S3Store(S3, StoreOptions(carry_credentials="auto"))))
    assert (there.options.s3_access_key_id, there.options.s3_secret_access_key) == (
        "AKIA1",
        "secret",
    )
