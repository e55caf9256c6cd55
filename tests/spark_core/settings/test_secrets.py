"""Which settings are secret, and that no way out shows one."""

import pytest

from spark_core.errors import SettingsError
from spark_core.settings import Settings, load_settings
from spark_core.settings.secrets import HIDDEN, is_secret, shown, without_secrets

SECRET = (
    "spark.authenticate.secret", "spark.ssl.keyPassword", "spark.ssl.keyStorePassword",
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY", "spark.executorEnv.AWS_ACCESS_KEY_ID",
    "spark.executorEnv.AZURE_STORAGE_KEY", "spark.executorEnv.AZURE_STORAGE_SAS_TOKEN",
    "fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token", "fs.s3a.encryption.key",
    "fs.s3a.server-side-encryption.key", "fs.s3a.bucket.one.encryption.key",
    "fs.azure.account.key.acct.dfs.core.windows.net", "fs.azure.sas.c.acct.blob.core.windows.net",
    "fs.azure.sas.fixed.token.acct.dfs.core.windows.net", "fs.azure.account.oauth2.client.secret",
    "fs.gs.auth.service.account.private.key", "fs.gs.auth.service.account.private.key.id",
    "AZURE_STORAGE_CONNECTION_STRING", "awsAccessKeyId", "api-key", "apiKey", "PGPASSWORD",
    "Authorization", "BEARER", "PGPASS", "ssl.server.keystore.pass", "dfs.adls.oauth2.credential",
    "access_key_id", "s3_secret_access_key", "account_key",
)  # fmt: skip
PLAIN = (
    "spark.authenticate", "spark.authenticate.secret.file", "spark.ssl.keyStore",
    "spark.ssl.keyStoreType",
    "spark.kubernetes.authenticate.driver.oauthTokenFile", "spark.kerberos.keytab",
    "spark.sql.mapKeyDedupPolicy", "spark.io.encryption.keySizeBits", "spark.sasl.enabled",
    "fs.s3a.aws.credentials.provider", "hadoop.security.key.provider.path",
    "fs.azure.account.auth.type", "spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS",
    "proxy.bypass",
    "token_file", "token_command", "credentials_file", "client_key", "webhook_secret_env",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_holds_a_secret_is_known(name):
    assert is_secret(name)
    assert shown(name, "hush") == HIDDEN
    assert shown("config", {name: "hush"}) == {name: HIDDEN}
    assert shown("arguments", ["--conf", f"{name}=hush"]) == ["--conf", f"{name}={HIDDEN}"]
    assert without_secrets({"spark": {"config": {name: "hush"}}}) == {"spark": {"config": {}}}


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_only_says_where_one_is_or_has_nothing_to_do_with_it_is_shown(name):
    assert not is_secret(name)
    assert shown(name, "plain") == "plain"


def test_no_setting_of_lakegc_itself_is_one():
    settings = Settings.model_validate({"server": {"endpoint": "http://127.0.0.1:9"}})
    for _, table in settings:
        assert not [name for name in getattr(type(table), "model_fields", ()) if is_secret(name)]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("spark://h:7077?token=hush", "spark://h:7077?token=(hidden)"),
        ("sc://h:15002/;user_id=hush;token=hush", "sc://h:15002/;(hidden)"),
        ("-Da=b -Djavax.net.ssl.keyStorePassword=hush", None),
        ("https://user:hush@host/x", "https://user:(hidden)@host/x"),
        ("https://a.blob/b?sv=1&sig=hush&x=2", "https://a.blob/b?sv=1&sig=(hidden)&x=2"),
        ('{"routing_key": "hush", "secret": $secret, "text": $text}', None),
        ("curl -H 'Authorization: Bearer hush' x", "curl -H 'Authorization: (hidden)' x"),
        ("-Da='b' --conf password='hush'", "-Da='b' --conf password=(hidden)'"),
        ("{'client_secret': 'hush'}", "{'client_secret': '(hidden)'}"),
        ("k8s://https://1.2.3.4:443", "k8s://https://1.2.3.4:443"),
        ("arn:aws:sns:eu-west-1:1:secret-topic", "arn:aws:sns:eu-west-1:1:secret-topic"),
    ],
)
def test_a_secret_in_the_text_of_another_setting_is_hidden(value, wanted):
    found = shown("anything", value)
    assert found == (wanted or value.replace("hush", HIDDEN))
    assert (without_secrets({"anything": value}) == {}) == (HIDDEN in found)


@pytest.mark.parametrize(
    "master", ["spark://h:7077?token=hush", "spark://h:7077;token=hush", "sc://h?token=hush"]
)
def test_a_master_that_would_be_quoted_with_its_token_is_refused_without_it(master):
    env = {"LAKEGC__SERVER__ENDPOINT": "http://127.0.0.1:9", "LAKEGC__SPARK__MASTER": master}
    with pytest.raises(SettingsError, match="wanted a Spark master") as raised:
        load_settings(env=env)
    assert "hush" not in str(raised.value)


def test_repositories_and_storages_have_any_name(tmp_path):
    (tmp_path / "file").write_text(
        '[server]\nendpoint = "http://127.0.0.1:9"\n[repositories.token-key]\nmode = "mark"\n'
        "[repositories.secret]\n"
    )
    assert load_settings(tmp_path / "file", env={}).repository_ids == ("token-key", "secret")
