// The box to try a prompt: an answer token by token, each coloured by how it came to be.

import { el, empty, get, text } from "./draw.js";
import { events } from "./feed.js";
import { headers } from "./key.js";
import { decimal, number, plural } from "./words.js";

const VISIBLE = { "\n": "↵", "\t": "⇥" };
const WITHHELD = "•••"; // a server with several callers does not tell what it guessed and rejected
const visible = (words) => (words ?? WITHHELD).replace(/[\n\t]/g, (c) => VISIBLE[c]) || "∅";

export class TryBox {
  constructor(refused) {
    this.refused = refused;
    this.chat = true;
    this.stop = null;
    this.rounds = [];
    this.chosen = -1;
    const answer = get("answer");
    get("try").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    get("try-stop").addEventListener("click", () => this.stop?.abort());
    get("try-text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.ask();
    });
    get("try-gone").addEventListener("change", (event) => answer.classList.toggle("without", !event.target.checked));
    for (const kind of ["pointerover", "click"]) {
      answer.addEventListener(kind, (event) => {
        const node = event.target.closest("[data-round]");
        if (node) this.choose(+node.dataset.round);
      });
    }
    answer.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.rounds.length) return;
      event.preventDefault();
      this.choose(Math.min(this.rounds.length - 1, Math.max(0, this.chosen + step)));
    });
  }

  body() {
    const prompt = get("try-text").value;
    const asked = this.chat ? { messages: [{ role: "user", content: prompt }] } : { prompt };
    return JSON.stringify({
      ...asked,
      max_tokens: +get("try-tokens").value,
      temperature: +get("try-temperature").value,
      speculation: get("try-speculation").value,
      stream: true,
      stream_options: { include_usage: true },
      return_rounds: true,
    });
  }

  async ask() {
    if (this.stop || !get("try").reportValidity()) return;
    this.stop = new AbortController();
    this.begin();
    let words = "";
    try {
      const response = await fetch(this.chat ? "v1/chat/completions" : "v1/completions", {
        method: "POST",
        headers: headers({ "Content-Type": "application/json" }),
        body: this.body(),
        signal: this.stop.signal,
      });
      if (response.status === 401) return this.refused();
      if (!response.ok) throw new Error((await response.json()).error.message);
      for await (const data of events(response.body)) {
        if (data !== "[DONE]") this.take(JSON.parse(data));
      }
      words = this.finish;
    } catch (error) {
      words = error.name === "AbortError" ? "stopped" : `failed: ${error.message}`;
    } finally {
      this.stop = null;
      get("answer").setAttribute("aria-busy", "false");
      get("try-go").disabled = false;
      get("try-stop").disabled = true;
      this.sum(words);
    }
  }

  begin() {
    this.rounds = [];
    this.chosen = -1;
    this.told = this.seen = "";
    this.finish = "";
    this.began = performance.now();
    this.first = this.last = null;
    const answer = get("answer");
    answer.replaceChildren(empty("Reading the prompt …"));
    answer.setAttribute("aria-busy", "true");
    get("round").hidden = true;
    get("try-go").disabled = true;
    get("try-stop").disabled = false;
    text("answer-sum", "");
  }

  take(chunk) {
    if (chunk.error) throw new Error(chunk.error.message);
    const [choice] = chunk.choices;
    if (!choice) return;
    this.told += choice.delta?.content ?? choice.text ?? "";
    const rounds = choice.rounds ?? [];
    if (rounds.length && !this.rounds.length) get("answer").replaceChildren();
    if (rounds.length) this.last = performance.now();
    this.first ??= this.last;
    for (const round of rounds) this.add(round);
    if (choice.finish_reason) {
      this.finish = { stop: "the answer ended by itself", length: "cut at its number of tokens" }[choice.finish_reason] ?? choice.finish_reason;
      // What was held back until the end belongs to the last token.
      const rest = this.told.slice(this.seen.length);
      const last = [...get("answer").querySelectorAll(".tok")].at(-1);
      if (rest && last) last.append(rest);
    } else this.sum("writing");
  }

  add(round) {
    const index = this.rounds.push(round) - 1;
    const nodes = round.texts.map((words, i) => {
      const kind = i < round.kept ? "kept" : failed(round).length ? "own" : "free";
      const node = el(`span.tok.${kind}`, { "data-round": index }, words);
      if (words.includes("\n")) node.classList.add("line");
      this.seen += words;
      return node;
    });
    const gone = rejected(round);
    if (gone) nodes.splice(round.kept, 0, el("span.gone", { "data-round": index }, gone));
    get("answer").append(...nodes);
  }

  sum(words) {
    const tokens = this.rounds.reduce((n, r) => n + r.texts.length, 0);
    if (!tokens) {
      text("answer-sum", words);
      if (words !== "writing") get("answer").replaceChildren(empty("No token came."));
      return;
    }
    const guesses = this.rounds.reduce((n, r) => n + r.guesses.length, 0);
    const kept = this.rounds.reduce((n, r) => n + r.kept, 0);
    const later = tokens - this.rounds[0].texts.length;
    const rate = this.last > this.first ? later / ((this.last - this.first) / 1000) : null;
    text("answer-sum", [
      `${plural(tokens, "token")} in ${plural(this.rounds.length, "round")}`,
      `${decimal(tokens / this.rounds.length)} a round`,
      guesses ? `${number(kept)} of ${plural(guesses, "guess", "guesses")} kept` : "no guesses",
      rate ? `${number(rate)} tokens a second` : null,
      words,
    ].filter(Boolean).join(" · "));
  }

  choose(index) {
    if (this.chosen === index) return;
    this.chosen = index;
    const answer = get("answer");
    for (const node of answer.querySelectorAll(".on")) node.classList.remove("on");
    for (const node of answer.querySelectorAll(`[data-round="${index}"]`)) node.classList.add("on");
    describe(get("round"), index, this.rounds[index]);
  }
}

// Guesses at the place where the target chose for itself.
function failed({ guesses }) {
  const last = guesses.findLastIndex((guess) => guess.kept);
  return guesses.flatMap((guess, i) => (guess.parent === last && !guess.kept ? [i] : []));
}

// They, and what was guessed to follow them; alternatives apart.
function rejected({ guesses, texts, kept }) {
  if (texts.length === kept) return "";
  return failed({ guesses }).map((first) => {
    let words = "";
    for (let i = first; i !== -1; i = guesses.findIndex((g) => g.parent === i)) words += guesses[i].text ?? "";
    return visible(words || guesses[first].text);
  }).join(" | ");
}

function describe(node, index, round) {
  const { guesses, texts, kept } = round;
  const who = [...new Set(guesses.map((g) => g.drafter).filter(Boolean))].join(" and ");
  const head = guesses.length
    ? `Round ${index + 1}: ${plural(guesses.length, "guess", "guesses")}${who ? ` by ${who}` : ""}, ${kept} kept`
    : `Round ${index + 1}: nothing was guessed`;
  const line = (name, ...parts) => el("p", {}, el("b", {}, name), ...parts);
  const chip = (kind, words) => el(`span.chip.${kind}`, {}, visible(words));
  const own = texts.length > kept ? texts.at(-1) : null;
  node.replaceChildren(...[
    el("h3", {}, head),
    guesses.length ? line("guessed", ...guesses.map((g) => chip(g.kept ? "kept" : "lost", g.text))) : null,
    own === null ? line("the text ended there")
      : line(failed(round).length ? "the target chose instead" : "the target added", chip(failed(round).length ? "own" : "free", own)),
  ].filter(Boolean));
  node.hidden = false;
}
