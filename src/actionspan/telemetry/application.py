"""An application's own actions: the same ids, policy and outcome rules, around any code."""

from __future__ import annotations

import functools
import inspect
import re
from asyncio import CancelledError
from collections.abc import Callable
from contextvars import Token
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from actionspan import guard
from actionspan.telemetry import names
from actionspan.telemetry.active import active_pipeline
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.span import ActionSpan
from actionspan.vocabulary import ActionNamespace

__all__ = ["action"]

F = TypeVar("F", bound=Callable[..., Any])

_RESERVED: Final = frozenset(
    {
        ActionNamespace.AGENT,
        ActionNamespace.MODEL,
        ActionNamespace.TOOL,
        ActionNamespace.OUTPUT,
        ActionNamespace.MCP,
        ActionNamespace.CONTROL,
    }
)
_WORD: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*\Z")
_UNSET: Final = object()


class action:  # used like a function, as contextlib's are
    """An action of the application, around a block or a function.

        with action("dispatch", "send", name="orders", request=order) as sending:
            sending.response = queue.send(order)

        @action("billing", "charge")
        async def charge(customer: str, cents: int) -> Receipt: ...

    Works as `with`, `async with`, and decorator of functions and coroutine functions; decorated, the arguments are the
    request and the return value is the response. `request` and `response` are content: `include_dispatch_requests`
    and `include_dispatch_responses` admit them in namespace `dispatch`, `include_custom_content` in any other. `name`
    is metadata, so it must be one the application declares. An exception makes the outcome error, a `TimeoutError`
    with `owns_deadline=True` timeout, a cancelled task cancelled. While nothing is instrumented it does nothing.

    Raises `ValueError` for a namespace of the library's own actions, or a namespace or operation that is not of the
    form `word` or `word.word`; `TypeError` when it decorates a generator, or one object is entered twice.
    """

    response: Any = None
    """What came of it; recorded when the block ends, where the policy admits it."""

    def __init__(
        self,
        namespace: str,
        operation: str,
        *,
        name: str | None = None,
        request: Any = _UNSET,
        owns_deadline: bool = False,
    ) -> None:
        for label, word in (("namespace", namespace), ("operation", operation)):
            if not _WORD.match(word):
                raise ValueError(f"action {label} {word!r} is not of the form word or word.word, in lower case")
        if namespace in _RESERVED:
            raise ValueError(f"action namespace {namespace!r} is for the library's own actions; choose another")
        self._namespace = namespace
        self._operation = operation
        self._name = name
        self._request = request
        self._owns_deadline = owns_deadline
        self._entered = False
        self._action: ActionSpan | None = None
        self._token: Token[Context] | None = None

    @property
    def action_id(self) -> str | None:
        """Its id, while nothing went wrong and something is instrumented."""
        return None if self._action is None else self._action.action_id

    def __enter__(self) -> Self:
        if self._entered:
            raise TypeError("an action is entered once; make another one")
        self._entered = True
        self._action = guard.call("application.start", self._start)
        if self._action is not None:
            self._token = self._action.attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        started = self._action
        if started is None:
            return
        started.detach(self._token)
        guard.call("application.end", lambda: self._end(started, error))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, function: F) -> F:
        """Make every call of `function` such an action."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("action() decorates functions and coroutine functions, not generators")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                async with self._for_call(function, args, kwargs) as called:
                    called.response = result = await function(*args, **kwargs)
                    return result

            return cast("F", call_async)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._for_call(function, args, kwargs) as called:
                called.response = result = function(*args, **kwargs)
                return result

        return cast("F", call)

    def _for_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> action:
        request = self._request
        if request is _UNSET:
            request = guard.call("application.arguments", lambda: _arguments(function, args, kwargs), _UNSET)
        return action(
            self._namespace,
            self._operation,
            name=self._name,
            request=request,
            owns_deadline=self._owns_deadline,
        )

    def _start(self) -> ActionSpan | None:
        pipeline = active_pipeline()
        if pipeline is None or not is_instrumentation_enabled():
            return None
        enclosing = self._operation if self._name is None else f"{self._operation} {self._name}"
        return pipeline.start(
            self._namespace,
            self._operation,
            name=enclosing,
            attributes={names.NAME: self._name},
            request=None if self._request is _UNSET else (self._category("requests"), names.REQUEST, self._request),
        )

    def _end(self, started: ActionSpan, error: BaseException | None) -> None:
        if self.response is not None:
            response = self.response
            started.add_content(
                self._category("responses"),
                names.RESPONSE,
                lambda content: content.value(names.RESPONSE, response, response=True),
            )
        if isinstance(error, (CancelledError, GeneratorExit)):
            started.interrupt(error)
        else:
            started.finish(self._ending(error))

    def _ending(self, error: BaseException | None) -> Ending:
        if error is None:
            return Ending.success()
        if isinstance(error, TimeoutError) and self._owns_deadline:
            return Ending.timeout(error=error)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            return Ending.cancelled("process_exit")
        return Ending.failure(error)

    def _category(self, direction: str) -> str:
        dispatch = self._namespace == ActionNamespace.DISPATCH
        return f"include_dispatch_{direction}" if dispatch else "include_custom_content"


def _arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by parameter name, without `self`."""
    bound = inspect.signature(function).bind(*args, **kwargs).arguments
    return {name: value for name, value in bound.items() if name != "self"}
