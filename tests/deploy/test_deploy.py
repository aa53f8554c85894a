"""The files of `docker compose up`: they parse, name images by tag, and the dashboards ask for what is measured.

No container was started: what the programs make of their files is not tested here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from actionspan.telemetry import names
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.measures import measure
from actionspan.telemetry.metrics import Instruments
from actionspan.vocabulary import ActionNamespace, ActionOutcome

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "docker-compose.yml"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
DATASOURCES = DEPLOY / "grafana" / "provisioning" / "datasources" / "actionspan.yaml"
OF_PROMETHEUS = {"le", "job", "instance"}
"""Labels that Prometheus makes; `job` is the `service.name`."""
LANGUAGE = {"sum", "by", "rate", "increase", "histogram_quantile", "label_values", "job"}
UNITS = {"s": "_seconds"}
"""What a unit adds to a name; one in braces adds nothing."""


# --- What is measured, as Prometheus names it ---


@dataclass
class Measured:
    """A meter that writes down its instruments and what they are given."""

    labels: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By the name of each series."""

    def create_histogram(self, name: str, unit: str, **_: Any) -> Any:
        series = [translated(name) + suffix_of(unit) + ending for ending in ("_bucket", "_count", "_sum")]
        return self._instrument(series)

    def create_counter(self, name: str, unit: str, **_: Any) -> Any:
        return self._instrument([translated(name) + suffix_of(unit) + "_total"])

    def _instrument(self, series: list[str]) -> Any:
        for each in series:
            self.labels[each] = set()

        def note(value: float, attributes: dict[str, Any], context: object = None) -> None:
            for each in series:
                self.labels[each] |= {translated(name) for name in attributes}

        return SimpleNamespace(record=note, add=note)


def translated(name: str) -> str:
    return re.sub(r"\W", "_", name)


def suffix_of(unit: str) -> str:
    return "" if unit.startswith("{") else UNITS[unit]


