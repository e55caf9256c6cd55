"""The look for known vulnerabilities.

What could not be looked up is never taken for "nothing found".
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "audit"
PINS = [f"package-{number}==1.{number}" for number in range(60)]


@pytest.fixture
def audit(tmp_path):
    """Run the script on an environment whose versions and whose pip-audit a test decides."""
    (tmp_path / "bin").mkdir()
    (tmp_path / ".audit/bin").mkdir(parents=True)
    (tmp_path / ".audit/bin/python").symlink_to(sys.executable)

    def run(pins, *answers):
        """Each answer: what pip-audit writes for the service (None: nothing), and how it ends."""
        (tmp_path / "pins").write_text("".join(f"{pin}\n" for pin in pins))
        python = tmp_path / "bin/python"
        python.write_text(f"#!/bin/sh\ncat {tmp_path}/pins\n")
        python.chmod(0o755)
        for service, (document, code) in zip(("pypi", "osv"), answers, strict=False):
            (tmp_path / f"{service}.json").write_text(
                "" if document is None else json.dumps(document)
            )
            (tmp_path / f"{service}.code").write_text(str(code))
        tool = tmp_path / ".audit/bin/pip-audit"
        tool.write_text(
            "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --output) out=$2;; "
            "--vulnerability-service) s=$2;; esac; shift; done\n"
            f'[ -s {tmp_path}/$s.json ] && cp {tmp_path}/$s.json "$out"\n'
            'echo "$s cannot be reached" >&2\n'
            f"exit $(cat {tmp_path}/$s.code)\n"
        )
        tool.chmod(0o755)
        return subprocess.run(
            [str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
        )

    return run


def _answer(pins, **vulnerable):
    return {
        "dependencies": [
            {
                "name": pin.partition("==")[0],
                "version": pin.partition("==")[2],
                "vulns": vulnerable.get(pin[:9], []),
            }
            for pin in pins
        ]
    }


def test_every_version_looked_up_and_nothing_known_is_a_success(audit):
    done = audit(PINS, (_answer(PINS), 0))
    assert (done.returncode, done.stderr) == (0, "")
    assert "60 versions were looked up at pypi, 0 vulnerabilities are known" in done.stdout


def test_a_known_vulnerability_is_named_with_what_mends_it(audit):
    answer = _answer(PINS)
    answer["dependencies"][7]["vulns"] = [{"id": "PYSEC-1", "fix_versions": ["1.8", "2.0"]}]
    done = audit(PINS, (answer, 1))
    assert done.returncode == 1
    assert "package-7 1.7: PYSEC-1, mended in 1.8, 2.0" in done.stdout


def test_where_the_first_service_does_not_answer_the_second_is_asked(audit):
    done = audit(PINS, (None, 1), (_answer(PINS), 0))
    assert done.returncode == 0
    assert "looked up at osv" in done.stdout


_SKIPPED = {
    "dependencies": [
        *_answer(PINS[1:])["dependencies"],
        {"name": "package-0", "skip_reason": "not found"},
    ]
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        (None, 1),
        (None, 0),
        (_SKIPPED, 0),
        (_answer(PINS[1:]), 0),
        ({"dependencies": []}, 0),
        ({"oops": 1}, 0),
    ],
    ids=["nothing", "nothing and success", "one skipped", "one missing", "none", "another form"],
)
def test_a_version_that_was_not_looked_up_fails_and_is_never_nothing_found(answer, audit):
    done = audit(PINS, answer, answer)
    assert done.returncode == 2
    assert "no service answered for all 60 versions" in done.stderr
    assert "pypi cannot be reached" in done.stderr
    assert "0 vulnerabilities" not in done.stdout


def test_an_environment_without_its_packages_is_not_looked_at(audit):
    assert "only 3 versions are pinned" in audit(PINS[:3], (_answer(PINS[:3]), 0)).stderr


def test_a_package_without_a_version_is_named(audit):
    done = audit([*PINS, "package @ file:///tmp/package.whl"], (_answer(PINS), 0))
    assert done.returncode == 2
    assert "package @ file:///tmp/package.whl" in done.stderr
