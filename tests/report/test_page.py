"""The report page in a browser: what it shows, how keys use it, and what hostile content does to it."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from actionspan.cli._app import app
from cli.conftest import Record
from report.chromium import FOUND, Page

pytestmark = pytest.mark.skipif(FOUND is None, reason="no Chromium here: the page is tested in a browser")

MESSAGES = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


def report(directory: Path, *arguments: object) -> Result:
    result = CliRunner().invoke(app, ["report", str(directory), *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [{"type": "text", "content": text}]}]


def make_record(directory: Path) -> Path:
    """Two runs that a person would look into: one that failed, and one with a delegate."""
    record = Record(directory)
    failed = record.action("agent.run", "clerk", at=0, took=1, trace="1" * 32, outcome="error", error="KeyError",
                           agent_id="clerk")  # fmt: skip
    record.action("tool.execute", "lookup", parent=failed, at=0.2, took=0.3, trace="1" * 32, outcome="error",
                  outcome_reason="retry", attempt=2, agent_id="clerk")  # fmt: skip
    run = record.action("agent.run", "support", at=10, took=2, trace="2" * 32, agent_id="support", run_id="run-b")
    record.action("model.request", "fast", parent=run, at=10.1, took=0.5, trace="2" * 32, agent_id="support",
                  model="fast-1", usage={"input_tokens": 1200, "output_tokens": 0},
                  attributes={"actionspan.cost_usd": 0.25}, content={MESSAGES: user(""), OUTPUT: []})  # fmt: skip
    tool = record.action("tool.execute", "ask_clerk", parent=run, at=10.7, took=0.6, trace="2" * 32, agent_id="support",
                         content={"gen_ai.tool.call.arguments": {"account": 12345678901234567890}})  # fmt: skip
    below = record.action("agent.run", "clerk", parent=tool, at=10.8, took=0.4, trace="2" * 32, agent_id="clerk")
    record.action("model.request", "slow", parent=below, at=10.85, took=0.2, trace="2" * 32, agent_id="clerk",
                  model="slow-1", usage={"input_tokens": 30, "output_tokens": 4})  # fmt: skip
    record.action("tool.execute", "", parent=run, at=11.5, took=None, trace="2" * 32, agent_id="support")
    return record.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    page = Page(tmp_path_factory.mktemp("profile"))
    yield page
    page.close()


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> Page:
    report(make_record(tmp_path / "record"), "-o", tmp_path / "report.html", "--content")
    page.open(tmp_path / "report.html")
    return page


def figures(page: Page) -> dict[str, str]:
    return dict(zip(page.texts("#totals dt"), page.texts("#totals dd"), strict=True))


def facts(page: Page) -> dict[str, str]:
    listed = "#details .facts:not(.attributes)"
    return dict(zip(page.texts(f"{listed} dt"), page.texts(f"{listed} dd"), strict=True))


def set_filter(page: Page, name: str, value: str) -> None:
    page.js(
        f"(() => {{ const field = document.getElementById({json.dumps(name)}); field.value = {json.dumps(value)};"
        " field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def chosen(page: Page) -> str:
    return page.text("#timeline .row.chosen .label")


def test_runs_are_listed_newest_first_and_the_newest_is_open(opened: Page):
    assert opened.texts("#runs .row b") == ["support", "clerk"]
    assert opened.text("#run-head") == "✓ support success"
    assert opened.texts("#timeline .row .label") == [
        "▾ ✓ support",
        "✓ chat fast",
        "▾ ✓ ask_clerk",
        "▾ ✓ clerk",
        "✓ chat slow",
        "◌ (empty name) · unfinished",
    ]
    assert opened.complaints() == []


def test_an_unknown_price_is_unknown_and_a_sum_that_lacks_one_says_so(opened: Page):
    assert figures(opened) == {
        "Runs": "2", "Actions": "8", "Failed actions": "2", "Model requests": "2",
        "Tokens in": "1,230", "Tokens out": "4", "Cost": "$0.2500 + unknown",
    }  # fmt: skip
    set_filter(opened, "by-outcome", "=error")
    assert [figures(opened)[name] for name in ("Runs", "Tokens in", "Cost")] == [
        "1",
        NOTHING,
        NOTHING,
    ]  # no model was asked


def test_emptiness_is_shown_as_such(opened: Page):
    opened.js("document.getElementById('timeline').focus()")
    opened.press("ArrowDown")
    assert (facts(opened)["Tokens in"], facts(opened)["Tokens out"], facts(opened)["Cost"]) == ("1,200", "0", "$0.2500")
    assert opened.texts("#details .block") == ["user (empty)", "response (empty)"]
    opened.press("End", "ArrowUp")
    assert (facts(opened)["Model"], facts(opened)["Cost"]) == ("slow-1", "unknown")


def test_numbers_keep_all_their_digits(opened: Page):
    opened.js("document.getElementById('timeline').focus()")
    opened.press("ArrowDown", "ArrowDown")
    assert opened.texts("#details .block") == ['tool call arguments { "account": 12345678901234567890 }']


@pytest.mark.parametrize(
    ("field", "value", "left"),
    [
        ("by-outcome", "=error", ["clerk"]),
        ("by-agent", "=support", ["support"]),
        ("by-agent", "=clerk", ["support", "clerk"]),
        ("by-model", "=slow-1", ["support"]),
        ("search", "LOOKUP retry", ["clerk"]),
        ("search", "run-b", ["support"]),
        ("search", "lookup run-b", []),  # a word of each
        ("search", "nothing like it", []),
    ],
)
def test_filters(opened: Page, field: str, value: str, left: list[str]):
    set_filter(opened, field, value)
    assert opened.texts("#runs .row b") == left
    assert opened.text("#count") == ("2" if len(left) == 2 else f"{len(left)} of 2")


def test_everything_is_reached_by_keys(opened: Page):
    opened.js("document.getElementById('runs').focus()")
    opened.press("ArrowDown")
    assert opened.text("#run-head") == "✗ clerk error"
    opened.press("ArrowUp", "Enter", "ArrowDown", "ArrowDown")
    assert opened.js("document.activeElement.id") == "timeline"
    assert chosen(opened) == "▾ ✓ ask_clerk"
    active = opened.js(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).ariaLabel"
    )
    assert active == "ask_clerk, success, 600 ms, at 700 ms"
    opened.press("ArrowLeft")
    assert opened.texts("#timeline .row .label")[2:] == ["▸ ✓ ask_clerk", "◌ (empty name) · unfinished"]
    assert opened.js("document.querySelector('#timeline .chosen').ariaExpanded") == "false"
    opened.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert chosen(opened) == "✓ chat slow"
    opened.press("ArrowLeft")
    assert chosen(opened) == "▾ ✓ clerk"
    opened.press("Enter")
    assert opened.js("document.activeElement.id") == "details"
    opened.press("Escape")
    assert opened.js("document.activeElement.id") == "timeline"


def test_zoom_shows_less_time_wider(opened: Page):
    def width() -> float:
        return opened.js("document.querySelector('#timeline .chosen .lane b').getBoundingClientRect().width")

    opened.js("document.getElementById('timeline').focus()")
    opened.press("ArrowDown", "ArrowDown")
    before = width()
    opened.press("+")
    assert width() == pytest.approx(2 * before, rel=0.02)
    assert opened.text("#zoom-level") == f"2{TIMES}"
    opened.press("ArrowRight", shift=True)
    assert opened.texts("#timeline .ruler span")[0] != "0 s"
    opened.press("0")
    assert (width(), opened.text("#zoom-level")) == (pytest.approx(before), f"1{TIMES}")
    opened.press("z")
    assert opened.js("document.querySelector('#timeline .chosen .lane b').style.width.slice(0, 2)") == "83"


def test_roles_and_names_for_a_screen_reader(opened: Page):
    tree = opened.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"]}
    assert {
        ("listbox", "Runs 2"), ("treegrid", "Actions of the run, in time"), ("searchbox", "Search runs"),
        ("combobox", "Outcome"), ("combobox", "Agent"), ("combobox", "Model"), ("button", "Zoom in"),
        ("columnheader", "Time since the run began"), ("region", "Details of the action"),
        ("row", "chat fast, success, 500 ms, at 100 ms, tokens in 1,200, out 0"),
    } <= named  # fmt: skip
    (histogram,) = (name for role, name in named if role == "image")
    assert histogram.startswith("How long all actions took: ")


def test_the_histogram_counts_what_is_listed(opened: Page):
    assert sum(int(text) for text in opened.texts("#histogram .many") if text) == 7  # one never ended
    opened.js(
        "(() => { const of = document.getElementById('durations-of'); of.value = 'tool';"
        " of.dispatchEvent(new Event('change')); })()"
    )
    assert sum(int(text) for text in opened.texts("#histogram .many") if text) == 2
    set_filter(opened, "by-agent", "=support")
    assert [text for text in opened.texts("#histogram .many") if text] == ["1"]


def test_an_action_is_found_by_its_address(page: Page, tmp_path: Path):
    target = tmp_path / "report.html"
    report(make_record(tmp_path / "record"), "-o", target)
    page.open(target, "#00000000-0000-0000-0000-000000000001/00000000-0000-0000-0000-000000000002")
    assert chosen(page) == "✗ lookup · retry · attempt 2"
    assert "made without content" in page.text("#details")


def test_ten_thousand_actions_are_not_ten_thousand_elements(page: Page, tmp_path: Path):
    record = Record(tmp_path / "record")
    run = record.action("agent.run", "busy", took=1_000)
    for number in range(10_000):
        record.action("tool.execute", f"step-{number}", parent=run, at=number / 10, took=0.05, starts=False)
    report(record.close(), "-o", tmp_path / "report.html")
    page.open(tmp_path / "report.html")
    page.js("document.getElementById('timeline').focus()")
    rows = "document.querySelectorAll('#timeline .row').length"
    assert 10 < page.js(rows) < 100
    page.press("End")
    assert chosen(page) == "✓ step-9999"
    assert 10 < page.js(rows) < 100
    page.press(*["PageUp"] * 10)
    assert page.js(rows) < 100
    assert page.js("document.getElementById('timeline').getAttribute('aria-rowcount')") == "10002"
    assert page.js("document.querySelectorAll('*').length") < 1_500


HOSTILE = {
    "<script>window.hacked=1</script>": "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>": "</script><script>window.hacked=1</script>",
    "<!--<script>": "<!--<script>",
    "<img src=http://127.0.0.1:9/x onerror=window.hacked=1>": "<img src=http://127.0.0.1:9/x onerror=window.hacked=1>",
    "\x1b[31mred\x07": "\\x1b[31mred\\x07",
    "abc\u202etxt.exe": "abc\\u202etxt.exe",
    "line\u2028break\u2029": "line\\u2028break\\u2029",
    "\ufeffzero\u200bwidth\U000e0041": "\\ufeffzero\\u200bwidth\\u{e0041}",
    "$policy ${script} &lt;b&gt;": "$policy ${script} &lt;b&gt;",
    "__proto__": "__proto__",
}


def test_hostile_content_is_text_wherever_it_stands(page: Page, tmp_path: Path):
    record = Record(tmp_path / "record")
    run = record.action("agent.run", "helper", took=100)
    for text in HOSTILE:
        record.action("tool.execute", text, parent=run, outcome="error", outcome_reason=text, error=text, agent_id=text,
                      attributes={text: text}, content={text: text, MESSAGES: user(text)}, run_id=text)  # fmt: skip
    report(record.close(), "-o", tmp_path / "report.html", "--content")
    page.open(tmp_path / "report.html")
    page.js("document.getElementById('timeline').focus()")
    for shown in HOSTILE.values():
        page.press("ArrowDown")
        assert page.text("#details h2") == f"✗ {shown}"
        assert page.texts("#details pre") == [shown, shown]
        assert facts(page)["Agent"] == shown
        assert page.js("document.querySelector('#details .attributes dt').textContent") == shown
        assert shown in page.text("#timeline .row.chosen .label")
        assert page.js("document.querySelector('#timeline .chosen').ariaLabel").startswith(f"{shown}, error: {shown}, ")
    assert set(HOSTILE.values()) <= set(page.texts("#by-agent option"))
    assert page.js("window.hacked") is None
    assert page.js("document.querySelectorAll('script, img, iframe, link').length") == 2
    assert page.complaints() == []


def note_refusals(page: Page, *directives: str) -> None:
    """Have `refused` wait until each of these directives of the security policy has refused something."""
    page.js(
        f"globalThis.refused = new Promise((done) => {{ const missing = new Set({json.dumps(directives)});"
        " document.addEventListener('securitypolicyviolation', (event) => {"
        " missing.delete(event.effectiveDirective); if (!missing.size) done(true); }); }); 0"
    )


def test_nothing_is_fetched_and_nothing_could_be(opened: Page, tmp_path: Path):
    assert opened.requests() == [(tmp_path / "report.html").as_uri()]
    note_refusals(opened, "connect-src", "img-src", "style-src-elem")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        assert opened.js(f"fetch('{url}').then(() => 'sent', (error) => error.name)") == "TypeError"
        assert (
            opened.js(f"fetch('{url}', {{mode: 'no-cors'}}).then(() => 'sent', (error) => error.name)") == "TypeError"
        )
        image = (
            f"new Promise((done) => {{ const i = new Image(); i.onerror = () => done('refused'); i.src = '{url}'; }})"
        )
        assert opened.js(image) == "refused"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    opened.js(
        "document.head.append(Object.assign(document.createElement('style'), {textContent: 'body{display:none}'}))"
    )
    assert opened.js("getComputedStyle(document.body).display") == "flex"
    assert opened.js("refused") is True


def test_a_string_cannot_become_markup(opened: Page):
    tried = "try { document.body.innerHTML = '<b>x</b>'; 'done' } catch (error) { error.name }"
    assert opened.js(tried) == "TypeError"
    policy = "trustedTypes.createPolicy('default', {createHTML: (text) => text})"
    assert opened.js(f"try {{ {policy}; 'done' }} catch (error) {{ error.name }}") == "TypeError"


def test_addresses_and_forms_cannot_be_led_elsewhere(opened: Page, tmp_path: Path):
    elsewhere = "http://127.0.0.1:9/"
    note_refusals(opened, "base-uri", "form-action")
    opened.js(f"document.head.append(Object.assign(document.createElement('base'), {{href: '{elsewhere}'}}))")
    assert opened.js("document.baseURI").startswith((tmp_path / "report.html").as_uri())
    opened.js(
        f"(() => {{ const form = Object.assign(document.createElement('form'), {{action: '{elsewhere}'}});"
        " document.body.append(form); form.submit(); })()"
    )
    assert opened.js("refused") is True
    assert opened.js("location.protocol") == "file:"


HARD_TO_READ = """
(() => {
  const rgb = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const bright = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (node) => {
    const colour = rgb(getComputedStyle(node).backgroundColor);
    return colour[3] === 0 ? behind(node.parentElement) : colour;
  };
  const contrast = (one, other) => {
    const [less, more] = [bright(one), bright(other)].sort((a, b) => a - b);
    return (more + 0.05) / (less + 0.05);
  };
  const found = [];
  for (const node of document.body.querySelectorAll("*:not(script):not(option)")) {
    const text = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data).join("");
    const {color} = getComputedStyle(node);
    if (text.trim() && node.checkVisibility() && contrast(rgb(color), behind(node)) < 4.5) found.push(text);
  }
  for (const bar of document.querySelectorAll(".lane b:not(.unfinished):not(.error):not(.timeout), .histogram .bar")) {
    const {backgroundColor} = getComputedStyle(bar);
    if (contrast(rgb(backgroundColor), behind(bar.parentElement)) < 2.2) found.push(bar.className);
  }
  return found;
})()
"""
"""What has less contrast than WCAG asks of text (4.5), or than it takes to see a bar."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_in_light_and_in_dark(page: Page, tmp_path: Path, scheme: str):
    record = Record(tmp_path / "record")
    for number, outcome in enumerate(("success", "error", "cancelled", "timeout", "deferred", "unfinished")):
        ends = {"took": None} if outcome == "unfinished" else {"outcome": outcome}
        trace = f"{number + 1:032x}"
        run = record.action("agent.run", f"agent-{number}", at=number, trace=trace, **ends)
        for kind in (
            "model.request",
            "tool.execute",
            "output.validate",
            "mcp.tools.call",
            "control.pause",
            "dispatch.send",
        ):
            record.action(kind, "\x1b name", parent=run, at=number, trace=trace, outcome_reason="reason", **ends,
                          content={MESSAGES: user("said")}, attributes={"a": ""})  # fmt: skip
    report(record.close(), "-o", tmp_path / "report.html", "--content")
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.open(tmp_path / "report.html")
    page.js("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.js("document.getElementById('runs').focus()")
    for _ in range(6):
        assert page.js(HARD_TO_READ) == []
        page.press("ArrowDown")
    page.call("Emulation.setEmulatedMedia", features=[])


def test_the_focus_can_be_seen(opened: Page):
    for place in ("runs", "timeline", "details"):
        opened.js(f"document.getElementById('{place}').focus({{focusVisible: true}})")
        assert opened.js("getComputedStyle(document.activeElement).outlineWidth") == "2px", place


def test_what_is_little_is_not_nothing(page: Page, tmp_path: Path):
    record = Record(tmp_path / "record")
    run = record.action("agent.run", "", took=0.00003, agent_id="")
    spent = {"usage": {"input_tokens": 1, "output_tokens": 0}, "attributes": {"actionspan.cost_usd": 0.00001}}
    record.action("model.request", "", parent=run, took=0.00003, model="", agent_id="", **spent)
    report(record.close(), "-o", tmp_path / "report.html")
    page.open(tmp_path / "report.html")
    assert page.texts("#run-facts span")[1] == "30 µs"
    assert figures(page)["Cost"] == "<$0.0001"
    assert page.texts("#by-agent option") == ["every agent", "(empty name)"]
    assert page.texts("#by-model option") == ["every model", "(empty name)"]
    set_filter(page, "by-agent", "=")
    assert page.text("#count") == "1"


def test_light_and_dark(opened: Page):
    def colours() -> tuple[str, str]:
        return tuple(
            opened.js("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
        )

    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = colours()
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    light = colours()
    opened.call("Emulation.setEmulatedMedia", features=[])
    assert (dark[0], light[1]) == ("rgb(14, 18, 24)", "rgb(26, 33, 48)")
    assert dark != light


def test_only_the_owner_reads_the_file(tmp_path: Path):
    target = tmp_path / "report.html"
    target.write_text("older")
    target.chmod(0o644)
    report(make_record(tmp_path / "record"), "-o", target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name != "record"] == ["report.html"]