class Everything(dict[str, Any]):
    """Attributes of which none is absent."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return "x"


def measured() -> dict[str, set[str]]:
    """The labels of every series, when every action has every attribute it is measured by."""
    meter = Measured()
    instruments = Instruments(meter)  # pyright: ignore[reportArgumentType] # as much of a meter as they use
    everything = Everything(
        {
            names.TOOL_EXECUTED: True,
            names.COST_USD: 0.5,
            names.RESPONSE_TIME_TO_FIRST_CHUNK: 0.5,
            names.USAGE_INPUT_TOKENS: 1,
            names.USAGE_OUTPUT_TOKENS: 1,
        }
    )
    failed = Ending(ActionOutcome.ERROR, code="500")
    for namespace, operation in (("agent", "run"), ("model", "request"), ("tool", "execute"), ("mcp", "tools.call")):
        action: Any = SimpleNamespace(
            namespace=namespace,
            operation=operation,
            span_in_context=None,
            chunk_gaps=[0.1],
            attributes=everything,
            observed=everything.__getitem__,
        )
        measure(instruments, action, failed, 1.0)
    # These two are counted where they happen, each by one attribute of its own.
    instruments.contained_failures.add(1, {"stage": "x"})
    instruments.truncations.add(1, {"field": "x"})
    return meter.labels


MEASURED = measured()


def test_what_is_measured():
    assert MEASURED["gen_ai_invoke_agent_duration_seconds_bucket"] >= {"gen_ai_agent_name", "actionspan_outcome"}
    assert MEASURED["gen_ai_client_token_usage_sum"] >= {"gen_ai_token_type", "gen_ai_request_model"}
    assert "actionspan_cost_total" in MEASURED
    assert all(MEASURED.values())


# --- The files ---


def files() -> Iterator[Path]:
    yield COMPOSE
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file():
            yield path


@pytest.mark.parametrize("path", list(files()), ids=lambda path: str(path.relative_to(ROOT)))
def test_it_parses(path: Path):
    assert path.suffix in (".yaml", ".yml", ".json")
    text = path.read_text()
    assert json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def test_images_are_the_ones_that_were_chosen():
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert {name: service["image"] for name, service in services.items()} == {
        "collector": "otel/opentelemetry-collector-contrib:0.155.0",
        "jaeger": "jaegertracing/jaeger:2.20.0",
        "tempo": "grafana/tempo:3.0.2",
        "prometheus": "prom/prometheus:v3.12.0",
        "grafana": "grafana/grafana:13.1.3",
    }


def test_what_is_mounted_exists_and_ports_are_of_this_machine_only():
    for service in yaml.safe_load(COMPOSE.read_text())["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (ROOT / source).exists()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_collector_sends_each_signal_where_it_can_be_seen():
    config = yaml.safe_load((DEPLOY / "collector.yaml").read_text())
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    pipelines = config["service"]["pipelines"]
    used = {name for pipeline in pipelines.values() for name in pipeline["exporters"]}
    assert used == set(config["exporters"])
    for signal, wanted in (("traces", {"jaeger", "tempo"}), ("metrics", {"prometheus"})):
        hosts = {
            re.sub(r"^\w+://", "", config["exporters"][name]["endpoint"]).partition(":")[0]
            for name in pipelines[signal]["exporters"]
        }
        assert hosts == wanted
        assert hosts <= set(services)


def test_tail_sampling_keeps_whatever_did_not_succeed():
    config = yaml.safe_load((DEPLOY / "collector-tail-sampling.yaml").read_text())
    assert config["service"]["pipelines"]["traces"]["processors"] == ["memory_limiter", "tail_sampling", "batch"]
    policies = {policy["name"]: policy for policy in config["processors"]["tail_sampling"]["policies"]}
    by_outcome = policies["not-a-success"]["string_attribute"]
    assert by_outcome["key"] == names.OUTCOME
    assert set(by_outcome["values"]) == set(ActionOutcome) - {ActionOutcome.SUCCESS}
    by_namespace = policies["run-control"]["string_attribute"]
    assert (by_namespace["key"], by_namespace["values"]) == (names.NAMESPACE, [ActionNamespace.CONTROL])
    assert "invert_match" not in str(policies)


def test_tempo_keeps_and_finds_what_is_sent():
    config = yaml.safe_load((DEPLOY / "tempo.yaml").read_text())
    assert config["distributor"]["max_attribute_bytes"] >= 2**20
    assert config["query_frontend"]["query_end_cutoff"] == "0s"
    assert config["usage_report"]["reporting_enabled"] is False


# --- The queries ---


@dataclass(frozen=True)
class Query:
    """A query in PromQL and where it stands."""

    place: str
    text: str

    def __str__(self) -> str:
        return self.place


def queries() -> Iterator[Query]:
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        for variable in dashboard["templating"]["list"]:
            yield Query(f"{path.stem}, variable {variable['name']}", variable["query"]["query"])
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                yield Query(f"{path.stem}, {panel['title']}", target["expr"])
    for source in yaml.safe_load(DATASOURCES.read_text())["datasources"]:
        for query in source.get("jsonData", {}).get("tracesToMetrics", {}).get("queries", ()):
            yield Query(f"{source['name']}, {query['name']}", query["query"])


def metrics_and_labels(query: str) -> tuple[set[str], set[str]]:
    """The metrics and the labels in a query: what is in quotes, in brackets of a range or a number is neither."""
    rest = re.sub(r'"[^"]*"', "", query)
    rest = re.sub(r"\[[^\]]*\]", "", rest)
    rest = rest.replace("$$__tags", "")
    labels: set[str] = set()
    for group in re.findall(r"\{([^}]*)\}|by \(([^)]*)\)", rest):
        labels |= set(re.findall(r"[a-zA-Z_]\w*", " ".join(group)))
    rest = re.sub(r"\{[^}]*\}|by \([^)]*\)", "", rest)
    looked_up = re.match(r"label_values\((\w+)\s*, (\w+)\)", rest)
    if looked_up:
        return {looked_up[1]}, labels | {looked_up[2]}
    return set(re.findall(r"[a-zA-Z_]\w*", rest)) - LANGUAGE, labels


@pytest.mark.parametrize("query", list(queries()), ids=str)
def test_a_query_asks_for_what_is_measured(query: Query):
    metrics, labels = metrics_and_labels(query.text)
    assert metrics, "it asks for nothing"
    assert metrics <= set(MEASURED)
    for metric in metrics:
        assert labels <= MEASURED[metric] | OF_PROMETHEUS


def test_the_reader_of_queries_sees_what_is_wrong():
    metrics, labels = metrics_and_labels('sum by (a, le) (rate(m_bucket{b=~"$x", c="y"}[5m])) / sum(rate(n{}[1h])) * 3')
    assert metrics == {"m_bucket", "n"}
    assert labels == {"a", "b", "c", "le"}
    assert metrics_and_labels('label_values(m{job=~"$service"}, x)') == ({"m"}, {"job", "x"})


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: Path):
    dashboard = json.loads(path.read_text())
    sources = {source["uid"] for source in yaml.safe_load(DATASOURCES.read_text())["datasources"]}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} is on top of another"
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] in sources
            assert panel["description"]
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$(\w+)", json.dumps([panel.get("targets") for panel in dashboard["panels"]])))
    assert {name for name in used if not name.startswith("__")} == variables


def test_every_metric_is_on_a_dashboard():
    asked = set().union(*(metrics_and_labels(query.text)[0] for query in queries()))
    bases = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in asked}
    assert bases == {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in MEASURED}


def test_links_lead_from_spans_to_metrics_and_back():
    sources = {source["uid"]: source["jsonData"] for source in yaml.safe_load(DATASOURCES.read_text())["datasources"]
               if "jsonData" in source}  # fmt: skip
    links = sources["tempo"]["tracesToMetrics"]
    assert links["datasourceUid"] == "prometheus"
    assert {tag["key"]: tag["value"] for tag in links["tags"]} == {
        "service.name": "job",
        names.AGENT_NAME: translated(names.AGENT_NAME),
    }
    (exemplars,) = sources["prometheus"]["exemplarTraceIdDestinations"]
    assert exemplars["datasourceUid"] == "tempo"
