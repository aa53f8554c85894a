"""Strings: cut with the number cut, mended, and without the media written into them."""

from __future__ import annotations

import pytest

from actionspan.content import snapshot
from actionspan.content._text import ALLOWANCE, bounded
from actionspan.policy import NormalizationLimits

LIMITS = NormalizationLimits()


def cut_at(limit: int, text: str) -> str:
    kept = snapshot(text, NormalizationLimits(max_string_characters=limit))
    assert isinstance(kept, str)
    return kept


def test_a_cut_string_ends_in_the_number_of_characters_cut() -> None:
    assert cut_at(5, "abcde") == "abcde"
    assert cut_at(5, "abcdefg") == "abcde…<truncated 2>"
    assert cut_at(4096, "x" * 5_000_000) == "x" * 4096 + "…<truncated 4995904>"


def test_the_number_is_of_the_original_when_only_the_bytes_run_out() -> None:
    kept = snapshot("é" * 5000, NormalizationLimits(max_total_bytes=100))
    text, _, number = kept.removesuffix(">").partition("…<truncated ")
    assert len(text) + int(number) == 5000
    assert len(kept.encode()) + 2 <= 100


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert cut_at(10, "a\ud800b") == "a\ufffdb"
    assert cut_at(10, "\ude00\ud83d") == "\ufffd\ufffd"
    assert cut_at(10, "\ud83d\ude00") == "😀"
    assert cut_at(1, "\ud83d\ude00x") == "😀…<truncated 1>"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("data:image/png;base64,aGk=", "data:image/png;base64,<binary>"),
        ("see (data:image/png;base64,aGk=) there", "see (data:image/png;base64,<binary>) there"),
        ("DATA:Image/PNG;BASE64,aGk=", "data:Image/PNG;base64,<binary>"),
        ("DaTa:image/png;base64,aGk=", "data:image/png;base64,<binary>"),
        ("data:;base64,aGk=", "data:;base64,<binary>"),
        ("data:audio/wav;name=x.wav;base64,aGk= and text", "data:audio/wav;base64,<binary> and text"),
        ("data:image/svg+xml,%3Csvg%20a%3D'1' x", "data:image/svg+xml,<binary>'1' x"),
        ("data:text/plain;charset=utf-8,hello%20there!", "data:text/plain,<binary>"),
        ('{"u": "data:image\\/png;base64,aGk\\/="}', '{"u": "data:image\\/png;base64,<binary>"}'),
        ("data:a/b;base64,aaaa\naaaa\r\n  aaaa= end", "data:a/b;base64,<binary> end"),
        (r'{"u": "data:a/b;base64,aaaa\n  aa\r\naa  \naa\"e"}', r'{"u": "data:a/b;base64,<binary>\"e"}'),
        ("data:a/b;base64,aaaa\n\nend", "data:a/b;base64,<binary>\n\nend"),
        ('data:a/b;base64,aaaa  \n "end', 'data:a/b;base64,<binary>  \n "end'),
        ("one data:a/b;base64,aa two data:c/d;base64,bb", "one data:a/b;base64,<binary> two data:c/d;base64,<binary>"),
        ("data:image/png;base64,<binary>", "data:image/png;base64,<binary>"),
        ("the data: a, b", "the data: a, b"),
        ("data:, metadata:x,y", "data:, metadata:x,y"),
    ],
)
def test_data_uris_anywhere_keep_only_their_media_type(text: str, kept: str) -> None:
    assert snapshot(text, LIMITS) == kept
    assert snapshot({"deep": [text], text: object()}, LIMITS) == {"deep": [kept], kept: "<unsupported>"}
    assert snapshot({text: 1}, LIMITS) == {kept: 1}


@pytest.mark.parametrize("lead", [0, 4060, 4075, 4090, 4096])
def test_data_uris_at_the_cut_and_longer_than_the_window(lead: int) -> None:
    kept = snapshot("." * lead + "data:image/png;base64," + "Q" * 5_000_000, LIMITS)
    assert "QQ" not in kept
    assert kept.endswith(">")
    assert "…<truncated " in kept


def test_text_after_a_short_data_uri_still_fits() -> None:
    assert cut_at(40, "data:image/png;base64," + "Q" * 1000 + " end") == "data:image/png;base64,<binary> end"


class Watched(str):
    """Text that tells how far it was looked at."""

    furthest = 0

    def __getitem__(self, part: object) -> str:
        assert isinstance(part, slice)
        Watched.furthest = max(Watched.furthest, part.stop)
        return super().__getitem__(part)


def test_no_more_than_the_limit_and_the_allowance_is_looked_at() -> None:
    assert bounded(Watched("x" * 1_000_000), 100)[0].endswith("…<truncated 999900>")
    assert Watched.furthest == 100 + ALLOWANCE


def test_looking_for_media_is_linear() -> None:
    """Each of these would take far longer than any test run if a beginning were scanned from more than once."""
    for piece in ("data:", "data:a/", "data:a/b;", "data:a/b;c=d", "data:a/b;base64,", "data:;base64 ,", "data:a/b,("):
        text = piece * (12_000 // len(piece))
        assert len(snapshot(text, LIMITS)) <= 4096 + 20
