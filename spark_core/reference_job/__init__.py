"""Marks of lakeFS's own collection job: read where a run stays within one, written where that job is to sweep."""
