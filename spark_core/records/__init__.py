"""What lakegc writes and reads back: documents, the tables of a run, the journal of a sweep.

This package knows nothing of the decisions in them.
"""
