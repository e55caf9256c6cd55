"""The server behind a proxy, an authority of one's own, and a demand for a client's certificate."""

from __future__ import annotations

import json
import traceback
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization

from spark_core.errors import LakegcError, SettingsError, TransientError
from spark_core.lakefs import LakeFSServer, ServerOptions
from spark_core.lakefs.proxies import Proxy, proxy_of
from tests.support.authority import Authority
from tests.support.forward_proxy import forward_proxy
from tests.support.scripted_s3 import Answer, scripted_s3

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
HOST = "lakefs.internal"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.in_folder(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    return Authority.in_folder(tmp_path_factory.mktemp("strangers"))


def version(_request):
    body = json.dumps({"version": "1.84.0"}).encode()
    return Answer(200, body, {"Content-Type": "application/json"})


@pytest.fixture(scope="module")
def secure(authority):
    """A server with a certificate of the authority, and its port."""
    certificate = authority.server(HOST, "127.0.0.1")
    with scripted_s3(version, certificate=certificate) as endpoint:
        yield endpoint


@pytest.fixture
def through(secure):
    with forward_proxy({HOST: urlsplit(secure).port}) as proxy:
        yield proxy


def ask(endpoint, **options):
    seconds = timedelta(seconds=3)
    asked = ServerOptions(
        endpoint, "AKIAKEY0123", "SECRET0123", tries=1, connect_timeout=seconds, **options
    )
    return LakeFSServer(asked).version()


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_the_proxy_of_the_environment_is_used(through, authority, monkeypatch, variable):
    monkeypatch.setenv(variable, through.url)
    assert ask(f"https://{HOST}", ca_certificate=str(authority.certificate)) == "1.84.0"
    assert through.passed == [f"CONNECT {HOST}:443"]


def test_a_server_without_tls_is_reached_through_http_proxy(monkeypatch):
    with (
        scripted_s3(version) as plain,
        forward_proxy({HOST: urlsplit(plain).port}) as proxy,
    ):
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert ask(f"http://{HOST}:8000") == "1.84.0"
        assert proxy.passed == [f"GET {HOST}:8000"]


def test_a_proxy_may_demand_a_log_in_and_its_password_is_never_shown(
    secure, authority, monkeypatch
):
    trusted = str(authority.certificate)
    with forward_proxy({HOST: urlsplit(secure).port}, user="me:pa ss") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("pa ss", "pa%20ss"))
        assert ask(f"https://{HOST}", ca_certificate=trusted) == "1.84.0"
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("pa ss", "hush"))
        with pytest.raises(
            TransientError, match=r"the proxy gives no connection.*407.*Look at HTTPS_PROXY"
        ) as refused:
            ask(f"https://{HOST}", ca_certificate=trusted)
    assert "hush" not in "".join(traceback.format_exception(refused.value))
    assert "hush" not in repr(proxy_of(f"https://{HOST}"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://proxy.invalid:3128", "Failed to resolve 'proxy.invalid'"),
    ],
)
def test_a_proxy_that_is_not_there_is_told_apart_from_a_server_that_is_not(monkeypatch, url, why):
    monkeypatch.setenv("HTTPS_PROXY", url)
    with pytest.raises(TransientError, match=f"the proxy gives no connection to .*{why}"):
        ask(f"https://{HOST}")


