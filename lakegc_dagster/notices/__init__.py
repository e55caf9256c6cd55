"""Messages to people: what they say, where they are sent, and the sensors that send them.

This package knows nothing of how a run decides: it reads what a run stored.
"""
