"""A store on files that stops a sweep in the middle, on whatever machine it works."""

from spark_core.errors import PermissionDeniedError
from spark_core.storage.local import LocalStore


class NoOutcomes(LocalStore):
    """Refuses the outcomes of a batch with 403, after it took the intents and deleted objects."""

    def put_if_absent(self, key, data):
        if "/journal/" in key and "/outcome-" in key:
            raise PermissionDeniedError(
                f"write {key!r} of {self.root}: the store refuses (HTTP 403 AccessDenied)",
                "Allow s3:PutObject.",
            )
        super().put_if_absent(key, data)


class DamagedOutcomes(LocalStore):
    """Keeps something else of what became of a batch than was written."""

    def put_if_absent(self, key, data):
        if "/journal/" in key and "/outcome-" in key:
            data = data[:-1] + b"!"
        super().put_if_absent(key, data)


class BrokenOutcomes(LocalStore):
    """Has a bug where it writes what became of a batch: an error that is none of lakegc's."""

    def put_if_absent(self, key, data):
        if "/journal/" in key and "/outcome-" in key:
            raise ZeroDivisionError("a bug")
        super().put_if_absent(key, data)
