"""Which archive of Spark's classes is mapped, and which never is."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from spark_core.errors import SettingsError
from spark_core.kept_code import objection
from spark_core.spark.class_archive import class_archive, find_java


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lakegc"


def _java(monkeypatch, home, release='JAVA_RUNTIME_VERSION="17.0.15+6"\n'):
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(release)
    monkeypatch.setenv("JAVA_HOME", str(home))


def _made(archive, content=b"classes"):
    """Make an archive as a Java process would."""
    with archive.making() as options:
        [written] = [word for word in options.split() if "ArchiveClassesAtExit" in word]
        Path(written.partition("=")[2]).write_bytes(content)
    return archive.path


def test_without_an_archive_java_is_told_nothing_of_one(cache):
    assert class_archive().path is None
    assert class_archive().options == ""
    assert not cache.exists()


def test_an_archive_that_was_made_is_mapped_silently_and_its_sums_are_checked(cache):
    made = _made(class_archive())
    assert made.parent == cache
    assert cache.stat().st_mode & 0o777 == 0o700
    words = class_archive().options.split()
    assert f"-XX:SharedArchiveFile={made}" in words
    assert {
        "-Xshare:auto",
        "-XX:+VerifySharedSpaces",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    } < set(words)


def test_an_archive_belongs_to_one_java_and_one_set_of_jars(cache, tmp_path, monkeypatch):
    _java(monkeypatch, tmp_path / "java17")
    spark = tmp_path / "spark"
    (spark / "jars").mkdir(parents=True)
    jar = spark / "jars" / "spark-core.jar"
    jar.write_bytes(b"a")
    monkeypatch.setenv("SPARK_HOME", str(spark))
    made = _made(class_archive())
    assert "-java-17.0.15+6-" in made.name
    jar.write_bytes(b"ab")
    assert class_archive().path is None
    jar.write_bytes(b"a")
    os.utime(jar, ns=(1, 1))
    assert class_archive().path is None
    _java(monkeypatch, tmp_path / "java17", 'JAVA_RUNTIME_VERSION="17.0.16+1"\n')
    renewed = _made(class_archive())
    assert "-java-17.0.16+1-" in renewed.name
    assert list(cache.iterdir()) == [renewed], "that of the earlier Java serves nobody"


def test_an_archive_of_another_installation_of_spark_stays(cache, tmp_path, monkeypatch):
    made = []
    for name in ("one", "other"):
        (tmp_path / name / "jars").mkdir(parents=True)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path / name))
        made.append(_made(class_archive()))
    assert sorted(cache.iterdir()) == sorted(made)


def test_a_file_shorter_than_what_was_written_is_not_mapped(cache):
    made = _made(class_archive(), b"classes" * 1000)
    with made.open("r+b") as file:
        file.truncate(1000)
    assert class_archive().path is None
    assert class_archive().options == ""


def test_nothing_is_kept_of_an_archive_that_was_broken_off(cache):
    archive = class_archive()
    making = archive.making()
    options = making.__enter__()
    Path(options.split()[0].partition("=")[2]).write_bytes(b"half")
    assert not making.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert list(cache.iterdir()) == []
    with pytest.raises(SettingsError, match="Java wrote no archive"), archive.making():
        pass
    assert list(cache.iterdir()) == []


def test_what_a_killed_process_left_is_taken_away_by_the_next(cache):
    archive = class_archive()
    cache.mkdir(parents=True, mode=0o700)
    old, young = (cache / f".{archive.stem}.{name}.unfinished" for name in ("old", "young"))
    old.touch()
    young.touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    made = _made(archive)
    assert sorted(cache.iterdir()) == sorted([young, made]), "a young one may be another process's"


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_an_archive_that_others_can_write_is_never_mapped(cache, mode):
    made = _made(class_archive())
    for place in (made, cache, cache.parent):
        before = place.stat().st_mode & 0o777
        place.chmod(mode)
        assert class_archive().options == ""
        assert objection(made) == f"others may write {place}"
        place.chmod(before)
    assert class_archive().options


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_an_archive_of_another_user_is_never_mapped(cache):
    made = _made(class_archive())
    for place in (made, cache):
        os.chown(place, 12345, -1)
        assert class_archive().options == ""
        assert objection(made) == f"{place} belongs to another user"
        os.chown(place, 0, -1)


def test_a_link_is_judged_by_what_it_leads_to(cache, tmp_path):
    made = _made(class_archive())
    elsewhere = tmp_path / "everybody"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    moved = made.rename(elsewhere / made.name)
    made.symlink_to(moved)
    assert class_archive().options == ""


def test_java_gets_what_a_link_led_to_when_it_was_judged(cache, tmp_path):
    (tmp_path / "mine").mkdir(mode=0o700)
    cache.parent.mkdir()
    cache.symlink_to(tmp_path / "mine")
    assert _made(class_archive()).parent == tmp_path / "mine"


def test_no_archive_is_written_where_others_could_change_it(cache):
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.raises(SettingsError, match=f"others may write {cache}"), class_archive().making():
        pytest.fail("Java would write")


@pytest.mark.parametrize("name", ["with space", "with:colon", 'with"quote'])
def test_a_place_whose_name_java_would_split_is_none(tmp_path, monkeypatch, name):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    assert class_archive() is None


def test_without_java_or_a_home_there_is_no_archive(tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.setenv("JAVA_HOME", str(tmp_path))
        assert class_archive() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/not/heeded")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(class_archive().directory).startswith(str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert class_archive() is None


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["none", "other classes", "no archive", "a changed byte"])
def test_java_starts_without_a_word_whatever_the_archive_is(cache, tmp_path, damage):
    java, archive = find_java(), class_archive()
    with archive.making() as options:
        subprocess.run([java, *options.split(), "-version"], check=True, capture_output=True)
    made = archive.path
    content = bytearray(made.read_bytes())
    if damage == "no archive":
        content[:] = os.urandom(len(content))
    if damage == "a changed byte":
        content[len(content) // 2] ^= 0xFF
    made.write_bytes(content)
    classes = ["-cp", str(tmp_path)] if damage == "other classes" else []
    plain, mapped = (
        subprocess.run(
            [java, *options, *classes, "-version"], check=True, capture_output=True, text=True
        )
        for options in ([], archive.options.split())
    )
    assert mapped.stdout == plain.stdout
    # `mixed mode, sharing`: whether classes of Java itself are mapped may differ.
    assert len(mapped.stderr.splitlines()) == len(plain.stderr.splitlines())
