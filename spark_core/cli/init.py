"""`lakegc init`: write the first settings file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import click

from spark_core.cli.common import RepositoryType, can_ask, command_body
from spark_core.errors import LakegcError, SettingsError
from spark_core.plain_text import visible

_LAKECTL = Path("~/.lakectl.yaml")


@click.command()
@click.option("--endpoint", metavar="URL", help="The lakeFS server; default: that of lakectl.")
@click.option(
    "--lakectl",
    "lakectl_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=_LAKECTL,
    show_default=True,
    help="File of lakectl, which says how to log in.",
)
@click.option(
    "--repository",
    "repositories",
    multiple=True,
    type=RepositoryType(),
    help="A repository to collect, or a pattern such as 'team-*'; may be repeated.",
)
@click.option(
    "--local-path",
    metavar="FOLDER",
    help="Where this machine sees the server's blockstore, if that is local.",
)
@command_body
def init(
    config: Path | None,
    endpoint: str | None,
    lakectl_file: Path,
    repositories: Sequence[str],
    local_path: str | None,
) -> int:
    """Write a settings file from lakectl's own, and ask for what that does not say.

    The file is the one of --config, else `./lakegc.toml`; one that is there is never written over.
    It holds no secret: it names the file of lakectl, or keys come from the environment. Every
    repository in it has the mode `mark`, which deletes nothing. Without a terminal nothing is
    asked, and the options say everything.

    \b
    Examples:
      lakegc init
      lakegc init --repository my-repo --repository 'team-*'
      lakegc init --endpoint https://lakefs.example.com --repository my-repo
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.lakefs.credentials_file import endpoint_in
    from spark_core.settings import FILE_NAME

    file = config or Path(FILE_NAME)
    if file.exists():
        raise SettingsError(
            f"{file} is there already",
            "Change it by hand (`lakegc config show` shows what counts), or name another with "
            "--config.",
        )
    asks = can_ask()
    known = lakectl_file.expanduser()
    endpoint = endpoint or endpoint_in(known, os.environ)
    if asks and not endpoint:
        endpoint = click.prompt("URL of the lakeFS server")
    if not endpoint:
        raise SettingsError(
            f"no server is named: {lakectl_file} does not name one, and nobody can be asked",
            "Give --endpoint URL.",
        )
    logs_in_by = lakectl_file if known.exists() else None
    if asks and not repositories:
        repositories = _asked_for_repositories(endpoint, logs_in_by)
    _write(file, _text(_plain(endpoint), logs_in_by, repositories, local_path))
    click.echo(f"wrote    {file}")
    click.echo(f"next     lakegc doctor --config {file}" if config else "next     lakegc doctor")
    return 0


def _asked_for_repositories(endpoint: str, logs_in_by: Path | None) -> list[str]:
    """Show the repositories of the server, where it answers, and ask which are collected."""
    from spark_core.lakefs import LakeFSServer
    from spark_core.settings import load_settings
    from spark_core.settings.file import Beside

    server = {"endpoint": endpoint} | (
        {"credentials_file": str(logs_in_by.expanduser().resolve())} if logs_in_by else {}
    )
    try:
        settings = load_settings(beside=Beside("lakegc init", {"server": server}))
        names = [each.id for each in LakeFSServer(settings.server_options()).repositories()]
        click.echo(visible(f"repositories of {endpoint}: {', '.join(names) or 'none'}"))
    except LakegcError as error:
        click.echo(
            visible(f"The server could not be asked for its repositories: {error.message}"),
            err=True,
        )
    words = click.prompt(
        "Which are collected (names or patterns, with spaces; none for later)", default=""
    )
    kind = RepositoryType()
    return [kind.convert(word, None, None) for word in words.replace(",", " ").split()]


def _plain(endpoint: str) -> str:
    """Return the server's URL without what lakectl's file has behind it."""
    return endpoint.rstrip("/").removesuffix("/api/v1")


def _text(
    endpoint: str, lakectl_file: Path | None, repositories: Sequence[str], local_path: str | None
) -> str:
    """Return the file; JSON's texts are TOML's, too."""
    from spark_core.settings.patterns import is_pattern

    lines = ["[server]", f"endpoint = {json.dumps(endpoint)}"]
    if lakectl_file is not None:
        path = lakectl_file if str(lakectl_file).startswith("~") else lakectl_file.resolve()
        lines.append(f"credentials_file = {json.dumps(str(path))}")
    if local_path is not None:
        lines += ["", "[storage]", f"local_path = {json.dumps(str(Path(local_path).resolve()))}"]
    lines += ["", "[defaults]", 'mode = "mark"  # finds what may go and deletes nothing']
    for name in repositories:
        lines += ["", f"[repositories.{json.dumps(name) if is_pattern(name) else name}]"]
    if not repositories:
        lines += ["", "# [repositories.my-repo]  # each that is collected has such a line"]
    return "\n".join(lines) + "\n"


def _write(file: Path, text: str) -> None:
    """Write a new file; nothing is left of one that lakegc could not read again.

    Raises:
        SettingsError: If it is there by now, or says what settings may not say.
    """
    from spark_core.settings import load_settings

    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise SettingsError(f"{file} is there already", "Name another with --config.") from None
    try:
        load_settings(file)
    except SettingsError:
        file.unlink()
        raise
