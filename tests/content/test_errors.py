"""What an exception says has no value in it that a validation rejected: arguments and results have categories."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, validate_call
from pydantic_ai.exceptions import ToolRetryError
from pydantic_ai.messages import ToolReturnPart

from actionspan.content._errors import without_rejected_input


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = 1
    table: dict[str, int] = {}
    text: str = ""

    @field_validator("text")
    @classmethod
    def _checked(cls, text: str) -> str:
        raise ValueError("said by the application")


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Drawn:
    def __repr__(self) -> str:
        return "first line]\nCANARY, second line"


@validate_call
def called(number: int) -> None: ...


REJECTIONS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "a value": (
        lambda: Closed(number="CANARY"),  # type: ignore[arg-type] # that is the test
        ["number", "unable to parse string as an integer [type=int_parsing]"],
    ),
    "several": (
        lambda: Closed(number="CANARY", table={"a": "CANARY"}),  # type: ignore[arg-type,dict-item]
        ["2 validation errors for Closed", "number", "table.a", "[type=int_parsing]"],
    ),
    "a text with a line break": (
        lambda: Closed(number="CANARY]\nCANARY, input_type=str]\nCANARY"),  # type: ignore[arg-type]
        ["[type=int_parsing]"],
    ),
    "what looks like an error": (lambda: Closed(number="[type=x, input_value=[type=y, input_value=CANARY"), ["number"]),  # type: ignore[arg-type]
    "an object that is drawn over several lines": (lambda: Closed(number=Drawn()), ["[type=int_type]"]),  # type: ignore[arg-type]
    "everything, where one is missing": (lambda: Cat.model_validate({"CANARY": "CANARY"}), ["kind", "[type=missing]"]),
    "a field that nobody declared": (
        lambda: Closed(CANARY=1),  # type: ignore[call-arg]
        ["<undeclared>", "Extra inputs are not permitted [type=extra_forbidden]"],
    ),
    "an argument that nobody declared": (
        lambda: called(number=1, CANARY=1),  # type: ignore[call-arg]
        ["<undeclared>", "Unexpected keyword argument [type=unexpected_keyword_argument]"],
    ),
    "a tag": (
        lambda: TypeAdapter(Annotated[Cat | Dog, Field(discriminator="kind")]).validate_python({"kind": "CANARY"}),
        ["Input tag found using 'kind' does not match any of the expected tags: 'cat', 'dog' [type=union_tag_invalid]"],
    ),
    "text that is no JSON": (lambda: Closed.model_validate_json('{"number": "CANARY'), ["Invalid JSON: EOF"]),
    "a validator of the application": (lambda: Closed(text="CANARY"), ["said by the application [type=value_error]"]),
}  # fmt: skip


def rejected(name: str) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        REJECTIONS[name][0]()
    return caught.value


@pytest.mark.parametrize("name", REJECTIONS)
def test_a_validation_error_says_what_is_wrong_and_not_with_what(name: str):
    error = rejected(name)
    assert "CANARY" in str(error)
    text = without_rejected_input(str(error))
    assert "CANARY" not in text
    assert "input_value" not in text.replace("[type=x, input_value=", "")
    assert all(said in text for said in REJECTIONS[name][1])


@pytest.mark.parametrize("name", [name for name in REJECTIONS if "object" not in name])
def test_what_is_sent_back_to_a_model_neither(name: str):
    """Pydantic AI writes the same errors in a form of its own. What a model sends is never an object."""
    details = rejected(name).errors(include_url=False, include_context=False)
    retry = ToolRetryError(ToolReturnPart("t", details, tool_call_id="c", outcome="retried"))
    assert "CANARY" in str(retry)
    shown = without_rejected_input(str(retry))
    assert "CANARY" not in shown
    assert details[0]["type"] in shown


def test_in_a_chain_or_a_group_of_exceptions_the_rest_is_as_it_was():
    outer = RuntimeError("outer text")
    outer.__cause__ = rejected("several")
    group = ExceptionGroup("group text", [outer, rejected("a field that nobody declared"), KeyError("key text")])
    stack = "".join(traceback.format_exception(group))
    shown = without_rejected_input(stack)
    changed = [line for line in stack.splitlines() if line not in shown.splitlines()]
    assert len(changed) == 4
    assert all("input_value" in line or line.strip(" |") == "CANARY" for line in changed)
    assert all("CANARY=" in line or '="CANARY"' in line for line in shown.splitlines() if "CANARY" in line)  # source
    assert all(text in shown for text in ("outer text", "group text", "key text", "<undeclared>"))


@pytest.mark.parametrize("text", ["", "plain", "[type=", "a [type=x] b", "no\nInput tag 'x' found using here"])
def test_other_text_stays(text: str):
    assert without_rejected_input(text) == text


@pytest.mark.parametrize(
    "piece", ["[type=x, input_value=", "Input tag '", "[type=x, input_value=\n", " |", "\n", ", input_type="]
)
def test_its_cost_grows_with_the_text_and_no_faster(piece: str):
    """A model may have chosen it. Quadratic, this would take a minute."""
    assert isinstance(without_rejected_input("[type=" + piece * 200_000), str)
