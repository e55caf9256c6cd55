"""Object retention policies: what a repository's rules name by branch and path, and when it is due.

A policy names objects that somebody can still see. The document is read in `document`, its versions
are kept by `versions`; `names` says under which branch and path an object was committed, `history`
reads that from lakeFS's tables, `due` compares it with the rules, `expirations` makes the table.
"""
