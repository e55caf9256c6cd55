"""The server's local blockstore, by the operating system's own calls."""

from spark_core.storage.local.store import LocalStore as LocalStore
