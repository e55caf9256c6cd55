"""Marks of lakeFS's own collection job, read to stay within one of them.

This package knows nothing of our own runs.
"""
