"""A missing library is one sentence that names the extra; pyproject.toml has the same extras."""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from spark_core import extras
from spark_core.addresses.namespace import Namespace
from spark_core.doctor.credentials import credential_source
from spark_core.errors import SettingsError
from spark_core.report import chart
from spark_core.storage import StoreOptions, open_store

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def without(monkeypatch):
    """Hide libraries, and forget what had imported them."""

    def hide(modules, package=""):
        for name in modules:
            monkeypatch.setitem(sys.modules, name, None)
        for name in [name for name in sys.modules if package and name.startswith(package)]:
            monkeypatch.delitem(sys.modules, name)

    return hide


@pytest.mark.parametrize(
    ("scheme", "extra", "module", "namespace"),
    [
        ("s3", "s3", "boto3", "s3://bucket/ns"),
        ("azure", "azure", "azure.identity", "https://account.blob.core.windows.net/box/ns"),
        ("gcs", "gcs", "google.cloud.storage", "gs://bucket/ns"),
    ],
)
def test_a_store_without_its_libraries_names_the_extra(without, scheme, extra, module, namespace):
    without([module], f"spark_core.storage.{scheme}.")
    without([], f"spark_core.storage.{scheme}")
    with pytest.raises(SettingsError) as told:
        open_store(Namespace.parse(namespace), StoreOptions())
    assert re.fullmatch(
        rf"Namespaces \S+( Azure)? need {module}, not installed here\. On every machine that runs "
        rf'lakegc: pip install "\$\(echo lakegc-\*\.whl\)\[{extra}\]", beside its wheel '
        r"\(`make wheels`\)\.",
        str(told.value),
    )


def test_every_absent_library_of_an_extra_is_named(without):
    without(["azure.identity", "azure.storage.blob"])
    with pytest.raises(SettingsError, match=r"need azure\.identity and azure\.storage\.blob, not"):
        extras.require("azure", "Namespaces of Azure")


def test_the_doctor_names_the_extra_of_s3(without):
    without(["boto3"])
    with pytest.raises(SettingsError, match=r"lakegc-\*\.whl\)\[s3\]"):
        credential_source("s3", StoreOptions())


def test_a_picture_without_matplotlib_names_the_extra(without):
    without(["matplotlib"])
    with pytest.raises(SettingsError, match=r"^Pictures of a report need .*\[charts\]"):
        chart(None)


def test_a_certificate_without_cryptography_names_the_extra(without):
    without(["cryptography"], "spark_core.certificate")
    with pytest.raises(SettingsError, match=r"^Certificates need .*\[certificate\]"):
        import_module("spark_core.certificate.issue")


def test_a_cluster_with_the_engine_alone_installs_extras_of_the_engine(without, monkeypatch):
    def version(name):
        if name != "lakegc-engine":
            raise extras.PackageNotFoundError(name)

    monkeypatch.setattr(extras, "version", version)
    without(["matplotlib"])
    with pytest.raises(SettingsError, match=r"lakegc_engine-\*\.whl\)\[charts\]"):
        extras.require("charts", "Pictures")


def test_what_is_installed_needs_no_sentence():
    for extra in get_args(extras.Extra):
        extras.require(extra, "Tests")


def test_the_extras_are_those_of_the_project_and_all_has_each():
    declared = PROJECT["optional-dependencies"]
    # The platform has Spark where the engine is alone; lakegc always brings it.
    named = set(get_args(extras.Extra)) - {"spark"}
    assert declared.keys() - {"all", "dev", "docs"} == named
    assert declared["all"] == [f"lakegc[{','.join(sorted(named))}]"]
    assert "lakegc[all]" in declared["dev"]
