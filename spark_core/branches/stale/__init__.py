"""Stale branches: find them by `branch_lifecycle`, let people confirm them, delete them, undo that.

`decide` says of a branch why it stays or may go, from plain values; `examine` reads these values;
`marked` stores what was found and what was confirmed; `deletion` deletes, `undo` makes branches
again, and both note their steps by `deletion_steps`.
"""
