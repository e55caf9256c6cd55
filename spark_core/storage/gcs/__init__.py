"""Google Cloud Storage, through google-cloud-storage (needs `lakegc[gcs]`).

This package knows nothing of the other stores.
"""

from spark_core.extras import require

require("gcs", "Namespaces gs://")
