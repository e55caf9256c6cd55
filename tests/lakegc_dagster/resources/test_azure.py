"""What a code location's Azure resource says reaches the stores; what it cannot say is refused."""

import dagster as dg
import pytest
from dagster_azure.adls2 import ADLS2DefaultAzureCredential, ADLS2Key, ADLS2Resource, ADLS2SASToken
from dagster_azure.blob import (
    AzureBlobStorageAnonymousCredential,
    AzureBlobStorageDefaultCredential,
    AzureBlobStorageKeyCredential,
    AzureBlobStorageResource,
    AzureBlobStorageSASTokenCredential,
)

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


def blob(credential, url=URL):
    return AzureBlobStorageResource(account_url=url, credential=credential)


def adls(credential, **more):
    return ADLS2Resource(storage_account="lake", credential=credential, **more)


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        (blob(AzureBlobStorageKeyCredential(key=KEY)), {"azure_account_key": KEY}),
        (blob(AzureBlobStorageSASTokenCredential(token="sig=hush")), {"azure_sas_token": "sig=hush"}),  # noqa: E501 - a row of data
        (blob(AzureBlobStorageAnonymousCredential(), f"{URL}/?sp=r&sig=hush"), {"azure_sas_token": "sp=r&sig=hush"}),  # noqa: E501 - a row of data
        (blob(AzureBlobStorageDefaultCredential()), {}),
        (
            blob(AzureBlobStorageDefaultCredential(kwargs={"managed_identity_client_id": "own"}), "lake.blob.core.windows.net"),  # noqa: E501 - a row of data
            {"azure_client_id": "own"},
        ),
        (adls(ADLS2Key(key=KEY)), {"azure_account_key": KEY}),
        (adls(ADLS2SASToken(token="sig=hush")), {"azure_sas_token": "sig=hush"}),
        (adls(ADLS2DefaultAzureCredential(kwargs={})), {}),
    ],
)  # fmt: skip
def test_an_azure_resource_wins_over_the_settings_and_leaves_alone_what_it_does_not_say(
    resource, said
):
    options = with_azure(SETTINGS, resource)
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
        StoreOptions(), adls(ADLS2Key(key=KEY), endpoint_suffix="core.chinacloudapi.cn")
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
    options = with_azure(said, blob(AzureBlobStorageKeyCredential(key=KEY)))
    assert (options.azure_account_key, options.azure_sas_token, options.azure_client_secret) == (
        KEY,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        (
            blob(AzureBlobStorageAnonymousCredential()),
            "is anonymous, and lakegc reads no store as nobody",
        ),
        (blob(AzureBlobStorageKeyCredential()), "is to use a key and has none"),
        (blob(AzureBlobStorageSASTokenCredential()), "is to use a sas and has none"),
        (
            blob(
                AzureBlobStorageDefaultCredential(
                    kwargs={"exclude_cli_credential": True, "authority": "x"}
                )
            ),
            "the arguments authority, exclude_cli_credential to Azure's usual chain",
        ),
        (
            adls(
                ADLS2DefaultAzureCredential(
                    kwargs={"managed_identity_client_id": "a", "workload_identity_client_id": "b"}
                )
            ),
            "two client ids",
        ),
    ],
)
def test_what_a_resource_cannot_hand_on_is_refused_by_name(resource, text):
    with pytest.raises(SettingsError, match=text):
        with_azure(StoreOptions(), resource)


def test_a_namespace_in_another_account_is_refused_and_not_looked_for_in_the_resources_own():
    options = with_azure(StoreOptions(), blob(AzureBlobStorageKeyCredential(key=KEY)))
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
    resource = blob(AzureBlobStorageKeyCredential(key=dg.EnvVar("MY_KEY")))
    with dg.build_resources(build_resources(Wiring(settings), azure=resource)) as given:
        options = given.runs.environment.store_options
        assert (options.azure_account_key, options.azure_endpoint) == (KEY, URL)
    with dg.build_resources(build_resources(Wiring(settings))) as given:
        assert given.runs.environment.store_options.azure_endpoint is None


def test_a_code_location_with_an_azure_resource_is_built():
    resource = blob(AzureBlobStorageKeyCredential(key=KEY))
    assert build_defs(None, azure=resource).resources["azure"] is resource
    dg.Definitions.validate_loadable(build_defs(None, azure=resource))
