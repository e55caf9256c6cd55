"""The files of deploy/ name commands, options, settings and files that there are."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from spark_core.cli.main import main
from spark_core.settings import load_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "lakegc"
# What becomes of the chart: `helm template lakegc deploy/helm/lakegc --set mode=MODE`.
RENDERED = {mode: ROOT / "tests" / "data" / "helm" / f"{mode}.yaml" for mode in ("cronjob", "ui")}
WORKFLOW = DEPLOY / "github" / "lakegc.yml"
MANIFESTS = [
    document
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
]


def pods():
    for each in MANIFESTS:
        if each["kind"] == "CronJob":
            yield each["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        if each["kind"] == "Deployment":
            yield each["spec"]["template"]["spec"]


def test_every_container_runs_a_command_that_there_is():
    for pod in pods():
        for container in pod["containers"]:
            name, *options = container["args"]
            known = {option for each in main.commands[name].params for option in each.opts}
            assert {option for option in options if option.startswith("--")} <= known


def test_the_ui_is_started_nowhere_without_its_guard():
    commands = [container["args"][0] for pod in pods() for container in pod["containers"]]
    assert commands == ["run", "ui"]
    files = [ROOT / "Makefile", *(file for file in DEPLOY.rglob("*") if file.is_file())]
    for file in files:
        assert not re.search(r"dagster[-_]webserver|dagster dev|dg dev", file.read_text()), file


def test_every_name_that_a_pod_refers_to_is_made():
    made = {(each["kind"], each["metadata"]["name"]) for each in MANIFESTS}
    for pod in pods():
        assert ("ServiceAccount", pod["serviceAccountName"]) in made
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made
            else:
                assert (
                    "PersistentVolumeClaim",
                    volume["persistentVolumeClaim"]["claimName"],
                ) in made
        for container in pod["containers"]:
            for source in container["envFrom"]:
                assert ("Secret", source["secretRef"]["name"]) in made
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_settings_of_the_manifests_are_settings(tmp_path):
    (settings,) = [each for each in MANIFESTS if each["kind"] == "ConfigMap"]
    (tmp_path / "lakegc.toml").write_text(settings["data"]["lakegc.toml"])
    assert load_settings(tmp_path / "lakegc.toml", {}).repository_patterns == ("team-*",)


def test_the_image_copies_what_there_is_and_what_the_package_needs():
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = {
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    assert {"pyproject.toml", "README.md", "LICENSE", "spark_core", "lakegc_dagster"} <= copied
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_units_but_that_nothing_is_installed():
    units = sorted((DEPLOY / "systemd").iterdir())
    told = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    lines = [
        line for line in told.stderr.splitlines() if "/opt/lakegc/bin/lakegc is not" not in line
    ]
    assert [line for line in lines if "lakegc" in line] == []


def test_the_units_run_commands_that_there_are():
    unit = (DEPLOY / "systemd" / "lakegc.service").read_text()
    named = re.findall(r"^Exec\w+=-?/opt/lakegc/bin/lakegc (\w+)$", unit, re.MULTILINE)
    assert named == ["run", "notify"]
    assert set(named) <= main.commands.keys()


@pytest.mark.parametrize("mode", RENDERED)
def test_the_chart_becomes_what_is_recorded(mode):
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm here (go install helm.sh/helm/v3/cmd/helm@latest)")
    words = [helm, "template", "lakegc", str(CHART), "--set", f"mode={mode}"]
    made = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert made == RENDERED[mode].read_text()


def every_manifest():
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")) + sorted(RENDERED.values()):
        for document in yaml.safe_load_all(file.read_text()):
            yield pytest.param(document, id=f"{file.name} {document['kind']}")


@pytest.mark.parametrize("manifest", every_manifest())
def test_every_manifest_is_what_kubernetes_takes(manifest):
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_a_manifest_with_a_mistyped_field_is_not_taken():
    (job,) = [each for each in MANIFESTS if each["kind"] == "CronJob"]
    wrong = {**job, "spec": {**job["spec"], "concurencyPolicy": "Forbid"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_the_chart_runs_what_the_manifests_run():
    def containers(documents):
        for each in documents:
            if each["kind"] == "CronJob":
                yield from each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
            if each["kind"] == "Deployment":
                yield from each["spec"]["template"]["spec"]["containers"]

    rendered = [
        document for file in RENDERED.values() for document in yaml.safe_load_all(file.read_text())
    ]
    both = [list(containers(each)) for each in (MANIFESTS, rendered)]
    for name in ("args", "image", "envFrom", "securityContext", "volumeMounts"):
        assert [each[name] for each in both[0]] == [each[name] for each in both[1]], name
    (settings, *_) = [each for each in rendered if each["kind"] == "ConfigMap"]
    assert "[server]" in settings["data"]["lakegc.toml"]


def test_the_workflow_is_one_and_runs_commands_that_there_are():
    words = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
    ]
    told = subprocess.run([*words, WORKFLOW], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["mark"]["steps"]
    shell = "\n".join(step["run"] for step in steps if "run" in step)
    named = re.findall(r"\blakegc (\w+)", shell)
    assert named == ["mark", "report"]
    assert set(named) <= main.commands.keys()


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="needs actionlint (Go)")
def test_actionlint_finds_nothing_in_the_workflow():
    told = subprocess.run(["actionlint", WORKFLOW], capture_output=True, text=True, check=False)
    assert told.stdout == ""


def test_every_instruction_of_the_dockerfile_is_one_that_its_test_runs():
    words = {
        line.split()[0]
        for line in (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
        if line and not line.startswith("#")
    }
    assert words <= {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
