"""What a code location's Azure resource says reaches the stores; what it cannot say is refused."""

import dagster as dg
import pytest

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.resources import SparkResource, Wiring, build_resources
from lakegc_dagster.resources.azure import NoAzure, with_azure
from spark_core.addresses.namespace import Namespace
from spark_core.errors import SettingsError
from spark_core.settings import Settings
from spark_core.storage import StoreOptions, open_store

URL = "https://lake.blob.core.windows.net"
KEY = "aHVzaC1odXNo"
SETTINGS = StoreOptions(
    azure_endpoint="https://old", azure_client_id="of-the-settings", s3_region="eu-1", max_retries=3
)


def blob(kind, url=URL, **said):
    """A resource of Dagster's for Blob Storage, with a credential of a kind."""
    # The SDK takes a third of a second, and each process of the tests reads this file.
    from dagster_azure import blob as sdk

    credential = getattr(sdk, f"AzureBlobStorage{kind}Credential")(**said)
    return sdk.AzureBlobStorageResource(account_url=url, credential=credential)


def adls(kind, said, **more):
    """A resource of Dagster's for Data Lake Storage, with a credential of a kind."""
    from dagster_azure import adls2 as sdk

    credential = getattr(sdk, f"ADLS2{kind}")(**said)
    return sdk.ADLS2Resource(storage_account="lake", credential=credential, **more)


@pytest.mark.parametrize(
    ("of_dagster", "said"),
    [
        (lambda: blob("Key", key=KEY), {"azure_account_key": KEY}),
        (lambda: blob("SASToken", token="sig=hush"), {"azure_sas_token": "sig=hush"}),
        (lambda: blob("Anonymous", f"{URL}/?sp=r&sig=hush"), {"azure_sas_token": "sp=r&sig=hush"}),
        (lambda: blob("Default"), {}),
        (
            lambda: blob("Default", "lake.blob.core.windows.net", kwargs={"managed_identity_client_id": "own"}),  # noqa: E501 - a row of data
            {"azure_client_id": "own"},
        ),
        (lambda: adls("Key", {"key": KEY}), {"azure_account_key": KEY}),
        (lambda: adls("SASToken", {"token": "sig=hush"}), {"azure_sas_token": "sig=hush"}),
        (lambda: adls("DefaultAzureCredential", {"kwargs": {}}), {}),
    ],
)  # fmt: skip
def test_an_azure_resource_wins_over_the_settings_and_leaves_alone_what_it_does_not_say(
    of_dagster, said
):
    options = with_azure(SETTINGS, of_dagster())
    expected = {
        "azure_endpoint": URL,
        "azure_client_id": "of-the-settings",
        "s3_region": "eu-1",
        "max_retries": 3,
        **said,
    }
    assert options == StoreOptions(**expected)
    assert "hush" not in repr(options)
    assert KEY not in repr(options)


def test_a_national_cloud_is_reached_where_it_is():
    options = with_azure(
        StoreOptions(), adls("Key", {"key": KEY}, endpoint_suffix="core.chinacloudapi.cn")
    )
    assert options.azure_endpoint == "https://lake.blob.core.chinacloudapi.cn"


def test_without_an_azure_resource_the_settings_hold():
    assert with_azure(SETTINGS, NoAzure()) == SETTINGS


def test_credentials_of_the_resource_take_the_place_of_those_of_the_options():
    said = StoreOptions(
        azure_sas_token="sig=old",
        azure_tenant_id="t",
        azure_client_id="c",
        azure_client_secret="old",
    )
    options = with_azure(said, blob("Key", key=KEY))
    assert (options.azure_account_key, options.azure_sas_token, options.azure_client_secret) == (
        KEY,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("of_dagster", "text"),
    [
        (
            lambda: blob("Anonymous"),
            "is anonymous, and lakegc reads no store as nobody",
        ),
        (lambda: blob("Key"), "is to use a key and has none"),
        (lambda: blob("SASToken"), "is to use a sas and has none"),
        (
            lambda: blob("Default", kwargs={"exclude_cli_credential": True, "authority": "x"}),
            "the arguments authority, exclude_cli_credential to Azure's usual chain",
        ),
        (
            lambda: adls(
                "DefaultAzureCredential",
                {"kwargs": {"managed_identity_client_id": "a", "workload_identity_client_id": "b"}},
            ),
            "two client ids",
        ),
    ],
)
def test_what_a_resource_cannot_hand_on_is_refused_by_name(of_dagster, text):
    with pytest.raises(SettingsError, match=text):
        with_azure(StoreOptions(), of_dagster())


def test_a_namespace_in_another_account_is_refused_and_not_looked_for_in_the_resources_own():
    options = with_azure(StoreOptions(), blob("Key", key=KEY))
    open_store(Namespace.parse(f"{URL}/container"), options)
    with pytest.raises(
        SettingsError, match="leads to the account 'lake', the namespace lies in 'other'"
    ):
        open_store(Namespace.parse("https://other.blob.core.windows.net/container"), options)


def test_keys_in_an_azure_resource_may_come_from_the_environment_and_reach_the_runs(monkeypatch):
    monkeypatch.setattr(SparkResource, "start_ahead", lambda self: None)
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("LAKEGC_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("LAKEGC_SECRET_ACCESS_KEY", "secret")
    settings = Settings.model_validate({"server": {"endpoint": "http://127.0.0.1:9"}})
    resource = blob("Key", key=dg.EnvVar("MY_KEY"))
    with dg.build_resources(build_resources(Wiring(settings), azure=resource)) as given:
        options = given.runs.environment.store_options
        assert (options.azure_account_key, options.azure_endpoint) == (KEY, URL)
    with dg.build_resources(build_resources(Wiring(settings))) as given:
        assert given.runs.environment.store_options.azure_endpoint is None


def test_a_code_location_with_an_azure_resource_is_built():
    resource = blob("Key", key=KEY)
    assert build_defs(None, azure=resource).resources["azure"] is resource
    dg.Definitions.validate_loadable(build_defs(None, azure=resource))
