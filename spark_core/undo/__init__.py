"""Bring back what a sweep took, and prove that it is there.

Decides nothing about what may go.
"""
