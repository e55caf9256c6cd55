"""Compiled code finds a place to stay, and only a safe one, while its sources stay."""

from __future__ import annotations

import ast
import errno
import os
import pickle
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import numba
import pytest
from numba.core import caching
from numba.core.registry import CPUDispatcher

from spark_core import jit
from spark_core.spark import cluster

ROOT = Path(__file__).resolve().parents[3]


def double(number):
    return number * 2


@pytest.fixture
def no_writable_place(monkeypatch, tmp_path):
    """A read-only installation and no home: only the temporary directory can be written."""
    made = jit._made_private

    def below_temporary(directory):
        return made(directory) if directory.is_relative_to(tmp_path) else None

    monkeypatch.setattr(jit, "_made_private", below_temporary)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    jit.cache_directory.cache_clear()
    yield tmp_path
    jit.cache_directory.cache_clear()


def test_without_a_writable_place_the_code_goes_to_a_private_directory(no_writable_place):
    compiled = jit.compiled(double)
    assert compiled(21) == 42
    [directory] = (no_writable_place / f"lakegc-numba-{os.getuid()}").iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert list(directory.rglob("*double*.nbi"))
    assert numba.config.CACHE_DIR == ""


def kept_in(place):
    """The directory that code of this folder goes to, below a place."""
    return place / f"lakegc-loops-{jit.folder_contents(Path(__file__).parent)[:32]}"


@pytest.fixture
def shared(monkeypatch, tmp_path):
    """A shared folder like `/tmp`, which NUMBA_CACHE_DIR names."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(place))
    jit.cache_directory.cache_clear()
    yield place
    jit.cache_directory.cache_clear()


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o750, 0o1777])
def test_a_directory_that_others_can_enter_is_not_used(shared, mode):
    kept_in(shared).mkdir()
    kept_in(shared).chmod(mode)
    assert jit.compiled(double)(21) == 42
    assert not list(shared.rglob("*.nb?"))


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_directory_that_others_can_replace_is_not_used(shared, mode):
    shared.chmod(mode)
    assert jit.compiled(double)(21) == 42
    assert not list(shared.rglob("*.nb?"))


def test_a_link_to_a_directory_that_others_can_enter_is_not_used(shared, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    kept_in(shared).symlink_to(tmp_path / "elsewhere")
    assert jit.compiled(double)(21) == 42
    assert not list(tmp_path.rglob("*.nb?"))


def test_what_a_link_led_to_is_used_and_not_the_link_which_may_lead_elsewhere_then(
    shared, tmp_path
):
    (tmp_path / "mine").mkdir(mode=0o700)
    kept_in(shared).symlink_to(tmp_path / "mine")
    assert jit.cache_directory(Path(__file__).parent) == tmp_path / "mine"


RAN = []


def run_by_a_pickle():
    RAN.append("planted")


class Planted:
    """A pickle that runs what its maker likes."""

    def __reduce__(self):
        return run_by_a_pickle, ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_pickles_in_a_directory_that_somebody_else_made_never_run(shared):
    kept_in(shared).mkdir(mode=0o700)
    assert jit.compiled(double)(21) == 42
    [index] = shared.rglob("*.nbi")
    index.write_bytes(pickle.dumps(Planted()))
    os.chown(kept_in(shared), 12345, -1)
    jit.cache_directory.cache_clear()
    assert jit.compiled(double)(21) == 42
    assert RAN == []
    assert index.exists()


def test_a_temporary_directory_that_is_missing_is_no_error(no_writable_place, monkeypatch):
    file = no_writable_place / "a file"
    file.touch()
    monkeypatch.setattr(tempfile, "tempdir", str(file))
    assert jit.cache_directory(Path(__file__).parent) is None
    assert jit.compiled(double)(21) == 42


def flipped(content):
    at = content.index(b"\x7fELF") + 200
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


DAMAGES = {
    "empty list": ("*.nbi", lambda _: b""),
    "half a list": ("*.nbi", lambda content: content[: len(content) // 2]),
    "foreign list": ("*.nbi", lambda _: b"no pickle"),
    "empty code": ("*.nbc", lambda _: b""),
    "half the code": ("*.nbc", lambda content: content[: len(content) // 2]),
    "another bit of the code": ("*.nbc", flipped),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_code_is_compiled_anew_and_replaced(no_writable_place, damage):
    pattern, damaged = DAMAGES[damage]
    assert jit.compiled(double)(21) == 42
    [file] = no_writable_place.rglob(pattern)
    whole = file.read_bytes()
    file.write_bytes(damaged(whole))
    again = jit.compiled(double)
    assert again(21) == 42
    assert not again.stats.cache_hits
    assert file.read_bytes() != damaged(whole)
    healed = jit.compiled(double)
    assert healed(21) == 42
    assert sum(healed.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("wrong", [errno.ENOSPC, errno.EACCES, errno.EIO, errno.EROFS])
def test_code_that_cannot_be_kept_is_compiled(no_writable_place, monkeypatch, wrong):
    def refused(*_):
        raise OSError(wrong, os.strerror(wrong))

    loop = jit.compiled(double)
    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", refused)
    assert loop(21) == 42
    assert not list(no_writable_place.rglob("*.nb?"))


def test_every_loop_is_kept_on_disk():
    loops = [loop for _, loop in _loops()]
    assert len(loops) > 30
    assert all(type(loop._cache) is jit._KeptCode for loop in loops)


def _loops():
    """Each loop of both packages, with its module."""
    for path in sorted([*ROOT.glob("spark_core/**/*.py"), *ROOT.glob("lakegc_dagster/**/*.py")]):
        if "@compiled" not in path.read_text():
            continue
        module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for value in vars(module).values():
            if isinstance(value, CPUDispatcher) and value.__module__ == module.__name__:
                yield module, value


def test_a_loop_takes_other_loops_and_constants_from_its_own_folder_alone():
    """Kept code is used until a file of that folder changes."""
    seen = set()
    for module, loop in _loops():
        sources = {
            alias.asname or alias.name: node.module
            for node in ast.parse(Path(module.__file__).read_text()).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for name in set(loop.py_func.__code__.co_names) & set(sources):
            assert sources[name].rpartition(".")[0] == module.__package__, (loop, name)
            seen.add(name)
    assert {"read_uvarint", "KEYS_NOT_ASCENDING"} <= seen


CALLED = """
from spark_core.jit import compiled

