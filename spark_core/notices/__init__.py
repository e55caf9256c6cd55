"""Messages to people: what they say, and where they are sent.

This package knows nothing of how a run decides: it reads what a run stored.
"""
