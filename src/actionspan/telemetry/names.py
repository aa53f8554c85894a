"""Every attribute, metric and event name we emit, and the schema URL that goes with them.

The `gen_ai.*` names are those `opentelemetry-util-genai` emits: they are newer than the constants in the
semantic-conventions package, so they are written out here and a test compares them with that library. Our own live
under `actionspan.`. No name is a prefix of another, so that a backend may nest them.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "actionspan"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.37.0"

# --- GenAI semantic conventions ---
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"
EMBEDDINGS_DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
PROMPT_NAME: Final = "gen_ai.prompt.name"
TOKEN_TYPE: Final = "gen_ai.token.type"

# --- GenAI content ---
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

# --- MCP semantic conventions ---
MCP_METHOD_NAME: Final = "mcp.method.name"
MCP_SESSION_ID: Final = "mcp.session.id"
MCP_PROTOCOL_VERSION: Final = "mcp.protocol.version"
MCP_RESOURCE_URI: Final = "mcp.resource.uri"
JSONRPC_REQUEST_ID: Final = "jsonrpc.request.id"
RPC_RESPONSE_STATUS_CODE: Final = "rpc.response.status_code"
NETWORK_TRANSPORT: Final = "network.transport"

# --- General semantic conventions ---
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

# --- Our own ---
PREFIX: Final = "actionspan."
NAMESPACE: Final = "actionspan.namespace"
OPERATION: Final = "actionspan.operation"
ACTION_ID: Final = "actionspan.action_id"
PARENT_ACTION_ID: Final = "actionspan.parent_action_id"
ROOT_ACTION_ID: Final = "actionspan.root_action_id"
RUN_ACTION_ID: Final = "actionspan.run_action_id"
ATTEMPT: Final = "actionspan.attempt"
OUTCOME: Final = "actionspan.outcome"
OUTCOME_REASON: Final = "actionspan.outcome_reason"
RUN_ID: Final = "actionspan.run_id"
STEP: Final = "actionspan.step"
FRAMEWORK: Final = "actionspan.framework"
PROMPT_VERSION: Final = "actionspan.prompt_version"
MODEL_VERSION: Final = "actionspan.model_version"
OUTPUT_MODE: Final = "actionspan.output_mode"
RESUMES_RUN_ID: Final = "actionspan.resumes_run_id"
TOOL_EXECUTED: Final = "actionspan.tool_executed"
COST_USD: Final = "actionspan.cost_usd"
NAME: Final = "actionspan.name"
REQUEST: Final = "actionspan.request"
RESPONSE: Final = "actionspan.response"
METADATA: Final = "actionspan.metadata"
INVENTED_TOOL_NAME: Final = "actionspan.invented_tool_name"
DENIAL: Final = "actionspan.denial_message"
INCOMPLETE: Final = "actionspan.incomplete"
ENVELOPE_STATUS: Final = "actionspan.envelope_status"
ENVELOPE_ITERATION_COUNT: Final = "actionspan.envelope_iteration_count"
ENVELOPE_RECOVERED: Final = "actionspan.envelope_recovered"
ENVELOPE_ERROR_CODE: Final = "actionspan.envelope_error_code"
ENVELOPE_ERROR_MESSAGE: Final = "actionspan.envelope_error_message"
INPUT_MESSAGES_OFFSET: Final = "actionspan.input_messages_offset"
UNFINISHED: Final = "actionspan.unfinished"
EDRI_EVENT_ID: Final = "actionspan.edri_event_id"
EDRI_DISPATCHED_EVENT_ID: Final = "actionspan.edri_dispatched_event_id"
LINK: Final = "actionspan.link"
CHECKPOINT_ID: Final = "actionspan.checkpoint_id"
CONTROL_DIRECTIVE: Final = "actionspan.control_directive"
CONTROL_GATE: Final = "actionspan.control_gate"
CONTROL_LABEL: Final = "actionspan.control_label"
CONTROL_NOW: Final = "actionspan.control_now"
CONTROL_PRIORITY: Final = "actionspan.control_priority"
CONTROL_REASON: Final = "actionspan.control_reason"
CONTROL_RECEIPT_ID: Final = "actionspan.control_receipt_id"
CONTROL_SOURCE: Final = "actionspan.control_source"
CONTROL_STATE: Final = "actionspan.control_state"
USAGE_PREFIX: Final = "actionspan.usage."
RUN_USAGE_INPUT_TOKENS: Final = "actionspan.usage.input_tokens"
RUN_USAGE_OUTPUT_TOKENS: Final = "actionspan.usage.output_tokens"
RUN_USAGE_CACHE_READ: Final = "actionspan.usage.cache_read.input_tokens"
RUN_USAGE_CACHE_WRITE: Final = "actionspan.usage.cache_write.input_tokens"
RUN_USAGE_REASONING: Final = "actionspan.usage.reasoning.output_tokens"
RUN_USAGE_REQUESTS: Final = "actionspan.usage.requests"
RUN_USAGE_TOOL_CALLS: Final = "actionspan.usage.tool_calls"

CONTENT_ATTRIBUTES: Final = frozenset(
    {
        SYSTEM_INSTRUCTIONS,
        INPUT_MESSAGES,
        OUTPUT_MESSAGES,
        TOOL_DEFINITIONS,
        TOOL_CALL_ARGUMENTS,
        TOOL_CALL_RESULT,
        AGENT_DESCRIPTION,
        REQUEST,
        RESPONSE,
        METADATA,
        INVENTED_TOOL_NAME,
        DENIAL,
        ENVELOPE_ERROR_CODE,
        ENVELOPE_ERROR_MESSAGE,
        MCP_RESOURCE_URI,
        CONTROL_DIRECTIVE,
        CONTROL_LABEL,
        CONTROL_REASON,
    }
)
"""Attributes that carry content: present only where a category admits them, and first to be left out."""

# --- Metrics ---
METRIC_OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
METRIC_TOKEN_USAGE: Final = "gen_ai.client.token.usage"
METRIC_TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
METRIC_TIME_PER_OUTPUT_CHUNK: Final = "gen_ai.client.operation.time_per_output_chunk"
METRIC_EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
METRIC_INVOKE_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
METRIC_MCP_DURATION: Final = "mcp.client.operation.duration"
METRIC_COST: Final = "actionspan.cost"
METRIC_CONTAINED_FAILURES: Final = "actionspan.contained_failures"
METRIC_TRUNCATIONS: Final = "actionspan.truncations"
METRIC_RECORDER_WRITTEN: Final = "actionspan.recorder.written"
METRIC_RECORDER_DROPPED: Final = "actionspan.recorder.dropped"

# --- Log events ---
EVENT_INFERENCE_DETAILS: Final = "gen_ai.client.inference.operation.details"
