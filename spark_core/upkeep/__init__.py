"""Take away what nobody needs any more: old tables of lakegc's own, and objects whose days in quarantine are over.

Marks nothing.
"""
