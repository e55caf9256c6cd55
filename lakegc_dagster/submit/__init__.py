r"""For `spark-submit`: arguments and keys of lakeFS's own collection job, done by lakegc's engine.

This package must not know Dagster, nor the command line of lakegc. This file is the submitted one:

    spark-submit [--class ...] [--conf spark.hadoop.lakefs.api.url=...] \
        submit/__init__.py REPOSITORY [REGION]

`docs/reference-job.md` tells what becomes of each key.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path


def main() -> int:
    """Do what the command line asks for; 0 when it was done, else 1."""
    from lakegc_dagster.submit.job import run
    from spark_core.output import exit_code_of

    return exit_code_of(partial(run, sys.argv[1:]))


def _leave_the_package() -> None:
    """Take the folder of this file from the import path, where `spark-submit` put it.

    Its modules have everyday names. A module found without its package could hide a library's
    module.
    """
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    if (here.parent / "__init__.py").exists() and str(here.parents[1]) not in sys.path:
        sys.path.append(str(here.parents[1]))


if __name__ == "__main__":
    _leave_the_package()
    sys.exit(main())
