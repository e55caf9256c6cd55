"""The archive of Spark's classes that its Java maps instead of loading them.

This module finds the archive, decides whether it may be used, and makes it.

At the start of Spark, Java mostly reads and checks some 10,000 classes. An archive has them ready.
It belongs to one Java and one installation of Spark. Without an archive, or with one that does not
fit, a start only takes longer. Java runs the content of an archive as it is. So an archive that
somebody else can write is never used, and Java checks its sums at each start.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from spark_core.errors import SettingsError
from spark_core.kept_code import objection, user_cache

_RELEASE = re.compile(r'^JAVA_RUNTIME_VERSION="?([^"\n]+)', re.MULTILINE)
# The characters that Java takes in a path of this option, and Spark's scripts in a word.
_PLAIN = re.compile(r"[\w@%+=.,/-]+")
# An older file was left by a process that was killed.
_LEFT_SECONDS = 86_400

# Java says nothing if the archive does not fit. Damage counts as that, too: the sums cost a tenth
# of a second.
_MAPPED = (
    "-XX:SharedArchiveFile={path} -Xshare:auto -XX:+VerifySharedSpaces "
    "-Xlog:cds=off -Xlog:cds+dynamic=off"
)
_MADE = "-XX:ArchiveClassesAtExit={path} -Xlog:cds=off -Xlog:cds+dynamic=off"


@dataclass(frozen=True)
class ClassArchive:
    """The archive that belongs to a Java and an installation of Spark.

    Attributes:
        directory: Where it lies, or would.
        stem: Its name up to its size.
    """

    directory: Path
    stem: str

    @property
    def path(self) -> Path | None:
        """The file; None if there is none.

        Its length is part of its name: Java trusts the length, and a signal ends it if the file is
        shorter.
        """
        with suppress(OSError):
            for found in sorted(self.directory.glob(f"{self.stem}.*.jsa")):
                if found.suffixes[-2] == f".{found.lstat().st_size}":
                    return found
        return None

    @property
    def options(self) -> str:
        """Java options that map the archive; none if there is no file that may be used."""
        path = self.path
        return "" if path is None or objection(path) else _MAPPED.format(path=path)

    @contextmanager
    def making(self) -> Iterator[str]:
        """Give the Java options that write the archive, and keep it after Java has ended.

        Yields:
            Options for one Java process, which must have ended when the block ends.

        Raises:
            SettingsError: If no place for it is the user's alone, or Java wrote none.
        """
        with suppress(OSError):
            self.directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        why = objection(self.directory)
        if why:
            raise SettingsError(
                f"there is no place for an archive of Spark's classes: {why}",
                "Mend that, or name another directory in XDG_CACHE_HOME.",
            )
        for left in self.directory.glob(".*.unfinished"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                    left.unlink()
        unfinished = self.directory / f".{self.stem}.{secrets.token_hex(4)}.unfinished"
        try:
            yield _MADE.format(path=unfinished)
            self._keep(unfinished)
        finally:
            unfinished.unlink(missing_ok=True)

    def _keep(self, unfinished: Path) -> None:
        try:
            with unfinished.open("rb") as written:
                os.fsync(written.fileno())
                size = os.fstat(written.fileno()).st_size
            unfinished.chmod(0o600)
            kept = self.directory / f"{self.stem}.{size}.jsa"
            unfinished.replace(kept)
        except OSError as problem:
            raise SettingsError(
                f"Java wrote no archive of Spark's classes into {self.directory} "
                f"({problem.strerror})",
                "Spark starts without one, too; it only takes longer.",
            ) from problem
        # Nobody uses the archives of an earlier Java or Spark at the same place any more.
        place = self.stem.rpartition("-")[2]
        for other in self.directory.glob(f"*-{place}.*.jsa"):
            if other != kept:
                other.unlink(missing_ok=True)


def find_java() -> Path | None:
    """Return the Java that Spark's scripts start; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found) if found and Path(found).exists() else None


def spark_home() -> Path:
    """Return the folder of the Spark whose scripts would be started."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def class_archive() -> ClassArchive | None:
    """Find the archive of the Java and the Spark that would be started.

    Nothing is started or written.

    Returns:
        The archive, whether it exists or not. None if there can be none: without Java, without a
        home, or under a name that Java or Spark's scripts would split.
    """
    java, cache = find_java(), user_cache()
    if java is None or cache is None:
        return None
    java, home = java.resolve(), spark_home().resolve()
    version = "unknown"
    with suppress(OSError):
        found = _RELEASE.search((java.parent.parent / "release").read_text())
        version = version if found is None else found[1]
    place = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    content = hashlib.sha256(f"{java} {_identity(java)} {version}".encode())
    with suppress(OSError):
        for jar in sorted((home / "jars").iterdir()):
            content.update(f"{jar.name} {_identity(jar)}\n".encode())
    name = f"spark-{pyspark.__version__}-java-{version}-{content.hexdigest()[:12]}-{place}"
    # What a link leads to is judged, and is what Java gets: the link may lead elsewhere by then.
    directory = (cache / "lakegc").resolve()
    if not _PLAIN.fullmatch(str(directory / name)):
        return None
    return ClassArchive(directory, name)


def _identity(file: Path) -> str:
    found = file.stat()
    return f"{found.st_size} {found.st_mtime_ns}"
