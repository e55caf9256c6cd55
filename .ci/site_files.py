"""A hook of mkdocs: the files of deploy/ that pages link to are part of the site, below deploy/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
# A page names a file of deploy/ as it lies beside docs/, so that the link works in a checkout, too.
_LINK = re.compile(r"\]\((?:\.\./)+deploy/")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the files, without which a link to one of them would lead nowhere."""
    from mkdocs.structure.files import File

    for path in sorted((_ROOT / "deploy").rglob("*")):
        if path.is_file():
            name = path.relative_to(_ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Let links to them lead into the site."""
    above = "../" * page.file.src_uri.count("/")
    return _LINK.sub(f"]({above}deploy/", markdown)
