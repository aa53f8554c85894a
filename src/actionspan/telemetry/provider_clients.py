"""No second `chat` span where the provider's client is instrumented as well.

Instrumentations of provider clients look in the context for a request that is under way already, and then leave the
span to it. A request of ours says so in the words of both families: those made with OpenTelemetry's GenAI utilities,
and OpenLLMetry's.
"""

from __future__ import annotations

import sys
from typing import Final

from opentelemetry import context as otel_context
from opentelemetry.context import Context

__all__ = ["with_client_spans_left_to_us"]

_UTILITIES: Final = "opentelemetry.util.genai.invocation"
_OPENLLMETRY: Final = ("opentelemetry.semconv_ai", "suppress_language_model_instrumentation")


def with_client_spans_left_to_us(context: Context) -> Context:
    """`context` of a request to a model. Nothing is imported for this: what is not in the process makes no span."""
    invocations = sys.modules.get(_UTILITIES)
    if invocations is not None:
        # Theirs writes what it saw into the object, so every request has objects of its own.
        inference = invocations.CLIENT_INFERENCE_CONTEXT_KEY, invocations.InferenceData()
        embedding = invocations.CLIENT_EMBEDDING_CONTEXT_KEY, invocations.EmbeddingData()
        for key, data in (inference, embedding):
            context = otel_context.set_value(key, data, context)
    if _OPENLLMETRY[0] in sys.modules:
        context = otel_context.set_value(_OPENLLMETRY[1], True, context)
    return context
