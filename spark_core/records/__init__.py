"""What lakegc writes beside a repository and reads back: sealed documents, the tables of a run, the journal of a sweep.

Knows nothing of what they decide.
"""
