"""Our names are those of the conventions, and the private names we lean on are still there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pydantic_ai
import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, mcp_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics, mcp_metrics
from opentelemetry.util import genai
from opentelemetry.util.genai import _instruments
from pydantic_ai import Embedder, RunContext, direct
from pydantic_ai.agent import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

import actionspan
from actionspan.pydantic_ai import compat
from actionspan.telemetry import metrics, names
from actionspan.telemetry.compat import limits_of


def constants(prefix: str) -> dict[str, str]:
    return {key: value for key, value in vars(names).items() if isinstance(value, str) and value.startswith(prefix)}


def genai_source() -> str:
    """Everything that OpenTelemetry's own GenAI library says, as text."""
    modules = [info.name for info in pkgutil.walk_packages(genai.__path__, "opentelemetry.util.genai.")]
    return "\n".join(inspect.getsource(importlib.import_module(name)) for name in modules if "_upload" not in name)


@pytest.mark.parametrize("name", sorted(constants("gen_ai.").values()))
def test_every_gen_ai_name_is_one_that_opentelemetry_emits(name: str):
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    assert name in known or f'"{name}"' in genai_source()


def test_the_schema_url_goes_with_the_names():
    source = inspect.getsource(importlib.import_module("opentelemetry.util.genai.handler"))
    version = names.SCHEMA_URL.rpartition("/")[2].replace(".", "_")
    assert f"schema_url = Schemas.V{version}.value" in source


def test_the_mcp_names():
    known = {
        value for module in (mcp_attributes, mcp_metrics) for value in vars(module).values() if isinstance(value, str)
    }
    assert set(constants("mcp.").values()) <= known


def test_the_boundaries_are_those_of_the_conventions():
    def rounded(values):
        return [round(value, 9) for value in values]

    advice = vars(_instruments)
    assert rounded(metrics.CLIENT_SECONDS) == rounded(advice["_GEN_AI_CLIENT_OPERATION_DURATION_BUCKETS"])
    assert rounded(metrics.AGENT_SECONDS) == rounded(advice["_GEN_AI_INVOKE_AGENT_DURATION_BUCKETS"])
    assert rounded(metrics.TOKENS) == rounded(advice["_GEN_AI_CLIENT_TOKEN_USAGE_BUCKETS"])


def test_no_attribute_name_is_a_prefix_of_another():
    every = sorted(
        value
        for key, value in vars(names).items()
        if key.isupper()
        and isinstance(value, str)
        and "." in value
        and not key.startswith(("METRIC_", "EVENT_"))
        and value[-1] != "."
    )
    every.remove(names.SCHEMA_URL)
    assert [(one, other) for one in every for other in every if other.startswith(one + ".")] == []


def test_the_span_limits_of_the_sdk_can_be_read():
    limits = SpanLimits(max_span_attributes=5, max_span_attribute_length=7)
    found = limits_of(TracerProvider(span_limits=limits, shutdown_on_exit=False).get_tracer("x"))
    assert (found.count, found.length) == (5, 7)


def test_the_private_names_of_the_library_are_there():
    assert callable(getattr(direct, compat.PREPARE_MODEL))
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    assert hasattr(context, "_cancellation")
    assert compat.cancel_requested(context) is False
    assert hasattr(Embedder("openai:any"), "_override_model")


def test_the_lowest_release_said_is_the_one_depended_on():
    (requirement,) = actionspan.PydanticAIInstrumentor().instrumentation_dependencies()
    assert requirement.endswith(compat.MINIMUM_VERSION)
    assert pydantic_ai.__version__ >= compat.MINIMUM_VERSION
    assert Agent is pydantic_ai.Agent
