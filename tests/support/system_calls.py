"""The system calls by which files are moved: each can be refused, interrupted or preceded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.killing import Killed

# What changes files or makes changes durable; and what is asked in between.
CHANGES = ("mkdir", "utime", "link", "fsync", "unlink")
QUESTIONS = ("stat",)


def refuse_links(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the system make no second name of a file in another directory."""
    link = os.link

    def refusing(*names: str, src_dir_fd: int, dst_dir_fd: int, **more: Any) -> None:
        if src_dir_fd != dst_dir_fd:
            raise OSError(number, os.strerror(number))
        link(*names, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, **more)

    monkeypatch.setattr(os, "link", refusing)


class SystemCalls:
    """Counts system calls; ends the process at one of them, or lets another writer be first.

    Attributes:
        made: Names of the calls so far, in order.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...] = CHANGES) -> None:
        self.made: list[str] = []
        self._at, self._act, self._is_dead = 0, _nothing, False
        self._is_after = False
        for name in names:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def arm(
        self, at: int = 0, *, after: bool = False, act: Callable[[], None] | None = None
    ) -> None:
        """Kill the process before or after the n-th call from now, or act before it; 0: never."""
        self.made, self._is_dead = [], False
        self._at, self._is_after, self._act = at, after, act or self._die

    def _die(self) -> None:
        self._is_dead = True
        raise Killed

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **more: Any) -> Any:
            if self._is_dead:
                raise Killed
            self.made.append(name)
            is_it = len(self.made) == self._at
            if is_it:
                # What the other writer does is not counted.
                self._at = 0
                if not self._is_after:
                    self._act()
            try:
                return call(*given, **more)
            finally:
                if is_it and self._is_after:
                    self._act()

        return counted


def _nothing() -> None:
    """Do nothing."""
