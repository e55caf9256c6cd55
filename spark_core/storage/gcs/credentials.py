"""Which of this machine's Google credentials go along when a store is sent to other machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_core.errors import SettingsError
from spark_core.json_and_toml import read_json
from spark_core.storage.options import StoreOptions

_GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
# The file that `gcloud auth application-default login` writes.
_GCLOUD_FILE = ".config/gcloud/application_default_credentials.json"
# Kinds of Google credential files that are complete. The others name something on this machine.
_GOOGLE_WHOLE = ("service_account", "authorized_user")


def credentials_to_carry(options: StoreOptions, env: Mapping[str, str]) -> dict[str, Any]:
    """Find the key file of this machine, and return its content for another machine.

    Returns:
        Values by the names of `StoreOptions`.

    Raises:
        SettingsError: If the file that settings or environment name cannot be read.
    """
    if options.gcs_service_account_key:
        return {}
    named = options.gcs_service_account_file or env.get(_GOOGLE_FILE)
    path = Path(named) if named else Path.home() / _GCLOUD_FILE
    if not named and not path.exists():
        return {}
    try:
        content = path.read_text()
        kind = read_json(content).get("type")
    except (OSError, ValueError, AttributeError) as problem:
        # The decoder's own words would quote the file.
        reason = problem.strerror if isinstance(problem, OSError) else "it is not a JSON object"
        raise SettingsError(
            f"the Google credentials file {path} cannot be read ({reason})",
            f"Correct gcs_service_account_file or {_GOOGLE_FILE}.",
        ) from None
    if kind not in _GOOGLE_WHOLE:
        return {}
    return {"gcs_service_account_file": None, "gcs_service_account_key": content}
