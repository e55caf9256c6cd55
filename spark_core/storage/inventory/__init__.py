"""S3 Inventory: a bucket's objects as S3 itself writes them down, once a day or a week.

place      find the manifest: a file, or the newest one under a prefix
manifest   what a manifest says: of which bucket, since when, which files with which columns
iceberg    S3 Metadata's live inventory table in its place (needs `lakegc[iceberg]`)
rows       the rows of one data file, as a listing would show them
"""

from __future__ import annotations

from spark_core.storage.inventory.manifest import Inventory as Inventory
from spark_core.storage.inventory.manifest import InventoryFile as InventoryFile
from spark_core.storage.inventory.place import find_inventory as find_inventory
from spark_core.storage.inventory.place import is_table as is_table
from spark_core.storage.inventory.rows import Wanted as Wanted
from spark_core.storage.inventory.rows import rows_of as rows_of
