"""The settings of a command line on a sandbox."""

from __future__ import annotations

from pathlib import Path

from lakegc_dagster.sandbox import Sandbox


def settings_on(sandbox: Sandbox, folder: Path, settings: str) -> dict[str, str]:
    """Write `lakegc.toml` and return the variables that name it and the keys.

    Args:
        sandbox: A running one.
        folder: Where the file is written.
        settings: Its text, with `{endpoint}` and `{blockstore}`.
    """
    config = folder / "lakegc.toml"
    config.write_text(settings.format(endpoint=sandbox.endpoint, blockstore=sandbox.blockstore))
    return {
        "LAKEGC_ACCESS_KEY_ID": sandbox.access_key_id,
        "LAKEGC_SECRET_ACCESS_KEY": sandbox.secret_access_key,
        "LAKEGC_CONFIG": str(config),
    }
