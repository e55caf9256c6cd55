"""What tests begin with, made once in a process and taken out again for each of them."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from lakegc_dagster.sandbox import Sandbox

_Told = TypeVar("_Told")


class MadeOnce:
    """Sandboxes with repositories of some shape, marked or swept.

    Each test has a copy: the same ids, runs and times, in the same place, because entries may hold
    it. So no test sees what another did, and two copies of one are never there at a time.

    Args:
        folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: dict[str, Any] = {}

    @contextmanager
    def begun(self, key: str, make: Callable[[Sandbox], _Told]) -> Iterator[tuple[Sandbox, _Told]]:
        """Serve a copy of a sandbox; it is made if no test of this process began with it.

        Args:
            key: What tells it from others.
            make: Makes what tests begin with, and returns what it has to tell of it.
        """
        original, place = self._folder / "originals" / key, self._folder / key
        if key not in self._told:
            with Sandbox(place) as sandbox:
                told = make(sandbox)
            shutil.copytree(place, original)
            self._told[key] = told
        shutil.rmtree(place)
        shutil.copytree(original, place)
        with Sandbox(place) as sandbox:
            yield sandbox, copy.deepcopy(self._told[key])
