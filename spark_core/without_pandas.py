"""Arrow's arrays without pandas, of which lakegc itself has nothing."""

import sys

import pyarrow as pa


class _NoPandas:
    """Says to whoever imports it that pandas is missing."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def leave_pandas_out() -> None:
    """Let pyarrow make its first array, at which it would import pandas to ask what it was given.

    That is a tenth of a small mark. Whoever asks pyarrow for a frame later still gets one.
    """
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(_NoPandas)