def test_a_proxy_that_knows_no_way_to_the_server_says_so(through, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", through.url)
    with pytest.raises(TransientError, match=r"no connection to https://other.internal .*502"):
        ask("https://other.internal")


def test_no_proxy_goes_past_it(through, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", through.url)
    monkeypatch.setenv("NO_PROXY", ".internal")
    with pytest.raises(TransientError, match=f"no server answers at https://{HOST}"):
        ask(f"https://{HOST}")
    assert through.passed == []


def test_loopback_is_never_asked_of_a_proxy(secure, authority, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert ask(secure, ca_certificate=str(authority.certificate)) == "1.84.0"


@pytest.mark.parametrize(
    ("no_proxy", "host", "is_used"),
    [
        ("", "lakefs.example.com", True),
        ("lakefs.example.com", "lakefs.example.com", False),
        ("example.com", "lakefs.example.com", False),
        (".example.com", "lakefs.example.com", False),
        ("ample.com", "lakefs.example.com", True),
        ("other.com, lakefs.example.com:8000", "lakefs.example.com:8000", False),
        ("*", "lakefs.example.com", False),
        ("10.0.0.0/8", "10.1.2.3", False),
        ("10.0.0.0/8", "11.1.2.3", True),
        ("10.0.0.0/99,fd00::/8", "[fd00::1]", False),
        ("", "localhost", False),
        ("", "127.9.9.9", False),
        ("", "[::1]", False),
        ("", "localhost.example.com", True),
    ],
)
def test_which_servers_are_reached_through_a_proxy(monkeypatch, no_proxy, host, is_used):
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    found = proxy_of(f"https://{host}/api/v1")
    assert found == (Proxy("http://proxy.example.com:3128", {}) if is_used else None)


@pytest.mark.parametrize("url", ["socks5://me:hush@proxy:1080", "http://", "ftp://proxy"])
def test_a_proxy_that_speaks_no_http_is_refused(monkeypatch, url):
    monkeypatch.setenv("HTTPS_PROXY", url)
    with pytest.raises(SettingsError, match="names no proxy that speaks HTTP") as refused:
        proxy_of(f"https://{HOST}")
    assert "hush" not in str(refused.value)


def test_an_authority_of_ones_own_has_to_be_named(secure, authority, strangers):
    assert ask(secure, ca_certificate=str(authority.certificate)) == "1.84.0"
    for trusted in (None, str(strangers.certificate)):
        with pytest.raises(SettingsError, match=r"CERTIFICATE_VERIFY_FAILED.*as ca_certificate"):
            ask(secure, ca_certificate=trusted)


@pytest.fixture(scope="module")
def strict(authority):
    """A server that serves clients with a certificate of the authority alone."""
    with scripted_s3(
        version,
        certificate=authority.server("127.0.0.1"),
        clients_of=authority.certificate,
    ) as endpoint:
        yield endpoint


def test_a_client_shows_its_certificate_from_one_file_or_two(strict, authority, tmp_path):
    trusted, own = str(authority.certificate), authority.client()
    assert ask(strict, ca_certificate=trusted, client_certificate=str(own)) == "1.84.0"
    key, _, certificate = own.read_text().partition("-----BEGIN CERTIFICATE")
    (tmp_path / "key").write_text(key)
    (tmp_path / "certificate").write_text(f"-----BEGIN CERTIFICATE{certificate}")
    two = {
        "client_certificate": str(tmp_path / "certificate"),
        "client_key": str(tmp_path / "key"),
    }
    assert ask(strict, ca_certificate=trusted, **two) == "1.84.0"


def test_a_server_that_demands_a_certificate_of_its_clients_says_what_to_set(
    strict, authority, strangers
):
    trusted = str(authority.certificate)
    # The server's reason comes before or after the end of the connection, as it happens.
    for own in (None, str(strangers.client())):
        with pytest.raises(LakegcError, match=r"name yours as client_certificate|broke off"):
            ask(strict, ca_certificate=trusted, client_certificate=own)


def test_a_key_with_a_password_is_refused_and_not_asked_for(strict, authority, tmp_path):
    own = authority.client().read_bytes()
    key = serialization.load_pem_private_key(own, None)
    sealed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(b"hush"),
    )
    file = tmp_path / "sealed.pem"
    file.write_bytes(sealed + own[own.index(b"-----BEGIN CERTIFICATE") :])
    with pytest.raises(SettingsError, match="key is encrypted"):
        ask(strict, ca_certificate=str(authority.certificate), client_certificate=str(file))


@pytest.mark.parametrize("name", ["ca_certificate", "client_certificate", "client_key"])
def test_a_file_of_certificates_that_is_not_there_is_named(authority, name):
    files = {"client_certificate": str(authority.certificate), name: "/no/such.pem"}
    with pytest.raises(SettingsError, match=rf"{name} /no/such.pem cannot be read \(No such file"):
        ask("https://127.0.0.1:1", **files)


def test_a_key_without_its_certificate_is_refused(authority):
    with pytest.raises(SettingsError, match="client_key is set and client_certificate is not"):
        ask("https://127.0.0.1:1", client_key=str(authority.certificate))
