"""S3 and stores that speak like it, through boto3 and obstore.

This package knows nothing of the other stores.
"""

from spark_core.extras import require

require("s3", "Namespaces s3://")
