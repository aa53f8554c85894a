"""What a tool declares secret is never shown, although the model wrote it as plain text."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
from pydantic_ai.tools import ToolDefinition

from actionspan import ActionPolicy
from actionspan.policy import CATEGORIES
from actionspan.pydantic_ai.declared_secrets import secrets_of_tool
from actionspan.testing import capture
from scripted import calls, script


class Login(BaseModel):
    user: str
    password: SecretStr


class Account(BaseModel):
    login: Login
    old: list[Login] = []
    by_site: dict[str, SecretStr] = {}
    pair: tuple[str, SecretBytes] | None = None
    parent: Account | None = None


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({"user": "me", "password": "S"}, {"user": "me", "password": "<secret>"}),
        ({"user": "me", "password": None}, {"user": "me", "password": None}),
        ({"user": "me", "password": {"value": "S"}}, {"user": "me", "password": "<secret>"}),
    ],
)
def test_a_secret_field(written: dict[str, Any], shown: dict[str, Any]):
    assert hidden(Login, written) == shown


def test_secrets_wherever_a_schema_has_them():
    login = {"user": "me", "password": "S"}
    written = {
        "login": login,
        "old": [login, login],
        "by_site": {"a": "S", "b": "S"},
        "pair": ["me", "S"],
        "parent": {"login": login, "parent": {"by_site": {"a": "S"}}},
    }
    safe = {"user": "me", "password": "<secret>"}
    assert hidden(Account, written) == {
        "login": safe,
        "old": [safe, safe],
        "by_site": {"a": "<secret>", "b": "<secret>"},
        "pair": ["me", "<secret>"],
        "parent": {"login": safe, "parent": {"by_site": {"a": "<secret>"}}},
    }
    assert written["login"] is login
    assert login["password"] == "S"


@pytest.mark.parametrize("written", ['{"user": "me", "password": "S', "S", ["S"], 5])
def test_arguments_that_cannot_be_told_apart_are_hidden_whole(written: object):
    assert hidden(Login, written) == "<secret>"


class Anonymous(BaseModel):
    nickname: str


class Choice(BaseModel):
    who: Login | Anonymous
    extra: dict[str, object] = {}


def test_a_field_that_the_tool_does_not_have_is_hidden():
    assert hidden(Login, {"user": "me", "login": {"password": "S"}}) == {"user": "me", "login": "<secret>"}
    validated = Login(user="me", password=SecretStr("S"))
    assert hidden(Login, {"login": validated}) == {"login": validated}


def test_a_field_that_another_choice_has_or_any_field_where_all_are_allowed_is_shown():
    written = {"who": {"nickname": "me"}, "extra": {"a": {"b": 1}}}
    assert hidden(Choice, written) == written
    assert hidden(Choice, {"who": {"user": "me", "password": "S"}}) == {"who": {"user": "me", "password": "<secret>"}}


def test_a_tool_without_secrets_costs_nothing():
    assert secrets_of_tool(tool(type("Plain", (BaseModel,), {"__annotations__": {"user": str}}))) is None
    assert secrets_of_tool(None) is None


def test_a_schema_that_refers_to_itself_ends():
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"writeOnly": True}]}}}
    secrets = secrets_of_tool(ToolDefinition(name="f", parameters_json_schema=loop))
    assert secrets is not None
    assert secrets.hide({"a": "S"}) == "<secret>"


def test_a_schema_that_is_too_deep_to_be_read_hides_what_is_below():
    deep: dict[str, Any] = {"type": "string"}
    value: object = "S"
    for _ in range(200):
        deep, value = {"type": "object", "properties": {"a": deep}}, {"a": value}
    secrets = secrets_of_tool(ToolDefinition(name="f", parameters_json_schema=deep))
    assert secrets is not None
    assert "<secret>" in repr(secrets.hide(value))
    assert "'S'" not in repr(secrets.hide(value))


async def test_a_retry_that_the_tool_asks_for_in_its_own_words_is_shown():
    agent = Agent(script(calls(("login", {"user": "me", "password": "S"}, "c1")), "ok"), name="a")

    @agent.tool_plain
    def login(user: str, password: SecretStr) -> str:
        raise ModelRetry("ask the user first")

    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await agent.run("go")
    *_, last = seen.named("chat scripted")
    assert "ask the user first" in last.attributes["gen_ai.input.messages"]
    assert '"S"' not in repr([dict(span.attributes) for span in seen.spans])


def tool(model: type[BaseModel]) -> ToolDefinition:
    return ToolDefinition(name="f", parameters_json_schema=model.model_json_schema())


def hidden(model: type[BaseModel], arguments: object) -> object:
    secrets = secrets_of_tool(tool(model))
    assert secrets is not None
    return secrets.hide(arguments)


@pytest.mark.parametrize("category", [*CATEGORIES])
def test_no_category_shows_a_secret_of_accepted_rejected_and_waiting_calls(category: str):
    login = {"user": "me", "password": "hunter2"}
    agent = Agent(
        script(
            calls(("sign_in", {"login": login}, "c1")),
            calls(("sign_in", '{"site": "x", "login": {"password": "hunter2"', "c2")),
            calls(("sign_in", {"site": "x", "login": login}, "c3")),
            calls(("final_result", {"user": "me", "password": "hunter2"}, "c4")),
            calls(("sign_out", {"login": login}, "c5")),
        ),
        name="a",
        output_type=[Login, DeferredToolRequests],
        retries=3,
    )

    @agent.tool_plain
    def sign_in(site: str, login: Login) -> str:
        return f"{site}: {login.password}"

    @agent.tool_plain(requires_approval=True)
    def sign_out(login: Login) -> str:
        return "out"

    with capture(mode="content", policy=ActionPolicy.of([category])) as seen:
        result = agent.run_sync("go")
        assert result.output.password.get_secret_value() == "hunter2"
        agent.run_sync("again", message_history=result.all_messages())
    shown = [str(dict(span.attributes or {})) for span in seen.spans] + [str(seen.records)]
    if category == "error_messages":
        # An exception's text is its author's: Pydantic's quotes the input it rejects.
        assert "hunter2" not in "".join(shown[:-1])
    else:
        assert "hunter2" not in "".join(shown)
        assert ("<secret>" in "".join(shown)) == (category in ("model_requests", "model_responses", "tool_arguments"))
