"""A store whose process dies at a call that the test chooses, before or after the call has had its
effect.
"""

from spark_core.storage.local import LocalStore
from spark_core.storage.outcomes import unpaced


class Killed(BaseException):
    """What `kill -9` looks like from inside: nothing catches it."""


class KillingStore(LocalStore):
    """Dies at its n-th change of the store, never for 0 or less; records requested deletions."""

    def arm(self, dies_at, *, after):
        self.dies_at, self.after, self.changes, self.asked = dies_at, after, 0, []
        return self

    def _change(self, act):
        self.changes += 1
        if self.changes == self.dies_at and not self.after:
            raise Killed
        result = act()
        if self.changes == self.dies_at:
            raise Killed
        return result

    def put_if_absent(self, key, data):
        return self._change(lambda: LocalStore.put_if_absent(self, key, data))

    def delete(self, keys, *, pace=unpaced):
        self.asked += keys
        return self._change(lambda: LocalStore.delete(self, keys, pace=pace))
