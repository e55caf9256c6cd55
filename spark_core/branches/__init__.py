"""Change branches on the server by a policy: `removal` of entries by a commit, `stale` branches.

No part of a run: a person starts each. The calls that write to branches stand in this room, above
the mark and the sweep, so neither of them can make one.
"""