@compiled
def step(number):
    return number + {step}
"""
CALLING = """
from called import step
from spark_core.jit import compiled

@compiled
def twice(number):
    return step(step(number))

print(twice(40), sum(twice.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_kept_code_is_not_used_when_the_file_of_a_called_loop_changed(tmp_path):
    (tmp_path / "calling.py").write_text(CALLING)

    def said(step):
        (tmp_path / "called.py").write_text(CALLED.format(step=step))
        done = subprocess.run(
            [sys.executable, str(tmp_path / "calling.py")],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert said(1) == ["42", "0"]
    assert said(1) == ["42", "1"]
    assert said(3) == ["46", "0"]
    assert said(3) == ["46", "1"]


@pytest.mark.parametrize("others", ["another place", "no place"])
def test_code_is_kept_in_its_directory_or_nowhere(no_writable_place, monkeypatch, others):
    """A disk that has become full: numba would take another place, or fail the import."""

    def full(locator):
        raise OSError(28, "No space left on device", locator.get_cache_path())

    monkeypatch.setattr(caching.UserProvidedCacheLocator, "ensure_cache_path", full)
    if others == "no place":
        only = [caching.UserProvidedCacheLocator]
        monkeypatch.setattr(caching.CacheImpl, "_locator_classes", only)
    compiled = jit.compiled(double)
    assert compiled(21) == 42
    assert compiled.stats.cache_path is None
    assert not list(no_writable_place.rglob("*.nb?"))
    assert numba.config.CACHE_DIR == ""


def test_a_user_without_a_home_has_a_private_directory(no_writable_place, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    kept = jit.cache_directory(Path(__file__).parent)
    assert kept is not None
    assert kept.parent == no_writable_place / f"lakegc-numba-{os.getuid()}"


def test_no_place_is_made_after_the_first_that_can_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    folder = tmp_path / "package"
    folder.mkdir()
    kept = jit.cache_directory(folder)
    assert kept is not None
    assert kept.parent == folder / "__pycache__"
    assert not list((tmp_path / "temporary").iterdir())


def test_the_directory_that_numba_was_given_is_taken_before_all_others(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    jit.cache_directory.cache_clear()
    try:
        kept = jit.cache_directory(Path(__file__).parent)
    finally:
        jit.cache_directory.cache_clear()
    assert kept is not None
    assert kept.parent == tmp_path


ZIPPED = """
import sys
sys.path[:0] = [sys.argv[1]]
from numba.core.registry import CPUDispatcher
import numpy as np
import spark_core
from spark_core.graveler.loops import buffers, stored_blocks

assert spark_core.__file__.startswith(sys.argv[1]), spark_core.__file__
# One that calls another stands for all, which are compiled in the same way.
none = np.zeros(0, np.int64)
stored_blocks.check_blocks(np.zeros(1, np.uint8), none, none, none, none)
used = (stored_blocks.check_blocks, buffers.read_uvarint)
assert [len(loop.signatures) for loop in used] == [1, 1]
loops = [value for value in vars(stored_blocks).values() if isinstance(value, CPUDispatcher)]
assert len(loops) > 5
assert not any(loop._cache.cache_path for loop in loops)
"""


@pytest.mark.slow
def test_a_package_in_a_zip_is_compiled_and_leaves_nothing_behind(tmp_path):
    archive = cluster.write_archive(cluster.package_sources())
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ZIPPED, str(archive)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not [*home.rglob("*.nb?"), *temporary.rglob("*.nb?")]


FUZZ = """
import random, sys
import cramjam
from spark_core.errors import CorruptTableError
from spark_core.graveler import read_metarange, read_range
from spark_core.graveler.loops.buffers import gather
from tests.spark_core.graveler.forge import Forgery
from tests.spark_core.graveler.test_broken_tables import WIDE
from lakegc_dagster.sandbox.tables import write_metarange

import numpy as np
try:
    starts, lengths = np.array([5]), np.array([3])
    gather(
        np.zeros(1, np.uint8), starts, lengths, np.zeros(2, np.int32), np.zeros(9, np.uint8)
    )
except IndexError:
    pass
else:
    sys.exit("bounds are not checked here")

chance = random.Random(int(sys.argv[1]))
refused = 0
targets = [(WIDE.data, read_range), (write_metarange([WIDE]).data, read_metarange)]
for turn in range(int(sys.argv[2])):
    data, reader = targets[turn % 2]
    forgery = Forgery.of(data)
    for _ in range(chance.randint(1, 6)):
        block = bytearray(chance.choice(forgery.blocks))
        number = forgery.blocks.index(bytes(block))
        position = chance.randrange(len(block))
        action = chance.random()
        if action < 0.6:
            block[position] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        elif action < 0.8:
            del block[position : position + chance.randint(1, 40)]
        else:
            block[position:position] = chance.choice(
                [b"\\xff" * 9 + b"\\x01", b"\\x80", bytes(5), b"\\xfe" + b"\\xff" * 8 + b"\\x01"]
            )
        forgery.blocks[number] = bytes(block)
    if chance.random() < 0.4:
        forgery.kinds = [1] * len(forgery.blocks)
        pressed = [bytearray(cramjam.snappy.compress_raw(block)) for block in forgery.blocks]
        block = chance.choice(pressed)
        for _ in range(chance.randint(0, 3)):
            block[chance.randrange(len(block))] = chance.choice([0, 0xFF, chance.randrange(256)])
        forgery.blocks = [bytes(block) for block in pressed]
    if chance.random() < 0.2:
        index = bytearray(forgery.good_index())
        index[chance.randrange(len(index))] = chance.choice(
            [0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]
        )
        forgery.index_block = bytes(index)
    try:
        reader(forgery.data(), name="fuzz")
    except CorruptTableError:
        refused += 1
print(refused)
"""


@pytest.mark.deep
def test_no_loop_reads_beyond_its_arrays_whatever_the_blocks_hold(tmp_path):
    """numba's own bounds checks would raise an IndexError for an index outside."""
    # Checks of bounds are the same without optimizing, which takes longer than the reading.
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_OPT": "0",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, "7", "2000"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1500


WARM = """
import sys
from pathlib import Path
from numba.core.registry import CPUDispatcher
from spark_core.graveler import read_metarange, read_range, read_records, warm_up
from spark_core.graveler.loops import (
    block_records, hashes, protobuf_messages, record_values, stored_blocks
)
from tests.support import golden

def compiled():
    return {
        name: len(loop.signatures)
        for module in (block_records, hashes, protobuf_messages, record_values, stored_blocks)
        for name, loop in vars(module).items()
        if isinstance(loop, CPUDispatcher)
    }

warm_up()
before = compiled()
unpacked = golden.unpack("two-level-index", Path(sys.argv[1]))
for path in sorted((unpacked / "_lakefs").glob("?" * 64)):
    kind = read_records(path.read_bytes(), name=path.name).properties
    if "entity" not in kind:
        reader = read_range if kind["type"] == b"ranges" else read_metarange
        reader(path.read_bytes(), name=path.name, expected_id=path.name)
used = ("scan_records", "entry_fields", "range_data_fields", "hash_input")
assert all(before[name] for name in used)
assert compiled() == before, (before, compiled())
"""


@pytest.mark.slow
def test_after_warming_up_nothing_is_left_to_compile(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WARM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def either(first, second):
    total = 0
    for index in range(len(first)):
        row = first if first[index] else second
        total += row[index]
    return total


def llvm_of(loop, **options):
    (code,) = numba.njit("int64(int64[::1], int64[::1])", **options)(loop).inspect_llvm().values()
    return code


def test_the_private_option_of_numba_still_spares_the_counting_of_references():
    closed = (
        f"numba {numba.__version__} has no option _nrt any more that spares counting: find another "
        "way in spark_core/jit.py, and measure it by `make bench-decoder`"
    )
    assert {name for name in jit._OPTIONS if name.startswith("_")} == {"_nrt"}
    counting = "NRT_decref"
    assert counting in llvm_of(either), f"numba counts without {counting}: look for what it calls"
    try:
        spared = counting not in llvm_of(either, **jit._OPTIONS)
    except (KeyError, TypeError):  # numba does not know the option
        spared = False
    assert spared, closed
