"""Marks of lakeFS's own collection job: read to stay within one, written for that job to sweep.

`marks` knows nothing of our own runs. `writer` stands above the checks, as it needs a verdict.
"""
