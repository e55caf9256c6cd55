"""A real browser for tests: Chromium, as Debian has it."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here (Debian: apt install chromium)"
)
# A browser on a busy machine takes longer than Playwright's half a minute.
PATIENCE_MS = 120_000


@contextmanager
def chromium():
    """Start Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        yield started
        started.close()
