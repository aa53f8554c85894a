"""The files under `deploy/` and the compose file fit together. No container engine runs here: they are only read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "docker-compose.yml", *sorted((ROOT / "deploy").rglob("*.y*ml"))]


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_a_mapping(path: Path):
    assert isinstance(load(path), dict)


def test_every_image_is_pinned_and_every_mounted_file_exists():
    services = load(ROOT / "docker-compose.yml")["services"]
    for service in services.values():
        name, _, tag = service["image"].rpartition(":")
        assert name
        assert tag[:1].isdigit() or tag[:1] == "v"
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert not source.startswith("./") or (ROOT / source).exists()
        assert set(service.get("depends_on", ())) <= services.keys()


@pytest.mark.parametrize("name", ["collector.yaml", "jaeger.yaml"])
def test_every_part_of_a_pipeline_is_defined(name: str):
    configuration = load(ROOT / "deploy" / name)
    for pipeline in configuration["service"]["pipelines"].values():
        for section in ("receivers", "processors", "exporters"):
            assert set(pipeline[section]) <= configuration[section].keys()
    assert set(configuration["service"].get("extensions", ())) <= configuration.get("extensions", {}).keys()


def test_nothing_listens_beyond_this_machine():
    for service in load(ROOT / "docker-compose.yml")["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
