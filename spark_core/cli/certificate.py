"""`lakegc certificate` and `lakegc verify`: prove that something is gone, and check the proof."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_core.cli.act_document import Certified
from spark_core.cli.acting import acting, tell
from spark_core.cli.common import RepositoryType, RunKeyType, command_body, read_settings
from spark_core.errors import FAILED
from spark_core.plain_text import visible
from spark_core.whole_file import require_place, write_file

if TYPE_CHECKING:
    from rich.console import Console

    from spark_core.model import RunKey

_NAMED = 20


@click.command()
@click.argument("repository", type=RepositoryType())
@click.argument("run", metavar="RUN", type=RunKeyType())
@click.option(
    "--path",
    "prefix",
    metavar="PREFIX",
    help="Also state whether everything that ever had a path under PREFIX is gone.",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Sign with this ed25519 private key (PEM).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; default: lakegc-certificate-REPOSITORY-RUN.json.",
)
@acting
def certificate(
    config: Path | None,
    repository: str,
    run: RunKey,
    *,
    prefix: str | None,
    key: Path | None,
    out: Path | None,
) -> int:
    """Certify what the sweep of RUN deleted: by which rules, which commits, and by what proof.

    The certificate holds the verdict, the hashes of every table, the manifest of the deletion
    report, and the retention policy by which objects went although entries lead to them. It says
    "gone" only if quarantine holds none of it, nothing was restored, and versions and soft delete
    were read as off; otherwise it names what still holds the bytes. With --path it reads every
    commit of the repository and every branch, and says the same of each object under PREFIX.

    The exit code is 0 only if all that is certified is gone.

    \b
    Examples:
      lakegc certificate my-repo 2026-11-20T02-00-00Z
      lakegc certificate my-repo 2026-11-20T02-00-00Z --path people/4711/ --key key.pem
      openssl genpkey -algorithm ed25519 -out key.pem
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.certificate import content, issue, seal_and_signature
    from spark_core.stored_runs import open_known
    from spark_core.terminal import console

    if prefix == "":
        raise click.UsageError("--path needs a prefix; without --path the whole run is certified.")
    shown = console.console()
    target = out or Path(f"lakegc-certificate-{repository}-{run}.json")
    # A wrong place or key is refused before anything is read.
    require_place(target)
    signing = None if key is None else seal_and_signature.private_key(key)
    with ExitStack() as stack:
        opened = open_known(read_settings(config, stack), repository, run)
        made = seal_and_signature.sealed(issue.certificate(opened, prefix), signing)
    write_file(target, (json.dumps(made, indent=1, sort_keys=True) + "\n").encode())
    _show(shown, made)
    signed = "not signed (--key signs it)" if signing is None else "signed"
    shown.print(f"\nfile     {target}, {signed}", markup=False, soft_wrap=True)
    shown.print(f"check    lakegc verify {target}", markup=False, soft_wrap=True)
    path = made.get("path")
    is_gone = content.is_gone(made)
    said = None if path is None else str(path["statement"])
    tell(
        Certified(
            str(run), str(target), signing is not None, is_gone, str(made["statement"]), said
        ),
        f"lakegc verify {target}",
    )
    return 0 if is_gone else FAILED


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--public-key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The ed25519 public key (PEM) that must have signed it.",
)
@click.option(
    "--store", is_flag=True, help="Also read the store: tables, quarantine, versions, objects."
)
@command_body
def verify(config: Path | None, file: Path, public_key: Path | None, *, store: bool) -> int:
    """Check a certificate: digest, signature, and each field by the proof that FILE holds.

    Without --store nothing but FILE is read, and whoever made all of it anew is not found out. With
    --store the certificate is made anew from the store and compared field by field. Fields that
    were compared with nothing are named.

    A signature proves who signed only with --public-key. Without it, the key that FILE names is
    used, and anybody can have made that one.

    The exit code is 0 if nothing is wrong with FILE and, with --store, everything that it says
    still holds. It says nothing about whether FILE says "gone".

    \b
    Examples:
      lakegc verify lakegc-certificate-my-repo-2026-11-20T02-00-00Z.json
      lakegc verify certificate.json --public-key operator.pem
      lakegc verify certificate.json --store
    """  # noqa: D301 - as above
    from rich.markup import escape

    from spark_core.certificate import content, seal_and_signature
    from spark_core.terminal import console

    shown = console.console()
    trusted = (
        None
        if public_key is None
        else seal_and_signature.public_key(public_key.read_bytes(), str(public_key))
    )
    read = seal_and_signature.read_certificate(file.read_bytes(), str(file))
    wrong = seal_and_signature.faults(read, trusted)
    ways = []
    if store and not wrong:
        wrong, root = _differences(config, read)
        ways.append(f"store        {root} agrees")
        if wrong:
            wrong.append(
                "the file was edited, or this changed since it was issued: `lakegc certificate "
                f"{read['repository']} {read['run']}` says how it is now"
            )
    # That nobody signed it is said of a wrong one, too.
    if not wrong or read.get("signature") is None:
        shown.print(seal_and_signature.who_wrote(read, trusted), markup=False, soft_wrap=True)
    for fault in wrong[:_NAMED]:
        shown.print(f"[red]wrong[/red]    {escape(fault)}", soft_wrap=True)
    if len(wrong) > _NAMED:
        shown.print(f"... and {len(wrong) - _NAMED:,} more")
    if wrong:
        return FAILED
    _show(shown, read)
    left = content.uncovered(read, by_store=True)
    ways = ["seal         digest and chain are right", *ways, f"not covered  {', '.join(left)}"]
    if not store:
        more = sorted({*content.uncovered(read, by_store=False)} - {*left})
        ways.append(f"             and, without --store, {', '.join(more)}")
    shown.print("", *ways, sep="\n", markup=False, soft_wrap=True)
    return 0


def _differences(config: Path | None, read: dict[str, Any]) -> tuple[list[str], str]:
    """Compare a certificate with its store; return what differs, and the store's root."""
    from spark_core.certificate import issue, seal_and_signature
    from spark_core.model import RunKey
    from spark_core.stored_runs import open_known

    with ExitStack() as stack:
        settings = read_settings(config, stack)
        run = open_known(settings, read["repository"], RunKey.parse(read["run"]))
        return issue.differences(run, seal_and_signature.unsealed(read)), run.store.root


def _show(shown: Console, made: dict[str, Any]) -> None:
    from spark_core.terminal import console

    # As above.
    shown.print(visible(made["statement"]), markup=False, soft_wrap=True)
    path = made.get("path")
    if path is None:
        return
    shown.print(visible(path["statement"]), markup=False, soft_wrap=True)
    left = [each for each in path["objects"] if not each["gone"]]
    if left:
        paths: dict[str, list[str]] = {}
        for each in left:
            paths.setdefault("; ".join(each["held_by"]), []).append(each["path"])
        most = sorted(paths.items(), key=lambda held: -len(held[1]))
        rows = [
            (visible(held_by), f"{len(some):,}", visible(some[0]))
            for held_by, some in most[:_NAMED]
        ]
        shown.print(console.table("Not gone", ("what holds it", "objects", "for example"), rows))
        if len(paths) > _NAMED:
            more = len(left) - sum(len(some) for _, some in most[:_NAMED])
            shown.print(f"... and {more:,} more objects")
        shown.print("The file names each object.")
