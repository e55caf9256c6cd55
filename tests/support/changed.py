"""Which tests a change can touch: by what they import, by the guards' table, and by name.

`make test ARGS=--changed` runs those. A test file is touched if it, or what it imports from this
project, changed; if a row of `guards.toml` names it for a file that changed; and if it names a
changed file that is no module, such as a page. A name that a package only passes on leads to the
module that has it, not to the whole package. What is imported by a string, and what a process that
a test starts imports beyond the test's own imports, is not seen: before a merge, run everything.
"""

from __future__ import annotations

import ast
import subprocess
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TOPS = ("spark_core", "lakegc_dagster", "tests", "benchmarks")
# A change of one of these is a change of everything.
_OF_ALL = {"pyproject.toml", "constraints.txt", "tests/conftest.py"}


def changed_files(base: str, root: Path = ROOT) -> set[str]:
    """Ask git what differs from a commit: paths in the tree, those not yet added too.

    Args:
        base: A commit, a branch or a tag; what it has and the present branch lacks is left out.
        root: Of the working tree.

    Raises:
        ValueError: If git does not know it.
    """
    fork = _git(root, "merge-base", "HEAD", base)
    if not fork:
        raise ValueError(f"git knows no {base!r} that the present branch comes from")
    changed = _git(root, "diff", "--name-only", fork[0])
    return {*changed, *_git(root, "ls-files", "--others", "--exclude-standard")}


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def touched_tests(changed: Collection[str], root: Path = ROOT) -> set[str]:
    """Return the test files that a change can touch.

    Args:
        changed: Paths of changed files, relative to the tree.
        root: Of the working tree.
    """
    tests = {path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")}
    if _OF_ALL & set(changed):
        return tests
    graph = Imports(root)
    modules = {path for path in changed if path.endswith(".py")}
    others = {path for path in changed if path not in modules}
    found = {each for each in tests if graph.reached_from(each) & modules}
    found |= {test for file, test in _guards(root) if file in modules} & tests
    return found | {each for each in tests if _names((root / each).read_text(), others)}


def _guards(root: Path) -> Iterator[tuple[str, str]]:
    table = root / "tests/losses/guards.toml"
    rows = tomllib.loads(table.read_text())["loss"] if table.exists() else ()
    for loss in rows:
        for guard in loss["guards"]:
            yield guard["file"], guard["test"].partition("::")[0]


def _names(text: str, paths: Iterable[str]) -> bool:
    """Say whether a test names one of the paths, or goes through the folder that it lies in."""
    return any(
        path.rpartition("/")[2] in text or f'"{path.partition("/")[0]}"' in text for path in paths
    )


class Imports:
    """Who imports whom in a tree, by its source."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = {
            path.relative_to(root).as_posix()
            for top in _TOPS
            for path in (root / top).rglob("*.py")
        }
        self._passed_on = cache(self._passed_on_by)
        self._direct = cache(self._imported_by)

    def reached_from(self, file: str) -> set[str]:
        """Return the files that a file reaches by imports, itself among them."""
        reached, left = set(), [file]
        while left:
            one = left.pop()
            if one not in reached:
                reached.add(one)
                left += self._direct(one)
        return reached

    def _imported_by(self, file: str) -> frozenset[str]:
        found: set[str] = set()
        for node in ast.walk(self._tree(file)):
            if isinstance(node, ast.Import):
                for each in node.names:
                    found |= self._module(each.name)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for each in node.names:
                    found |= self._name(node.module, each.name)
        # Fixtures come to a test without an import.
        if Path(file).name.startswith("test_"):
            found |= {f"{above}/conftest.py" for above in map(str, Path(file).parents)} & self.files
        return frozenset(found)

    def _name(self, module: str, name: str, depth: int = 0) -> set[str]:
        """Return the file that has a name which is imported from a module."""
        if below := self._module(f"{module}.{name}"):
            return below
        package = f"{module.replace('.', '/')}/__init__.py"
        source = self._passed_on(package).get(name) if package in self.files else None
        if source is None or depth > len(_TOPS) * 2:
            return self._module(module)
        return self._name(*source, depth + 1)

    def _module(self, name: str) -> set[str]:
        path = name.replace(".", "/")
        return {f"{path}.py", f"{path}/__init__.py"} & self.files

    def _passed_on_by(self, package: str) -> Mapping[str, tuple[str, str]]:
        return {
            each.asname or each.name: (node.module, each.name)
            for node in self._tree(package).body
            if isinstance(node, ast.ImportFrom) and node.module
            for each in node.names
        }

    def _tree(self, file: str) -> ast.Module:
        return ast.parse((self.root / file).read_text())
