"""Spark Connect: where its address is kept, and what is said before Spark would try for minutes."""

import builtins
import socket

import pytest

from spark_core.errors import SettingsError
from spark_core.spark import connect
from spark_core.spark.connect import (
    choose_remote,
    chosen_remote,
    is_remote,
    remote_config,
    require_connect,
)


@pytest.fixture(autouse=True)
def _no_address(monkeypatch):
    # Set first, so that what a test leaves behind is taken back.
    monkeypatch.setenv("SPARK_REMOTE", "")
    monkeypatch.delenv("SPARK_REMOTE")
    for name in (*connect._PROXIES, *connect._upper(connect._PROXIES)):
        monkeypatch.delenv(name, raising=False)


def test_the_address_with_its_token_is_no_property_that_somebody_could_show():
    address = "sc://spark.example.com:443/;token=S3CRET"
    choose_remote(address)
    choose_remote(None)
    properties = remote_config({"spark.sql.session.timeZone": "Asia/Tokyo"})
    assert chosen_remote() == address
    assert "S3CRET" not in str(properties)
    assert properties["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert "spark.master" not in properties


@pytest.mark.parametrize("port", ["", ":PORT", ":PORT/;use_ssl=true;token=S3CRET"])
def test_a_server_that_takes_no_connections_is_named_at_once_without_its_token(port, monkeypatch):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        free = found.getsockname()[1]
    monkeypatch.setattr(connect, "_PORT", free)
    address = f"sc://127.0.0.1{port}".replace("PORT", str(free))
    with pytest.raises(SettingsError, match=f"takes connections at 127.0.0.1:{free}") as refused:
        require_connect(address)
    assert "S3CRET" not in str(refused.value)


def test_a_server_that_listens_and_one_behind_a_proxy_are_not_refused(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"sc://127.0.0.1:{server.getsockname()[1]}"
        require_connect(address)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    require_connect(address)


def test_a_missing_library_is_one_sentence_that_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *some):
        if name.startswith("pyspark.sql.connect"):
            raise ImportError("grpcio-status >= 1.48.1 must be installed")
        return real(name, *some)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingsError, match=r"grpcio-status .*lakegc-.*\[connect\]"):
        require_connect("sc://127.0.0.1")


def test_a_session_is_known_by_its_class():
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    assert is_remote(connect)
    assert not is_remote(object())
