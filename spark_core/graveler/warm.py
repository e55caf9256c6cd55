"""Compile the loops before they are needed."""

from __future__ import annotations

import base64
import zlib

from spark_core.graveler.metaranges import read_metarange
from spark_core.graveler.ranges import read_dated_range

_RANGE_ID = "b3e1f8b5e6d9515fc505090e3a2031ded286d5def981e11f8dc94ff287716423"
_METARANGE_ID = "90fbb50a20b62f39f98365a0f535731b5923fb33234aefbf55b3ff71f92666e7"
# A range with one entry, and behind it its metarange, as the server writes them.
_TABLES = (
    "eNrtU82LHEUUr9qdne7pjJtk1sRlRJ0sIQQlne6ZnZldlxW/rh7UHAIinequ15Nmq6s7XTVfOcgiSVhIINf4J+gfoD"
    "dPngLizYsHwYAoeNBVCCior3p2xxiEIB685EE39are5++933stUh+MWZFSUqM/vvTyD9PP7v38zEfO7/32jefeutO+"
    "9KtNzv509zve3b/31VO3Lu5Rp86ZZueNz/lh3qjau/tf3q2u0rWW540WyOvPVx3KGjT0KEExP3pl74VVUluYHP9jJo"
    "QfPpHT1qfXyBKNsqHUPnlyEZROUqaBByq5CkE41aD8jkesSsomwQ5My1qrlUQeKuR0pciiHcVDNxR4cEOmgLuahQLc"
    "RHKYuHqag0nWPEbzAuJk4saJ0FAkcuA1V+j4coamGO6Ba/vYUpSJYSrdmKWJmLoJN5Vbjt1Mc1YwnRUCRiAw66tY4z"
    "hR8Fp2+FK3qgUolWTybcnyfLpiB0GWa9TVGCvKxkGYaLV9zl/fapVRtjvtfq+/1VIa/WEw3fa2WqZfnkR6hoG5uao0"
    "D8w1WmH/83uQpldujrU6LYCZTC7iCMSuUTMt14CZ1I5QEIDYml4VsZ+1YYLtSiYCpXSAzYM7EFlodLgiM3IgTasygs"
    "K0s4CafYTOYCqDEmeZTmYRXQFyoC+T2hM0K3CG7oETsU/Q2RyMUaLcoUJnPJPlCjUxnl4+SUdMDME8chBYL8go48CJ"
    "vUxTKAbgZjkUTHJFVhYbiHAOoRlvlMkIAZP42UepHKZu2W25B4rWLQpSFwng8ShF9wGc4wYBMwiCDpnguG9lWTO0Tl"
    "gH+4HAFCzCRK5kKcihELkunOO2KUNPMa8QYJ7VO0oj3NG7NgLPxmUo01K97hy0ZLQBqVTNDpYlqPnu75+5PSaN+fbm"
    "RRkdy71G7y/NreKPP/ya7lqnkpPk0WIGdP+LX65/8so3e6R+YUbsmezSsAN+vBF2occ3u343jrpe19v0oMPaXsdHuN"
    "sbPd7lEG9u+OCjKY821+O4vdHv+731dmfNqZiAjfK/+j5tzRlOzlxcHP2N4Tvzp2/fvPP5Ixnu+48Z/t8Znj9m+P/E"
    "8Auk4pgdTEGzh1je/P6D3j+y/Cb97S+Wr9kvvkFvWqfyf8vyPwFLMmq6"
)
_RANGE_BYTES = 987


def warm_up() -> None:
    """Compile or load every loop that reading needs.

    Compiling takes seconds and happens once per machine. If the driver calls this while it waits
    for the server, its executors do not all compile the same loops at the same moment.
    """
    tables = zlib.decompress(base64.b64decode(_TABLES))
    read_dated_range(tables[:_RANGE_BYTES], name="range", expected_count=1, expected_id=_RANGE_ID)
    read_metarange(tables[_RANGE_BYTES:], name="metarange", expected_id=_METARANGE_ID)
