"""Object retention policies: what a repository's rules name by branch and path, and when it is due.

A policy names objects that somebody can still see. What its `document` says is read by `parsing`,
and its versions are kept by `versions`. `names` says under which branch and path an object was
committed, `history` reads that from lakeFS's tables, `due` compares it with the rules, and
`objects_due` does so for all names of the objects of one bucket. A mark makes the table of them
(`expirations`), a sweep asks once more (`named_now`).
"""
