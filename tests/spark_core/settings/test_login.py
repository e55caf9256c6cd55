"""How to log in: the key pair of the environment, else the one way that `[server]` names."""

from datetime import timedelta

import pytest

from spark_core.errors import SettingsError
from spark_core.lakefs.aws_role import TokenOfAwsRole
from spark_core.lakefs.tokens import TokenInFile, TokenOfCommand
from spark_core.settings import load_settings
from spark_core.settings.server_and_storage import LOGINS

ENDPOINT = "https://lakefs.example.com/api/v1"
KEYS = {"LAKEGC_ACCESS_KEY_ID": "key", "LAKEGC_SECRET_ACCESS_KEY": "hush"}
ROLE = TokenOfAwsRole((("X-LakeFS-Server-ID", "lakefs.example.com"),))
# Each way to log in, as a line of the settings.
LINES = {
    "credentials_file": 'credentials_file = "keys"',
    "token_file": 'token_file = "token"',
    "token_command": 'token_command = ["vault", "read", "-field=token", "lakefs"]',
    "aws_iam": "aws_iam = true",
}


@pytest.fixture
def options(tmp_path):
    """Options of a server by the lines of its table, an environment, and a credentials file."""

    def read(*lines, env=None, keys=None):
        if keys is not None:
            (tmp_path / "keys").write_text(keys)
            lines = (LINES["credentials_file"], *lines)
        file = tmp_path / "lakegc.toml"
        file.write_text("\n".join(['[server]\nendpoint = "%s"' % ENDPOINT, *lines]))  # noqa: UP031
        return load_settings(file, env or {}).server_options()

    return read


def pair(options):
    assert options.token is None
    return options.access_key_id, options.secret_access_key


def test_each_way_that_the_table_may_name_is_taken(options, tmp_path):
    assert options(LINES["token_file"]).token == TokenInFile(str(tmp_path / "token"))
    assert options(LINES["token_command"]).token == TokenOfCommand(
        ("vault", "read", "-field=token", "lakefs")
    )
    assert options(LINES["aws_iam"]).token == ROLE
    assert LINES.keys() == set(LOGINS)


def test_a_log_in_as_an_aws_identity_takes_its_headers(options):
    found = options("aws_iam = true", 'aws_iam_headers.X-A = "b"')
    assert found.token == TokenOfAwsRole((("X-A", "b"),), timedelta(hours=1))


@pytest.mark.parametrize("first", LINES)
@pytest.mark.parametrize("second", LINES)
def test_two_ways_at_once_are_refused_in_one_sentence(options, first, second):
    if LOGINS.index(first) >= LOGINS.index(second):
        return
    with pytest.raises(
        SettingsError, match=f"wanted one way to log in, and there are {first} and {second}"
    ) as refused:
        options(LINES[first], LINES[second], env=KEYS)
    assert str(refused.value).count(". ") == 0


@pytest.mark.parametrize("way", LINES)
def test_the_key_pair_of_the_environment_wins_over_what_the_table_names(options, way):
    assert pair(options(LINES[way], env=KEYS)) == ("key", "hush")


def test_a_way_may_come_from_the_environment(options):
    env = {"LAKEGC__SERVER__TOKEN_COMMAND": '["vault", "token"]'}
    assert options(env=env).token == TokenOfCommand(("vault", "token"))
    with pytest.raises(SettingsError, match="LAKEGC__SERVER__TOKEN_FILE: server: wanted one way"):
        options(LINES["aws_iam"], env={"LAKEGC__SERVER__TOKEN_FILE": "token"})


def test_a_token_itself_is_no_setting(options):
    for line in ('token = "hush"', 'bearer_token = "hush"'):
        with pytest.raises(
            SettingsError, match=r"is a secret.*token_file or token_command"
        ) as refused:
            options(line)
        assert "hush" not in str(refused.value)


def test_certificates_of_the_server_start_at_the_settings_file(options, tmp_path):
    found = options('client_certificate = "me.pem"', 'client_key = "me.key"', env=KEYS)
    assert (found.client_certificate, found.client_key) == (
        str(tmp_path / "me.pem"),
        str(tmp_path / "me.key"),
    )


LAKECTL_KEYS = "credentials:\n  access_key_id: AKIA1\n  secret_access_key: s3cr3t/+=\n"
LAKECTL_ROLE = "credentials:\n  provider:\n    type: aws_iam\n"


