"""Azure Blob Storage and Data Lake Storage Gen2, through azure-storage-blob.

This package knows nothing of the other stores.
"""

from spark_core.extras import require

require("azure", "Namespaces of Azure")
