"""Change branches on the server by a policy: `removal` of entries by a commit, `stale` branches.

No part of a run: a person starts each. No mark and no sweep imports this room, and what it changes
can be undone until a sweep deletes what no branch shows any more.
"""
