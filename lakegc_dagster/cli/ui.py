"""The command `ui`: Dagster's UI on the repositories of the settings."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from spark_core.cli.common import command_body, read_settings


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=3000,
    show_default=True,
    help="Port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of this machine to listen on. The UI has no login: whoever reaches it can start "
    "runs, also sweeps. It answers for this address, for loopback, and for `hosts` of [ui] in the "
    "settings.",
)
@click.option(
    "--sandbox", is_flag=True, help="Serve the demo's sandbox as well, while the UI is open."
)
@command_body
def ui(config: Path | None, port: int, host: str, *, sandbox: bool) -> int:
    """Open Dagster's UI on the repositories of the settings; Ctrl-C ends it.

    \b
    Examples:
      lakegc ui
      lakegc ui --sandbox
      lakegc ui --port 3001 --config /etc/lakegc.toml
      lakegc ui --host 0.0.0.0
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from lakegc_dagster.demo import sandbox as demo_sandbox
    from lakegc_dagster.launch import ui as dagster_ui
    from spark_core.terminal import console

    if sandbox and config is None:
        config = demo_sandbox.settings_file(demo_sandbox.DIRECTORY)
        if not demo_sandbox.is_ours(demo_sandbox.DIRECTORY):
            from lakegc_dagster.demo.tour import make_history

            make_history(demo_sandbox.DIRECTORY)
    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        if sandbox:
            shown.print(
                f"sandbox  {settings.server.endpoint}  (keys: {settings.server.credentials_file})",
                markup=False,
            )
        if not dagster_ui.is_loopback(host):
            shown.print(
                f"The UI has no login. Whoever reaches port {port} of {host} can start runs, also "
                "sweeps: put a proxy with a login before it, or a firewall. Names by which people "
                "reach it belong to `hosts` of [ui] in lakegc.toml; others are refused.",
                style="yellow",
                markup=False,
                soft_wrap=True,
            )
        where = f"[{host}]" if ":" in host else host
        shown.print(f"UI       http://{where}:{port}  (Ctrl-C ends it)\n", markup=False)
        dagster_ui.serve(settings, port, host)
    return 0
