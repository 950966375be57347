// One state of the server, spread over the page.

import { bar, bars, el, empty, gauge, get, table, text } from "./draw.js";
import { NONE, ago, decimal, number, percent, plural, seconds, span, verdict } from "./words.js";

const STAGES = {
  draft: ["Draft", "guesses what may follow"],
  score: ["Score", "one pass over every guess"],
  accept: ["Accept", "keeps what holds"],
  resample: ["Resample", "adds the target’s own token"],
  repeat: ["Repeat", "commits, and goes on"],
};
const MOST_POSITIONS = 16;
const MOST_DECISIONS = 6;
const FEW = 20;

export function show(state) {
  const { counts, when } = span(state);
  now(state, counts, when);
  flow(counts, when);
  positions(counts, when);
  drafters(state, counts, when);
  latency(state.latency);
  control(state.control);
  text("what", [state.model, state.runtime, `drafter ${state.drafter}`].join(" · "));
  text("version", `outpace ${state.version}`);
  document.title = `${state.requests.running ? `${state.requests.running} · ` : ""}outpace`;
}

function now(state, counts, when) {
  const said = verdict(state);
  get("now").dataset.tone = said.tone;
  text("now-when", when);
  text("now-title", said.title);
  text("now-text", said.text);
  gauge(get("now-gauge"), {
    value: state.recent ? counts.acceptance.length : null,
    breakeven: state.recent ? state.recent.breakeven : null,
  });
  const { running, waiting, finished } = state.requests;
  const ended = Object.values(finished).reduce((a, b) => a + b, 0);
  text("running", number(running));
  text("waiting", waiting ? `${number(waiting)} wait` : `${number(ended)} ended`);
  text("rate", state.tokens_per_s >= 100 ? number(state.tokens_per_s) : decimal(state.tokens_per_s, 1));
  text("rate-note", "last 10 seconds");
  text("per-round", decimal(counts.acceptance.tokens_per_round));
  text("per-round-note", "with and without guesses");
}

function flow(counts, when) {
  text("flow-when", `${when}: share of time, tokens in → out`);
  const list = get("flow");
  if (list.children.length !== counts.stages.length) {
    list.replaceChildren(...counts.stages.map(({ stage }) => el("li", { id: `stage-${stage}` },
      el("h3", {}, STAGES[stage][0]), el("p.small", {}, STAGES[stage][1]),
      el("p.share"), el("span.meter", { "aria-hidden": "true" }, el("span")), el("p.io"))));
  }
  for (const { stage, share, tokens_in: from, tokens_out: to } of counts.stages) {
    const item = get(`stage-${stage}`);
    text(item.querySelector(".share"), percent(share));
    text(item.querySelector(".io"), share === null ? "nothing yet" : `${number(from)} → ${number(to)}`);
    item.querySelector(".meter > span").style.setProperty("--share", `${100 * (share || 0)}%`);
  }
}

function positions(counts, when) {
  const found = counts.acceptance.by_position.slice(0, MOST_POSITIONS);
  const node = get("positions");
  if (!found.length) {
    const words = counts.totals.passes
      ? "No guesses were made. Where they are, bars show how often the first, the second, … is kept."
      : "No rounds yet. Bars will show how often the first, the second, … guess is kept.";
    text("pos-when", "");
    node.replaceChildren(empty(words));
    node.setAttribute("aria-label", words);
    return;
  }
  text("pos-when", `${when}: % kept, by position`);
  const shown = found.map(({ position, offered, kept }) => ({
    name: `${position + 1}`, share: kept / offered, few: offered < FEW,
    note: `position ${position + 1}: ${number(kept)} of ${number(offered)} kept`,
  }));
  const label = shown.map((p) => `position ${p.name}: ${Math.round(100 * p.share)} percent kept`).join(", ");
  bars(node, shown, label);
}

function drafters(state, counts, when) {
  const rows = Object.entries(counts.drafters).map(([name, { guesses, kept }]) => [
    name, number(guesses), number(kept), el("span.with", {}, bar(kept / guesses), percent(kept / guesses)),
  ]);
  text("who-when", rows.length ? when : "");
  const words = state.drafter === "none"
    ? "Nobody: the server runs with the drafter “none”."
    : `The drafter is “${state.drafter}”. It made no guesses ${state.recent ? "in the last minute" : "yet"}.`;
  get("drafters").replaceChildren(rows.length
    ? table("Guesses by drafter", ["drafter", "guesses", "kept", "share"], rows) : empty(words));
}

function latency({ answers, first_token_s: first, per_token_s: each, whole_s: whole }) {
  text("lat-when", answers ? `last ${plural(answers, "answer")}` : "");
  const row = (name, found) => [name, ...["p50", "p90", "p99"].map((p) => (found ? seconds(found[p]) : NONE))];
  get("latency").replaceChildren(answers
    ? table("Latency percentiles", ["", "p50", "p90", "p99"], [
      row("to the first token (ttft)", first),
      row("per later token (tpot)", each),
      row("whole answer (e2el)", whole),
    ])
    : empty("No answer has ended yet. Percentiles of the last 512 will stand here."));
}

function control({ snapshot, decisions }) {
  const facts = get("control");
  if (!snapshot) {
    facts.replaceChildren(el("p.small", {}, "The limits are fixed: every round may guess as far as the server was told. Nothing is measured."));
  } else {
    const { n_closed: guess, n_open: rest } = snapshot;
    const open = guess + rest ? `${plural(guess, "sequence guesses", "sequences guess")}, ${number(rest)} rest` : "no sequence is open";
    const row = snapshot.row_share === null ? "costs are not measured yet" : `one more row costs ${percent(snapshot.row_share)} of a pass`;
    const faster = snapshot.speedup === null || snapshot.speedup < 1.005 ? null : `${decimal(snapshot.speedup)} × plain, by measured costs`;
    const said = [open, row, faster, `${plural(snapshot.n_switches, "switch", "switches")} so far`].filter(Boolean);
    facts.replaceChildren(el("p.small", {}, `${said.join(" · ")}`));
  }
  const newest = together(decisions).slice(0, MOST_DECISIONS);
  text("ctl-when", newest.length ? "newest first" : "");
  get("decisions").replaceChildren(...(newest.length
    ? newest.map(({ ago_s: s, requests, kind, reason }) => el("li", { "data-kind": kind },
      el("b", {}, kind), el("span", {}, reason),
      el("small", {}, `${requests.length > 1 ? "requests" : "request"} ${requests.join(", ")}, ${ago(s)}`)))
    : [el("li.empty", {}, "No decision yet: the control decides when rounds run.")]));
}

// One entry for requests of which the same was decided for the same reason.
function together(decisions) {
  const found = new Map();
  for (const { request, kind, reason, ago_s } of decisions) {
    const known = found.get(kind + reason);
    if (!known) found.set(kind + reason, { kind, reason, ago_s, requests: [request] });
    else if (!known.requests.includes(request)) known.requests.push(request);
  }
  return [...found.values()];
}
