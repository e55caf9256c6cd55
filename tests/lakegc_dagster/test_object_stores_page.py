"""What docs/object-stores.md says of the settings is true of the settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from spark_core.settings import load_settings
from spark_core.settings.sections import RepositorySettings
from spark_core.settings.server_and_storage import StorageSettings

PAGE = (Path(__file__).parents[2] / "docs" / "object-stores.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_of_the_page_is_a_valid_settings_file(block, tmp_path):
    file = tmp_path / "lakegc.toml"
    file.write_text(
        f'{block}\n[server]\nendpoint = "https://lakefs.example.com"\n[repositories.one]\n'
    )
    settings = load_settings(file, env={})
    said = tomllib.loads(block)
    for name, value in said.get("storage", {}).items():
        assert getattr(settings.storage, name) == value
    for name, value in said.get("defaults", {}).items():
        assert getattr(settings.repository("one"), name) == value
    settings.store_options()


def test_every_setting_that_the_page_names_exists_and_every_one_of_a_store_is_named():
    named = set(
        re.findall(r"`((?:s3|azure|gcs|local|server|max|allow|connect|read)_[a-z0-9_]+)`", PAGE)
    )
    known = StorageSettings.model_fields.keys() | RepositorySettings.model_fields.keys()
    assert named - known == set()
    ours = {
        name
        for name in StorageSettings.model_fields
        if name.startswith(("s3_", "azure_", "gcs_", "local_"))
    }
    assert ours - named == set()
