"""The certificate of a deletion: what is gone, by what proof, and what still holds the rest.

This package deletes nothing, and believes no report that it cannot verify by its hashes.
"""

from spark_core.extras import require

require("certificate", "Certificates")
