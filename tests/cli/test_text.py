"""Text for people: nothing recorded steers the terminal, and numbers stay short."""

from __future__ import annotations

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actionspan.cli._text import ascii_json, cut, dollars, harmless, harmless_json, seconds, short_number

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eesrever\u2066 \u200bzero\r\n\x7f [bold]markup[/bold]"
STEERING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_what_steers_a_terminal_is_spelt_out():
    assert harmless(HOSTILE) == (
        r"\x1b[31mred\x1b]0;title\x07 \x9b2J \u202eesrever\u2066 \u200bzero\r\n\x7f [bold]markup[/bold]"
    )
    assert harmless("naïve 日本 🎉 ✓") == "naïve 日本 🎉 ✓"


@given(st.text())
def test_no_text_keeps_a_character_that_steers(text: str):
    assert not {unicodedata.category(character) for character in harmless(text)} & STEERING


@given(st.dictionaries(st.text(), st.text()))
def test_json_is_harmless_and_means_the_same(value: dict[str, str]):
    encoded = harmless_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(encoded) == value
    assert not {unicodedata.category(character) for character in encoded} & STEERING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.0, "0.0ms"),
        (0.00042, "0.4ms"),
        (0.0094, "9.4ms"),
        (0.00999, "10ms"),
        (0.0812, "81ms"),
        (0.9996, "1.00s"),
        (59.99, "59.99s"),
        (59.996, "1m 00s"),
        (3599.6, "1h 00m"),
        (7620.0, "2h 07m"),
    ],
)
def test_durations_take_the_unit_that_suits_them(value: float | None, text: str):
    assert seconds(value) == text


def test_counts_and_money_are_short_and_what_is_unknown_is_empty():
    assert [short_number(value) for value in (None, 0, 9_999, 12_345, 999_949, 999_960, 4_500_000, 7 * 10**9)] == [
        "", "0", "9,999", "12.3k", "999.9k", "1.0M", "4.5M", "7.0G",
    ]  # fmt: skip
    assert [dollars(value) for value in (None, 0.0, 1e-9, 0.00005, 0.00123, 12.5, 1234.0)] == [
        "", "$0.0000", "<$0.0001", "$0.0001", "$0.0012", "$12.50", "$1,234.00",
    ]  # fmt: skip


@given(st.text())
def test_json_for_a_poor_encoding_means_the_same(text: str):
    encoded = ascii_json(msgspec.json.encode(text).decode())
    assert encoded.isascii()
    assert msgspec.json.decode(encoded) == text


def test_a_long_text_says_how_much_is_missing():
    assert cut("x" * 5, 5) == "xxxxx"
    assert cut("x" * 5000, 3) == "xxx [4,997 more characters]"
