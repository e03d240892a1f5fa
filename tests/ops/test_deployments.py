"""The files for containers, Kubernetes and systemd. No container runs here: linters and schemas
check the files, and the command line reads the commands in them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from mita import Mita
from mita.cli import grammar
from mita.cli.web import DEFAULT_PORT
from mita.metrics.table import BY_NAME

OPS = Path(__file__).parents[2] / "ops"
BIN = Path(sys.executable).parent
KUBERNETES = "1.30"


def read(path: str) -> list[dict[str, Any]]:
    return [found for found in yaml.safe_load_all((OPS / path).read_text()) if found]


def run(*command: str | Path) -> str:
    """What a linter says; the test fails if it finds fault."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=OPS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_dockerfile_passes_its_linter() -> None:
    run(BIN / "hadolint", "container/Dockerfile")


def test_every_file_that_the_dockerfile_copies_is_there() -> None:
    text = (OPS / "container" / "Dockerfile").read_text()
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    assert copies
    assert all((OPS.parent / name).exists() for line in copies for name in line.split())


def test_the_compose_file_fits_its_schema() -> None:
    file = "container/compose.yaml"
    run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)
    [compose] = read(file)
    mounted = [one.split(":")[0] for one in compose["services"]["prometheus"]["volumes"]]
    assert all((OPS / "container" / name).resolve().exists() for name in mounted)


def test_the_dashboard_of_the_compose_file_is_reached_from_this_machine_only() -> None:
    [compose] = read("container/compose.yaml")
    web = compose["services"]["web"]
    assert web["ports"] == [f"127.0.0.1:{DEFAULT_PORT}:{DEFAULT_PORT}"]
    assert "MITA_WEB_TOKEN" in web["environment"]
    assert f"127.0.0.1:{DEFAULT_PORT}/login" in web["healthcheck"]["test"][-1]


def test_the_app_of_the_image_enqueues_and_runs(tmp_path: Path) -> None:
    text = (OPS / "container" / "compose.yaml").read_text()
    [typed] = re.findall(r"compose run --rm worker (.+)", text)
    url = f"sqlite:///{tmp_path}/jobs.db"
    for command in (shlex.split(typed), ["worker", "jobs:app", "--until-empty"]):
        done = subprocess.run(
            [BIN / "mita", *command],
            cwd=OPS / "container",
            env={**os.environ, "MITA_URL": url, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    with Mita(url).using_sync(url) as app:
        [job] = app.jobs_sync().jobs
    assert (job.task, job.state, job.result) == ("greet", "succeeded", "hello Ada")


@pytest.mark.parametrize("file", ["worker.yaml", "migrate.yaml"])
def test_the_manifests_fit_the_schemas_of_kubernetes(file: str) -> None:
    for manifest in read(f"kubernetes/{file}"):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_the_probes_ask_what_a_worker_answers() -> None:
    deployment, _ = read("kubernetes/worker.yaml")
    pod = deployment["spec"]["template"]["spec"]
    [worker] = pod["containers"]
    paths = {name: worker[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert paths == {"livenessProbe": "/live", "readinessProbe": "/ready"}
    grace = grammar().parse_args(worker["args"]).grace
    assert pod["terminationGracePeriodSeconds"] >= grace + 5


def test_the_scaler_names_a_deployment_and_a_metric_that_exist() -> None:
    """Its schema belongs to KEDA and is in no package: only these fields are checked."""
    [scaler] = read("kubernetes/keda.yaml")
    deployment, _ = read("kubernetes/worker.yaml")
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    [trigger] = scaler["spec"]["triggers"]
    assert set(trigger["metadata"]) == {"serverAddress", "query", "threshold"}
    assert set(re.findall(r"mita_\w+", trigger["metadata"]["query"])) <= set(BY_NAME)
    assert scaler["spec"]["minReplicaCount"] >= 1


def commands() -> list[list[str]]:
    """The command lines of all these files, without `mita`."""
    docker = (OPS / "container" / "Dockerfile").read_text()
    unit = (OPS / "systemd" / "mita-worker.service").read_text()
    [cmd] = re.findall(r"^CMD (\[.+\])$", docker, re.MULTILINE)
    [start] = re.findall(r"mita (worker.+)", unit)
    [serve] = re.findall(r"mita (web .+)", (OPS / "systemd" / "mita-web.service").read_text())
    [compose] = read("container/compose.yaml")
    web = compose["services"]["web"]["command"]
    found = [yaml.safe_load(cmd), start.split(), serve.split(), web]
    for file in ("worker.yaml", "migrate.yaml"):
        manifest = read(f"kubernetes/{file}")[0]
        found.append(manifest["spec"]["template"]["spec"]["containers"][0]["args"])
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_command_line_takes_these_options(command: list[str]) -> None:
    grammar().parse_args(command)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", ["mita-worker.service", "mita-web.service"])
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    text = (OPS / "systemd" / name).read_text()
    unit = tmp_path / name
    # the program has to be there for the check
    unit.write_text(text.replace("/srv/shop/.venv/bin/mita", str(BIN / "mita")))
    assert not run("systemd-analyze", "verify", "--man=no", unit)
