"""What keeps objects, whoever says so.

Staged entries, commits and what they reach, entries that a branch hides, and what a retention
policy names (`policies`). The mark and the sweep both ask here, and neither imports the other.
"""
