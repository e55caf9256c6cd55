"""The demo: a whole collection on a sandbox made for it, shown and proved through the lakeFS API.

It must not know how a table is made or an object deleted: it launches the jobs that a user runs.
"""
