"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const {runs, actions} = data;
  const byId = (id) => document.getElementById(id);

  // --- Text: whatever a model or a tool said is text, and what nobody could see of it is spelt out. ---

  const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
  const LAYOUT = "\n\t";

  const spelt = (character) => {
    const point = character.codePointAt(0);
    if (character === "\n") return "\\n";
    if (character === "\r") return "\\r";
    if (character === "\t") return "\\t";
    if (point < 0x100) return "\\x" + point.toString(16).padStart(2, "0");
    return point < 0x10000 ? "\\u" + point.toString(16).padStart(4, "0") : "\\u{" + point.toString(16) + "}";
  };
  const harmless = (text) => String(text).replace(UNSEEN, spelt);

  /** `text` as a node; what is spelt out is marked, so that it is told from a backslash somebody wrote. */
  const said = (text, keep = "") => {
    const span = element("span", {class: "word"});
    let from = 0;
    for (const {0: character, index} of text.matchAll(UNSEEN)) {
      if (keep.includes(character)) continue;
      span.append(text.slice(from, index), element("span", {class: "escape"}, spelt(character)));
      from = index + character.length;
    }
    span.append(text.slice(from));
    return span;
  };

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== undefined && child !== null));
    return made;
  }
  const none = (words) => element("span", {class: "none"}, words);

  // --- Numbers ---

  const whole = (value) => value.toLocaleString("en-US");
  /** Microseconds as a duration, in the unit that suits it. */
  const duration = (value) => {
    if (value === undefined || value === null) return "";
    const seconds = value / 1e6;
    if (value > 0 && value < 50) return `${Math.max(1, Math.round(value))} µs`;
    if (seconds < 0.00995) return `${(value / 1e3).toFixed(1)} ms`;
    if (seconds < 0.9995) return `${(value / 1e3).toFixed(0)} ms`;
    if (seconds < 59.995) return `${seconds.toFixed(2)} s`;
    const minutes = Math.floor(Math.round(seconds) / 60);
    if (seconds < 3599.5) return `${minutes} m ${String(Math.round(seconds) % 60).padStart(2, "0")} s`;
    const all = Math.round(seconds / 60);
    return `${Math.floor(all / 60)} h ${String(all % 60).padStart(2, "0")} m`;
  };
  const dollars = (value) => {
    if (value > 0 && value < 0.00005) return "<$0.0001";
    return value >= 1 ? `$${value.toFixed(2)}` : `$${value.toFixed(4)}`;
  };
  const many = (count, thing) => `${whole(count)} ${thing}${count === 1 ? "" : "s"}`;
  const clock = (milliseconds, fraction = false) => {
    const at = new Date(milliseconds);
    if (Number.isNaN(at.getTime())) return "at an unknown time";
    const two = (number, width = 2) => String(number).padStart(width, "0");
    const text = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
      `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
    return fraction ? `${text}.${two(at.getMilliseconds(), 3)}` : text;
  };
  /** Tokens of a run or a request: what was not reported is unknown, not nothing. */
  const tokens = (spent, which) => {
    if (!spent.requests) return "–";
    return spent[which] === undefined ? "unknown" : whole(spent[which]);
  };
  /** What it cost; a price that is not known is never a price of nothing. */
  const cost = (spent) => {
    if (!spent.requests) return "–";
    if (spent.cost === undefined) return "unknown";
    return dollars(spent.cost) + (spent.unpriced ? " + unknown" : "");
  };

  // --- Actions ---

  const MARKS = {success: "✓", error: "✗", cancelled: "⊘", timeout: "◷", deferred: "‖", unfinished: "◌"};
  const KNOWN = new Set(["agent", "model", "tool", "output", "mcp", "control"]);
  const isRun = (action) => action.namespace === "agent" && action.operation === "run";
  const state = (action) => action.outcome ?? "unfinished";
  const style = (action) => (Object.hasOwn(MARKS, state(action)) ? state(action) : "unfinished");
  const mark = (action) => {
    const shown = element("span", {class: `mark ${style(action)}`, "aria-hidden": "true"});
    shown.append(MARKS[style(action)]);
    return shown;
  };
  const nameWords = (action) => {
    if (action.name === "") return "(empty name)";
    if (action.name !== undefined) return null;
    if (isRun(action)) return action.missing ? "(a run that is not in the record)" : "(agent without a name)";
    if (action.namespace === "tool") return "(a tool that is not declared)";
    return action.verb ? "" : "(an action that is not in the record)";
  };
  const label = (action) => {
    const words = nameWords(action);
    const shown = element("span", {class: "name"});
    if (action.verb) shown.append(element("span", {class: "dim"}, said(action.verb)), " ");
    shown.append(words === null ? said(action.name) : none(words));
    return shown;
  };
  const plainLabel = (action) => harmless([action.verb, nameWords(action) ?? action.name].filter(Boolean).join(" "));
  const ending = (action) => {
    if (action.missing) return "not in the record";
    const outcome = action.outcome ?? (action.took === undefined ? "unfinished" : "no outcome");
    return action.reason ? `${outcome}: ${action.reason}` : outcome;
  };
  const note = (action) => {
    const words = [];
    if (action.missing) words.push("not in the record");
    else if (action.took === undefined) words.push("unfinished");
    else if (action.reason) words.push(action.reason);
    else if (["error", "timeout"].includes(action.outcome) && action.error) words.push(action.error.split(".").pop() || action.error);
    else if (action.outcome !== "success") words.push(ending(action));
    return words;
  };

  // --- Rows drawn on demand: only those in sight are in the document. ---

  class Rows {
    /** `draw(index)` makes the element of a row; `above` is the height of what sticks to the top. */
    constructor(host, height, draw, above = 0) {
      Object.assign(this, {host, height, draw, above, count: 0, current: -1, drawn: new Map()});
      this.sizer = element("div", {class: "sizer", role: host.getAttribute("role") === "treegrid" ? "rowgroup" : "presentation"});
      host.append(this.sizer);
      host.addEventListener("scroll", () => this.fill(), {passive: true});
      new ResizeObserver(() => this.fill()).observe(host);
    }
    show(count, current) {
      this.count = count;
      this.current = current;
      this.sizer.style.height = `${count * this.height}px`;
      this.redraw();
    }
    redraw() {
      this.drawn.forEach((row) => row.remove());
      this.drawn.clear();
      this.fill();
    }
    fill() {
      const spare = 8;
      const first = Math.max(0, Math.floor(this.host.scrollTop / this.height) - spare);
      const last = Math.min(this.count, Math.ceil((this.host.scrollTop + this.host.clientHeight) / this.height) + spare);
      for (const [index, row] of this.drawn) {
        if (index < first || index >= last) {
          row.remove();
          this.drawn.delete(index);
        }
      }
      for (let index = first; index < last; index++) {
        if (!this.drawn.has(index)) this.place(index);
      }
      const active = this.drawn.get(this.current);
      if (active) this.host.setAttribute("aria-activedescendant", active.id);
      else this.host.removeAttribute("aria-activedescendant");
    }
    place(index) {
      const row = this.draw(index);
      row.id = `${this.host.id}-${index}`;
      row.dataset.index = index;
      row.style.top = `${index * this.height}px`;
      row.style.height = `${this.height}px`;
      row.classList.toggle("chosen", index === this.current);
      row.setAttribute("aria-selected", index === this.current);
      this.drawn.set(index, row);
      this.sizer.append(row);
    }
    choose(index) {
      const before = this.drawn.get(this.current);
      if (before) {
        before.classList.remove("chosen");
        before.setAttribute("aria-selected", "false");
      }
      this.current = index;
      this.reveal(index);
      this.fill();
      const now = this.drawn.get(index);
      if (now) {
        now.classList.add("chosen");
        now.setAttribute("aria-selected", "true");
      }
    }
    reveal(index) {
      if (index < 0) return;
      const top = index * this.height;
      const room = this.host.clientHeight - this.above;
      if (top < this.host.scrollTop) this.host.scrollTop = top;
      else if (top + this.height > this.host.scrollTop + room) this.host.scrollTop = top + this.height - room;
    }
    /** The row that a key moves to, or undefined when the key moves nothing. */
    target(key) {
      const page = Math.max(1, Math.floor((this.host.clientHeight - this.above) / this.height) - 1);
      const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count};
      if (!Object.hasOwn(steps, key) || !this.count) return undefined;
      return Math.min(this.count - 1, Math.max(0, this.current + steps[key]));
    }
  }

  // --- The list of runs, and what of it is listed ---

  const filters = {search: byId("search"), outcome: byId("by-outcome"), agent: byId("by-agent"), model: byId("by-model")};
  const top = (run) => actions[run.first];
  const within = (run) => actions.slice(run.first, run.first + run.count);
  // Newest first, as somebody who looks for what just happened wants them.
  const order = runs.map((_, index) => index).sort((one, other) => runs[other].started - runs[one].started);
  let listed = order;
  let chosenRun = -1;

  const haystack = (run) => {
    run.text ??= [run.trace, run.run, run.conversation, run.resumes,
      ...within(run).flatMap((action) => [action.name, action.verb, action.model, action.agent, action.reason, action.error,
        action.id])].filter(Boolean).join("\n").toLowerCase();
    return run.text;
  };
  const options = (select, all, values) => {
    select.append(element("option", {value: ""}, all));
    [...new Set(values)].sort().forEach((value) => {
      select.append(element("option", {value: `=${value}`}, value === "" ? "(empty name)" : harmless(value)));
    });
  };
  const matches = (run) =>
    (!filters.outcome.value || filters.outcome.value === `=${state(top(run))}`) &&
    (!filters.agent.value || run.agents.some((name) => filters.agent.value === `=${name}`)) &&
    (!filters.model.value || run.models.some((name) => filters.model.value === `=${name}`)) &&
    filters.search.value.toLowerCase().split(/\s+/).every((word) => haystack(run).includes(word));

  const runRow = (index) => {
    const run = runs[listed[index]];
    const action = top(run);
    const row = element("div", {class: "row", role: "option", "aria-setsize": listed.length, "aria-posinset": index + 1,
      "aria-label": `${plainLabel(action)}, ${harmless(ending(action))}, ${duration(action.took) || "no end"}, ` +
        `${many(run.recorded, "action")}, ${clock(run.started)}`});
    row.append(mark(action), element("b", {class: "cut"}, label(action)), element("span", {class: "dim"}, duration(action.took)),
      element("span", {class: "second"}, element("span", {class: `cut ${style(action)}`}, said(ending(action))),
        element("span", {class: "dim"}, clock(run.started).slice(5))));
    return row;
  };
  const runRows = new Rows(byId("runs"), 54, runRow);

  const list = () => {
    listed = order.filter((index) => matches(runs[index]));
    byId("count").textContent = listed.length === runs.length ? whole(runs.length) : `${whole(listed.length)} of ${whole(runs.length)}`;
    runRows.host.querySelector(".empty")?.remove();
    if (!listed.length) runRows.host.append(element("p", {class: "empty dim"}, "No run is like that."));
    runRows.host.scrollTop = 0;
    runRows.show(listed.length, listed.indexOf(chosenRun));
    if (listed.length && !listed.includes(chosenRun)) openRun(listed[0]);
    showTotals();
    showHistogram();
  };

  // --- Totals and durations of what is listed ---

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const showTotals = () => {
    const shown = listed.map((index) => runs[index]);
    const known = (field) => {
      const values = shown.map((run) => run[field]).filter((value) => value !== undefined);
      return values.length ? sum(values) : undefined;
    };
    const asked = shown.filter((run) => run.requests);
    const total = {requests: sum(shown.map((run) => run.requests)), input: known("input"), output: known("output"),
      cost: known("cost"), unpriced: asked.some((run) => run.unpriced || run.cost === undefined)};
    const failed = sum(shown.map((run) => run.failed));
    const figures = [["Runs", whole(shown.length)], ["Actions", whole(sum(shown.map((run) => run.recorded)))],
      ["Failed actions", whole(failed), failed ? "error" : ""], ["Model requests", whole(total.requests)],
      ["Tokens in", tokens(total, "input")], ["Tokens out", tokens(total, "output")], ["Cost", cost(total)]];
    byId("totals").replaceChildren(...figures.map(([name, value, kind]) =>
      element("div", {}, element("dt", {}, name), element("dd", {class: kind || null}, value))));
  };

  const MOST_BINS = 16;
  const SERIES = [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]];
  /** Round boundaries around what there is, in microseconds, each about as much longer than the one before. */
  const boundaries = (values) => {
    const [least, most] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, 0]);
    const around = (series) => {
      const found = [];
      for (let power = 1; power < 1e13; power *= 10) found.push(...series.map((factor) => factor * power));
      const from = Math.max(0, found.findLastIndex((edge) => edge <= Math.max(1, least)));
      const to = found.findIndex((edge) => edge > most);
      return found.slice(from, (to < 0 ? found.length : to) + 1);
    };
    const choices = SERIES.map(around);
    return choices.find((edges) => edges.length <= MOST_BINS + 1) ?? choices.at(-1);
  };
  const edgeWords = (edge) => {
    const [size, unit] = edge < 1e3 ? [1, "µs"] : edge < 1e6 ? [1e3, "ms"] : edge < 6e7 ? [1e6, "s"] : edge < 3.6e9 ? [6e7, "m"] : [3.6e9, "h"];
    return `${Number((edge / size).toPrecision(2))} ${unit}`;
  };
  const measured = (what) => {
    const all = listed.flatMap((index) => (what === "run" ? [top(runs[index])] : within(runs[index])));
    return all.filter((action) => action.took !== undefined && (["run", "action"].includes(what) || action.namespace === what) &&
      (what !== "tool" || action.operation === "execute"));
  };
  const showHistogram = () => {
    const what = byId("durations-of");
    const found = measured(what.value);
    const host = byId("histogram");
    const title = what.selectedOptions[0].textContent;
    if (!found.length) {
      host.setAttribute("aria-label", `No finished ${title}`);
      host.replaceChildren(element("p", {class: "dim"}, `No finished ${title}.`));
      return;
    }
    const edges = boundaries(found.map((action) => action.took));
    const bins = edges.slice(0, -1).map((edge) => ({edge, count: 0, failed: 0}));
    for (const action of found) {
      const bin = bins[Math.max(0, bins.findLastIndex(({edge}) => edge <= action.took))];
      bin.count += 1;
      bin.failed += ["error", "timeout"].includes(action.outcome) ? 1 : 0;
    }
    const every = Math.ceil(bins.length / 7);
    const tallest = Math.max(...bins.map((bin) => bin.count));
    host.replaceChildren(...bins.map((bin, index) => {
      const bar = element("div", {class: "bar"}, element("div", {class: "failed"}));
      bar.style.height = `${(bin.count / tallest) * 34}px`;
      bar.firstChild.style.height = bin.count ? `${(bin.failed / bin.count) * 100}%` : "0";
      return element("div", {class: "bin", title: `${edgeWords(edges[index])} to ${edgeWords(edges[index + 1])}: ${whole(bin.count)}` +
        (bin.failed ? `, ${whole(bin.failed)} failed` : "")},
        element("div", {class: "many"}, bin.count ? whole(bin.count) : ""), bar,
        element("div", {class: "from"}, index % every ? "" : edgeWords(bin.edge)));
    }));
    const words = bins.filter((bin) => bin.count).map((bin) => `${whole(bin.count)} from ${edgeWords(bin.edge)}`);
    host.setAttribute("aria-label", `How long ${title} took: ${words.join(", ")}`);
  };

  // --- The timeline of a run ---

  const closed = new Set();
  let visible = [];
  let view = {from: 0, to: 1};
  let full = {from: 0, to: 1};

  const hasChildren = (index) => {
    const run = runs[chosenRun];
    return index + 1 < run.first + run.count && actions[index + 1].depth > actions[index].depth;
  };
  const parentOf = (index) => {
    let above = index - 1;
    while (above >= runs[chosenRun].first && actions[above].depth >= actions[index].depth) above -= 1;
    return above >= runs[chosenRun].first ? above : -1;
  };
  const unfold = () => {
    const run = runs[chosenRun];
    visible = [];
    let hiddenBelow = Infinity;
    for (let index = run.first; index < run.first + run.count; index++) {
      if (actions[index].depth > hiddenBelow) continue;
      hiddenBelow = closed.has(index) ? actions[index].depth : Infinity;
      visible.push(index);
    }
  };
  const position = (at) => ((at - view.from) / (view.to - view.from)) * 100;
  const ticks = () => {
    const rough = (view.to - view.from) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const found = [];
    for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) found.push(Math.abs(at) < step / 2 ? 0 : at);
    return found;
  };
  const tickWords = (at) => {
    const span = view.to - view.from;
    const [size, unit] = span < 2e3 ? [1, "µs"] : span < 1e6 ? [1e3, "ms"] : [1e6, "s"];
    return `${Number((at / size).toFixed(2)).toLocaleString("en-US")} ${unit}`;
  };
  const lane = (action) => {
    const shown = element("div", {class: "lane", role: "presentation"});
    for (const at of ticks()) {
      const line = element("i");
      line.style.left = `${position(at)}%`;
      shown.append(line);
    }
    const end = action.took === undefined ? full.to : action.at + action.took;
    if (end >= view.from && action.at <= view.to) {
      const kind = KNOWN.has(action.namespace) ? action.namespace : "other";
      const bar = element("b", {class: `${kind} ${isRun(action) ? "run" : ""} ${action.took === undefined ? "unfinished" : style(action)}`});
      // Far ends are cut here: a bar a million times as wide as the lane is beyond what a layout can place.
      const left = Math.max(-5, position(action.at));
      const right = Math.min(105, position(end));
      bar.style.left = `min(${left}%, 100% - 3px)`;
      bar.style.width = `${Math.max(0, right - left)}%`;
      shown.append(bar);
    }
    return shown;
  };
  const spends = (action) => isRun(action) || action.namespace === "model";
  const count = (action, which) => {
    if (!spends(action) || !action.requests) return "";
    return action[which] === undefined ? "?" : whole(action[which]);
  };
  const spoken = (action) => {
    const parts = [plainLabel(action), harmless(ending(action)), duration(action.took) || "no end", `at ${duration(Math.max(0, action.at))}`];
    if (action.attempt) parts.push(`attempt ${action.attempt}`);
    if (spends(action)) parts.push(`tokens in ${tokens(action, "input")}, out ${tokens(action, "output")}`);
    return parts.join(", ");
  };
  const DEEPEST = 12;
  const actionRow = (index) => {
    const at = visible[index];
    const action = actions[at];
    const open = hasChildren(at) ? !closed.has(at) : undefined;
    const row = element("div", {class: `row${isRun(action) ? " run" : ""}`, role: "row", "aria-level": action.depth + 1,
      "aria-rowindex": index + 2, "aria-expanded": open === undefined ? null : String(open), "aria-label": spoken(action)});
    const cell = element("div", {class: "label", role: "gridcell"});
    for (let level = 0; level < Math.min(action.depth, DEEPEST); level++) cell.append(element("span", {class: "guide"}));
    const text = element("span", {class: "cut", title: `${plainLabel(action)} · ${harmless(ending(action))}`}, label(action));
    for (const words of note(action)) text.append(" · ", element("span", {class: style(action)}, said(words)));
    if (action.attempt) text.append(element("span", {class: "dim"}, ` · attempt ${action.attempt}`));
    cell.append(element("span", {class: "twist", "aria-hidden": "true"}, open === undefined ? "" : open ? "▾" : "▸"), mark(action), text);
    row.append(cell, element("div", {class: "end", role: "gridcell"}, duration(action.took)), lane(action),
      element("div", {class: "end", role: "gridcell"}, count(action, "input")),
      element("div", {class: "end", role: "gridcell"}, count(action, "output")));
    return row;
  };
  const ruler = element("div", {class: "ruler", role: "columnheader", "aria-label": "Time since the run began"});
  const column = (words, kind = "") => element("div", {class: kind, role: "columnheader"}, words);
  byId("timeline").append(element("div", {class: "head", role: "row"}, column("action"), column("took", "end"), ruler,
    column("tok. in", "end"), column("out", "end")));
  const actionRows = new Rows(byId("timeline"), 26, actionRow, 28);

  const showRuler = () => {
    ruler.replaceChildren(...ticks().map((at) => {
      const tick = element("span", {}, position(at) > 90 ? "" : tickWords(at));
      tick.style.left = `${position(at)}%`;
      return tick;
    }));
    const zoom = (full.to - full.from) / (view.to - view.from);
    byId("zoom-level").textContent = `${zoom < 10 ? Number(zoom.toFixed(1)) : whole(Math.round(zoom))}×`;
  };
  const look = (from, to) => {
    const length = Math.min(full.to - full.from, Math.max(1, to - from));
    const begin = Math.min(full.to - length, Math.max(full.from, from));
    view = {from: begin, to: begin + length};
    showRuler();
    actionRows.redraw();
  };
  const zoomAt = (factor, share = 0.5) => {
    const length = view.to - view.from;
    const at = view.from + length * share;
    look(at - length * factor * share, at + length * factor * (1 - share));
  };
  const fit = () => look(full.from, full.to);
  const pan = (share) => look(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
  const middle = (action) => {
    const at = (action.at + (action.took ?? 0) / 2 - view.from) / (view.to - view.from);
    return at > 0 && at < 1 ? at : 0.5;
  };

  const openRun = (index, at = runs[index].first) => {
    chosenRun = index;
    const run = runs[index];
    const action = top(run);
    closed.clear();
    full = {from: 0, to: Math.max(1, run.known)};
    for (let each = run.first; each < run.first + run.count; each++) full.from = Math.min(full.from, actions[each].at);
    view = {...full};
    byId("run-head").replaceChildren(mark(action), " ", label(action), " ",
      element("span", {class: style(action)}, said(ending(action))));
    const facts = [clock(run.started), duration(action.took) || "no end", many(run.recorded, "action"),
      `tokens ${tokens(run, "input")} in, ${tokens(run, "output")} out`, `cost ${cost(run)}`];
    byId("run-facts").replaceChildren(...facts.map((words) => element("span", {}, words)));
    unfold();
    actionRows.host.setAttribute("aria-rowcount", visible.length + 1);
    actionRows.host.scrollTop = 0;
    showRuler();
    actionRows.show(visible.length, visible.indexOf(at));
    runRows.choose(listed.indexOf(index));
    openAction(at);
  };
  const openAction = (at) => {
    actionRows.choose(visible.indexOf(at));
    showDetails(actions[at], runs[chosenRun]);
    history.replaceState(null, "", `#${top(runs[chosenRun]).id}/${actions[at].id}`);
  };
  const fold = (at, close) => {
    if (close) closed.add(at);
    else closed.delete(at);
    unfold();
    actionRows.host.setAttribute("aria-rowcount", visible.length + 1);
    actionRows.show(visible.length, visible.indexOf(at));
    openAction(at);
  };

  // --- The details of an action ---

  const showDetails = (action, run) => {
    const facts = element("dl", {class: "facts"});
    const fact = (name, value) => {
      if (value !== undefined && value !== null) {
        facts.append(element("dt", {}, name), element("dd", {}, typeof value === "string" ? said(value) : value));
      }
    };
    const orEmpty = (value) => (value === "" ? none("(empty name)") : value);
    fact("Outcome", element("span", {class: style(action)}, said(ending(action))));
    fact("Error", action.error);
    fact("Agent", orEmpty(action.agent));
    fact("Model", orEmpty(action.model));
    const since = `(${action.at < 0 ? "−" : "+"}${duration(Math.abs(action.at))})`;
    fact("Started", element("span", {}, clock(run.started + action.at / 1e3, true), " ", element("span", {class: "whole"}, since)));
    fact("Took", action.took === undefined ? none("no end is recorded") : duration(action.took));
    if (action.attempt) fact("Attempt", String(action.attempt));
    if (action.step) fact("Step", String(action.step));
    if (spends(action)) {
      fact("Tokens in", tokens(action, "input"));
      fact("Tokens out", tokens(action, "output"));
      fact("Cost", cost(action));
    }
    const identity = (name, value) => fact(name, value && element("span", {class: "id"}, said(value)));
    identity("Action", action.id);
    if (isRun(action)) {
      identity("Run", run.run);
      identity("Resumes run", run.resumes);
      identity("Conversation", run.conversation);
    }
    identity("Trace", run.trace);
    const kind = [action.namespace, action.operation].filter(Boolean).join(".");
    const parts = [element("h2", {}, mark(action), " ", label(action)), element("p", {class: "kind dim"}, said(kind)), facts];
    parts.push(...content(action));
    if (action.attributes?.length) {
      const table = element("dl", {class: "facts attributes"});
      action.attributes.forEach(([name, value]) => table.append(element("dt", {class: "cut", title: harmless(name)}, said(name)),
        element("dd", {}, value === "" ? none("(empty)") : said(value))));
      parts.push(element("details", {}, element("summary", {}, `Attributes (${action.attributes.length})`), table));
    }
    byId("details").replaceChildren(...parts);
    byId("details").scrollTop = 0;
  };
  const content = (action) => {
    if (!data.content) return [element("h3", {}, "Content"), element("p", {class: "dim"}, "This page was made without content; --content adds it.")];
    if (!action.said?.length) return [element("h3", {}, "Content"), element("p", {class: "dim"}, "No content is recorded.")];
    return [element("h3", {}, "Content"), ...action.said.map(block)];
  };
  const LONG = ["stack trace", "tool definitions"];
  const block = ([who, text]) => {
    const body = element("pre", {}, text === "" ? none("(empty)") : said(text, LAYOUT));
    if (LONG.includes(who)) return element("details", {class: `block ${who}`}, element("summary", {}, who), body);
    return element("div", {class: who === "history" ? "block history" : "block"}, element("h4", {}, said(who)), body);
  };

  // --- Keys, pointer, address ---

  const plainKey = (event) => !event.ctrlKey && !event.metaKey && !event.altKey;
  runRows.host.addEventListener("keydown", (event) => {
    const to = plainKey(event) ? runRows.target(event.key) : undefined;
    if (to !== undefined) openRun(listed[to]);
    else if (event.key === "Enter" && plainKey(event)) actionRows.host.focus();
    else return;
    event.preventDefault();
  });
  const sideways = (at, right) => {
    if (right && hasChildren(at)) {
      if (closed.has(at)) fold(at, false);
      else openAction(at + 1);
    } else if (!right && hasChildren(at) && !closed.has(at)) fold(at, true);
    else if (!right && parentOf(at) >= 0) openAction(parentOf(at));
  };
  const keys = {
    "+": (at) => zoomAt(0.5, middle(actions[at])),
    "=": (at) => zoomAt(0.5, middle(actions[at])),
    "-": (at) => zoomAt(2, middle(actions[at])),
    0: fit,
    z: (at) => {
      const {at: begin, took} = actions[at];
      const length = Math.max(1, (took ?? full.to - begin) * 1.2);
      look(begin - length / 12, begin - length / 12 + length);
    },
    Enter: () => byId("details").focus(),
  };
  actionRows.host.addEventListener("keydown", (event) => {
    const at = visible[actionRows.current];
    if (at === undefined || !plainKey(event)) return;
    const to = actionRows.target(event.key);
    const horizontal = event.key === "ArrowLeft" || event.key === "ArrowRight";
    const key = event.key === "Enter" ? event.key : event.key.toLowerCase();
    if (to !== undefined) openAction(visible[to]);
    else if (horizontal && event.shiftKey) pan(event.key === "ArrowRight" ? 0.25 : -0.25);
    else if (horizontal) sideways(at, event.key === "ArrowRight");
    else if (Object.hasOwn(keys, key)) keys[key](at);
    else return;
    event.preventDefault();
  });
  byId("details").addEventListener("keydown", (event) => {
    if (event.key === "Escape") actionRows.host.focus();
  });
  const rowOf = (event) => Number(event.target.closest(".row")?.dataset.index ?? -1);
  runRows.host.addEventListener("click", (event) => {
    if (rowOf(event) >= 0) openRun(listed[rowOf(event)]);
  });
  actionRows.host.addEventListener("click", (event) => {
    const at = visible[rowOf(event)];
    if (at === undefined) return;
    if (event.target.classList.contains("twist") && hasChildren(at)) fold(at, !closed.has(at));
    else openAction(at);
  });
  const shareOf = (event) => {
    const {left, width} = ruler.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / Math.max(1, width)));
  };
  actionRows.host.addEventListener("wheel", (event) => {
    const across = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (event.ctrlKey || event.metaKey) zoomAt(event.deltaY > 0 ? 1.25 : 0.8, shareOf(event));
    else if (across) pan(across / 1000);
    else return;
    event.preventDefault();
  }, {passive: false});
  let drag = null;
  ruler.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = {from: shareOf(event), box: element("span", {class: "choice"})};
    ruler.append(drag.box);
    ruler.setPointerCapture(event.pointerId);
  });
  ruler.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [left, right] = [drag.from, shareOf(event)].sort((one, other) => one - other);
    drag.box.style.left = `${left * 100}%`;
    drag.box.style.width = `${(right - left) * 100}%`;
  });
  ruler.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const [left, right] = [drag.from, shareOf(event)].sort((one, other) => one - other);
    const length = view.to - view.from;
    drag.box.remove();
    drag = null;
    if (right - left > 0.01) look(view.from + left * length, view.from + right * length);
  });
  byId("zoom-in").addEventListener("click", () => zoomAt(0.5, middle(actions[visible[actionRows.current]])));
  byId("zoom-out").addEventListener("click", () => zoomAt(2, middle(actions[visible[actionRows.current]])));
  byId("zoom-fit").addEventListener("click", fit);
  byId("filters").addEventListener("input", list);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("durations-of").addEventListener("change", showHistogram);

  const follow = () => {
    const [run, action] = location.hash.slice(1).split("/");
    const index = runs.findIndex((each) => top(each).id === run);
    if (index < 0) return false;
    const {first, count: size} = runs[index];
    const at = actions.findIndex((each, place) => place >= first && place < first + size && each.id === action);
    openRun(index, at < 0 ? first : at);
    return true;
  };
  window.addEventListener("hashchange", follow);

  byId("origin").replaceChildren(said(data.source), element("br"), element("span", {title: `by actionspan ${data.version}`}, `made ${clock(data.made)}`));
  document.title = `Agent runs: ${harmless(data.source)}`;
  options(filters.outcome, "every outcome", runs.map((run) => state(top(run))));
  options(filters.agent, "every agent", runs.flatMap((run) => run.agents));
  options(filters.model, "every model", runs.flatMap((run) => run.models));
  byId("durations-of").value = runs.length > 20 ? "run" : "action";
  follow();
  list();
})();
