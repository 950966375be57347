// Numbers and states in words. No data is a dash, never a zero.

export const NONE = "–";

export const number = (x) => (x === null || x === undefined ? NONE : Math.round(x).toLocaleString("en"));
export const decimal = (x, digits = 2) => (x === null || x === undefined ? NONE : x.toFixed(digits));
export const percent = (x) =>
  x === null || x === undefined ? NONE : `${(100 * x).toFixed(x > 0 && x < 0.0995 ? 1 : 0)} %`;
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

export function seconds(s) {
  if (s === null || s === undefined) return NONE;
  if (s < 0.00995) return `${(1000 * s).toFixed(1)} ms`;
  if (s < 0.9995) return `${Math.round(1000 * s)} ms`;
  return s < 9.995 ? `${s.toFixed(2)} s` : `${s.toFixed(1)} s`;
}

export function ago(s) {
  if (s < 1.5) return "now";
  if (s < 90) return `${Math.round(s)} s ago`;
  return s < 5400 ? `${Math.round(s / 60)} min ago` : `${Math.round(s / 3600)} h ago`;
}

// Which numbers to show: the last minute's, or all of them where nothing ran in it.
export function span(state) {
  if (state.recent) return { counts: state.recent, when: "last minute" };
  return { counts: state, when: state.totals.passes ? "since the start" : "nothing yet" };
}

// Whether guessing pays now: { tone, title, text }.
export function verdict(state) {
  const { recent, control } = state;
  const said = control.snapshot;
  if (state.health.state !== "running") {
    return { tone: "down", title: `The server is ${state.health.state}.`, text: `${state.health.reason ?? ""}` };
  }
  if (!recent) {
    return {
      tone: "idle", title: "Idle.",
      text: "No pass ended in the last minute. Send a request, or try a prompt below.",
    };
  }
  if (state.drafter === "none") {
    return { tone: "idle", title: "No guesses.", text: "This server runs without a drafter: every pass gives one token." };
  }
  const { drafts, rounds } = recent.totals;
  if (!drafts) {
    const rest = control.decisions.find((d) => d.kind !== "guess");
    const why = rest ? ` The control says: ${rest.reason}.` : "";
    return { tone: "idle", title: "Not guessing now.", text: `Every pass is a plain one, and costs no more than one.${why}` };
  }
  const length = recent.acceptance.length;
  const share = drafts / Math.max(rounds, 1);
  const often = share > 0.995 ? "" : ` Guesses were made in ${percent(share)} of all rounds.`;
  const { breakeven } = recent;
  if (!breakeven) {
    return {
      tone: "plain", title: `${decimal(length)} tokens a guessing round.`,
      text: `No break-even is measured here: the limits are fixed.${often}`,
    };
  }
  const compared = `A round with guesses brings ${decimal(length)} tokens; ${decimal(breakeven)} pay for it.`;
  const faster = said && said.speedup > 1.01 ? ` The control puts that at ${decimal(said.speedup)} × the speed without guesses.` : "";
  if (length >= breakeven) return { tone: "pays", title: "Guessing pays.", text: compared + often + faster };
  return { tone: "loses", title: "Guessing does not pay now.", text: `${compared}${often} The control guesses less when this lasts.` };
}
