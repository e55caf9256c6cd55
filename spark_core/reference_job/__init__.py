"""Marks of lakeFS's own collection job: read to stay within one, written for that job to sweep."""