@pytest.mark.parametrize(
    "text",
    [
        LAKECTL_KEYS,
        f"{LAKECTL_KEYS}server:\n  endpoint_url: http://x\n  retries:\n    enabled: true\n",
        f"---\n# written by lakectl config\n{LAKECTL_KEYS}metastore:\n  type: hive\n",
        "Credentials:\n  Access_Key_ID: \"AKIA1\"\n  SECRET_ACCESS_KEY: 's3cr3t/+='\n",
        "credentials.access_key_id: AKIA1\ncredentials.secret_access_key: s3cr3t/+=\n",
        "credentials: {access_key_id: AKIA1, secret_access_key: s3cr3t/+=}",
        '{"credentials": {"access_key_id": "AKIA1", "secret_access_key": "s3cr3t/+="}}',
        "credentials:\n  access_key_id: &id AKIA1\n  secret_access_key: >-\n    s3cr3t/+=\n",
        f"{LAKECTL_KEYS}  provider:\n    type: aws_iam\n",
    ],
)
def test_lakectls_file_is_read_in_each_form_that_lakectl_takes(options, text):
    assert pair(options(keys=text)) == ("AKIA1", "s3cr3t/+=")


@pytest.mark.parametrize(
    ("text", "token"),
    [
        (LAKECTL_ROLE, ROLE),
        ('credentials:\n  access_key_id: ""\n  provider.type: aws_iam\n', ROLE),
        (
            (
                f"{LAKECTL_ROLE}    aws_iam:\n      token_ttl_seconds: 1h30m\n"
                "      url_presign_ttl_seconds: 30s\n      refresh_interval: 5m\n"
            ),
            TokenOfAwsRole(ROLE.headers, timedelta(minutes=90), timedelta(seconds=30)),
        ),
        (
            (
                f"{LAKECTL_ROLE}    aws_iam:\n      token_ttl_seconds: 7200\n"
                "      token_request_headers:\n        X-Mine: Yes it is\n        X-Two: b\n"
            ),
            TokenOfAwsRole((("X-Mine", "Yes it is"), ("X-Two", "b")), timedelta(hours=2)),
        ),
        (
            f"{LAKECTL_ROLE}    aws_iam:\n      token_request_headers: X-Mine=a, X-Two = b=c\n",
            TokenOfAwsRole((("X-Mine", "a"), ("X-Two", "b=c"))),
        ),
    ],
)
def test_lakectls_file_may_name_the_log_in_by_aws_identity(options, text, token):
    assert options(keys=text).token == token


def test_variables_of_lakectl_win_over_its_file_as_they_do_for_lakectl(options):
    env = {
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIA2",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "other",
    }
    for text in (LAKECTL_KEYS, LAKECTL_ROLE, "server:\n  endpoint_url: http://x\n"):
        assert pair(options(keys=text, env=env)) == ("AKIA2", "other")
    role = {"LAKECTL_CREDENTIALS_PROVIDER_TYPE": "aws_iam"}
    found = options(keys="server:\n  endpoint_url: http://x\n", env=role)
    assert found.token == ROLE
    life = {"LAKECTL_CREDENTIALS_PROVIDER_AWS_IAM_TOKEN_TTL_SECONDS": "600s"}
    assert options(keys=LAKECTL_ROLE, env=life).token.life == timedelta(minutes=10)
    # A file that is not lakectl's is nobody's but ours.
    ours = "access_key_id: AKIA1\nsecret_access_key: s3cr3t/+=\n"
    assert pair(options(keys=ours, env=env)) == ("AKIA1", "s3cr3t/+=")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "credentials:\n  access_key_id: 0123\n  secret_access_key: hush\n",
            "access_key_id .* is no text. Put it into quotation marks",
        ),
        ("credentials:\n  provider:\n    type: hush_iam\n", "is not aws_iam, the only log-in"),
        (f"{LAKECTL_ROLE}    aws_iam:\n      token_ttl_seconds: soon\n", "'soon', wanted a time"),
        (f"{LAKECTL_ROLE}    aws_iam:\n      token_ttl_seconds: 0\n", "wanted a time like 3600"),
        (f"{LAKECTL_ROLE}    aws_iam:\n      url_presign_ttl_seconds: 9999h\n", "at most seven"),
        (f"{LAKECTL_ROLE}    aws_iam:\n      token_request_headers: [hush]\n", "no table of texts"),
        ("credentials:\n\taccess_key_id: hush\n", "is no YAML, JSON, TOML or INI"),
        ("server:\n  endpoint_url: http://x\n", "0 access_key_id and 0 secret_access_key"),
    ],
)
def test_a_file_that_lakectl_would_not_take_either_is_refused_without_being_quoted(
    options, text, refusal
):
    with pytest.raises(SettingsError, match=refusal) as refused:
        options(keys=text)
    assert "hush" not in str(refused.value)
    assert refused.value.__cause__ is None
