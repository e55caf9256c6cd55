"""For `spark-submit`: takes the arguments and the configuration keys of lakeFS's own collection job.

    spark-submit [--class ...] [--conf spark.hadoop.lakefs.api.url=...] submit.py REPOSITORY [REGION]

What becomes of each key is told in `docs/reference-job.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Do what the command line asks for; 0 when it was done, else 1."""
    from lakegc_dagster.submit_job import run

    return run(sys.argv[1:])


def _leave_the_package() -> None:
    """Take the folder of this file from the import path, where `spark-submit` put it.

    Its modules have everyday names; found without their package, one could
    stand in the way of a library's.
    """
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    if (here / "__init__.py").exists() and str(here.parent) not in sys.path:
        sys.path.append(str(here.parent))


if __name__ == "__main__":
    _leave_the_package()
    sys.exit(main())
