"""MCP client operations: span names, attributes and content as OpenTelemetry's MCP conventions have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from opentelemetry.trace import SpanKind

from actionspan.telemetry import names
from actionspan.telemetry.current import current_action
from actionspan.telemetry.pipeline import Pipeline
from actionspan.telemetry.span import ActionSpan
from actionspan.telemetry.values import clean_name
from actionspan.vocabulary import ActionNamespace, ActionOperation

__all__ = [
    "DISCOVER",
    "INITIALIZE",
    "METHODS",
    "PROMPTS_GET",
    "PROMPTS_LIST",
    "RESOURCES_LIST",
    "RESOURCES_READ",
    "RESOURCES_TEMPLATES_LIST",
    "TOOLS_CALL",
    "TOOLS_LIST",
    "McpPeer",
    "McpRequest",
    "add_error_code",
    "add_peer",
    "add_request_id",
    "add_response",
    "add_target",
    "runs_tool",
    "start_mcp",
]

INITIALIZE: Final = "initialize"
DISCOVER: Final = "server/discover"
TOOLS_LIST: Final = "tools/list"
TOOLS_CALL: Final = "tools/call"
RESOURCES_LIST: Final = "resources/list"
RESOURCES_TEMPLATES_LIST: Final = "resources/templates/list"
RESOURCES_READ: Final = "resources/read"
PROMPTS_LIST: Final = "prompts/list"
PROMPTS_GET: Final = "prompts/get"

METHODS: Final = frozenset(
    {
        INITIALIZE,
        DISCOVER,
        TOOLS_LIST,
        TOOLS_CALL,
        RESOURCES_LIST,
        RESOURCES_TEMPLATES_LIST,
        RESOURCES_READ,
        PROMPTS_LIST,
        PROMPTS_GET,
    }
)
"""The methods that are actions; `mcp.{method}` with dots is each one's operation."""

_TARGETS: Final[Mapping[str, str]] = {TOOLS_CALL: names.TOOL_NAME, PROMPTS_GET: names.PROMPT_NAME}
"""What the method is aimed at by name."""


def _operation_of(method: str) -> str:
    return method.replace("/", ".")


@dataclass(frozen=True, slots=True)
class McpRequest:
    """What is asked of a server."""

    method: str
    target: str | None = None
    """The tool or prompt asked for, as the caller spelled it: free text until the server is known to have it."""
    uri: str | None = None
    """The resource asked for; content."""
    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    """The parameters; content."""


@dataclass(frozen=True, slots=True)
class McpPeer:
    """The server, as far as the transport tells who and where it is."""

    transport: Literal["pipe", "tcp"] | None = None
    """None for a server in this process."""
    address: str | None = None
    port: int | None = None
    session_id: str | None = None
    protocol_version: str | None = None

    def attributes(self) -> dict[str, object]:
        """As attributes."""
        return {
            names.NETWORK_TRANSPORT: self.transport,
            names.SERVER_ADDRESS: self.address,
            names.SERVER_PORT: self.port,
            names.MCP_SESSION_ID: self.session_id,
            names.MCP_PROTOCOL_VERSION: self.protocol_version,
        }


def start_mcp(pipeline: Pipeline, request: McpRequest, peer: McpPeer, *, declared: bool) -> ActionSpan:
    """Start `mcp.{method}` below the current action.

    `declared`: whether the server is known to have the target, so that its name is metadata. The name of one it is not
    known to have is in the payload only.
    """
    target = clean_name(request.target) if declared and request.target else None
    enclosing = current_action()
    action = pipeline.start(
        ActionNamespace.MCP,
        _operation_of(request.method),
        name=request.method if target is None else f"{request.method} {target}",
        kind=SpanKind.CLIENT,
        attributes={
            # Inside one of our tool actions that action is the tool's execution: a second one would be counted twice.
            names.OPERATION_NAME: "execute_tool" if request.method == TOOLS_CALL and not _in_tool(enclosing) else None,
            names.MCP_METHOD_NAME: request.method,
            **(_target(request) if declared else {}),
            **peer.attributes(),
            **_facts_of_run(enclosing),
        },
        request=("include_mcp_requests", names.REQUEST, request.payload) if request.payload else None,
    )
    uri = request.uri
    if uri is not None:
        action.add_content(
            "include_mcp_requests", names.MCP_RESOURCE_URI, lambda content: content.text(names.MCP_RESOURCE_URI, uri)
        )
    return action


def add_target(action: ActionSpan, request: McpRequest) -> None:
    """Name the tool or prompt asked for, which the server turned out to have."""
    action.set(_target(request))


def _target(request: McpRequest) -> dict[str, object]:
    attribute = _TARGETS.get(request.method)
    return {} if attribute is None or not request.target else {attribute: clean_name(request.target)}


def add_peer(action: ActionSpan, peer: McpPeer) -> None:
    """Say what the answer told of the server."""
    action.set(peer.attributes())


def add_request_id(action: ActionSpan, request_id: str) -> None:
    """Give the JSON-RPC id of the request; of several, the first."""
    if action.observed(names.JSONRPC_REQUEST_ID) is None:
        action.set({names.JSONRPC_REQUEST_ID: request_id})


def add_error_code(action: ActionSpan, code: int) -> None:
    """Give the code of the JSON-RPC error that came instead of an answer."""
    action.set({names.RPC_RESPONSE_STATUS_CODE: str(code)})


def add_response(action: ActionSpan, payload: Callable[[], object]) -> None:
    """Put the answer on the action where it is admitted; else `payload` is never called."""
    action.add_content(
        "include_mcp_responses",
        names.RESPONSE,
        lambda content: content.value(names.RESPONSE, payload(), response=True),
    )


def runs_tool(name: str) -> bool:
    """Whether the current action belongs to an execution of the declared tool `name`."""
    return any(action.observed(names.TOOL_NAME) == name for action in _tools(current_action()))


def _in_tool(enclosing: ActionSpan | None) -> bool:
    return next(_tools(enclosing), None) is not None


def _tools(enclosing: ActionSpan | None) -> Iterator[ActionSpan]:
    """The executions of tools around an action, up to its own run: a sub-agent's calls are not its caller's tool."""
    for action in _within_run(enclosing):
        if (action.namespace, action.operation) in _EXECUTIONS:
            yield action


_EXECUTIONS: Final = {
    (ActionNamespace.TOOL, ActionOperation.EXECUTE),
    (ActionNamespace.MCP, _operation_of(TOOLS_CALL)),
}
"""A server in this process may itself call a server: the tool is then the outer one's."""


def _facts_of_run(enclosing: ActionSpan | None) -> dict[str, object]:
    """What the enclosing actions say of their run, which is this action's run as well."""
    facts: dict[str, object] = {}
    for action in _within_run(enclosing):
        for key in _RUN_FACTS:
            if facts.get(key) is None:
                facts[key] = action.observed(key)
    return facts


_RUN_FACTS: Final = (names.AGENT_NAME, names.CONVERSATION_ID, names.RUN_ID, names.STEP)


def _within_run(action: ActionSpan | None) -> Iterator[ActionSpan]:
    """`action` and what encloses it, out to its run's own action."""
    while action is not None:
        yield action
        if action.namespace == ActionNamespace.AGENT:
            return
        action = action.parent
