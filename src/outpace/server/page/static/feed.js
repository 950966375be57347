// The feed of states: read for as long as the page lives, taken up again whenever it breaks.
// EventSource cannot send a key, so the events are read by hand.

import { headers } from "./key.js";

const SILENCE_MS = 6000;
const WAITS_MS = [500, 1000, 2000, 4000, 8000];

// on.state(document), on.link(state, words), on.refused()
export async function follow(on, until) {
  let failures = 0;
  while (!until.aborted) {
    const since = performance.now();
    let why = "the server ended it";
    let wait = null;
    try {
      const status = await once(on, until);
      if (status === 401) {
        on.refused();
        return;
      }
      if (status === 429) {
        why = "this key has too many requests in flight";
        wait = 8000;
      } else if (status) {
        why = `the server answered ${status}`;
      }
    } catch (error) {
      why = error.name === "TimeoutError" ? "no word for six seconds" : "the server is not there";
    }
    if (until.aborted) return;
    if (performance.now() - since > 10000) failures = 0;
    wait ??= WAITS_MS[Math.min(failures++, WAITS_MS.length - 1)];
    on.link("lost", `${why}; trying again`);
    await sleep(wait, until);
  }
}

async function once(on, until) {
  const silence = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new DOMException("", "TimeoutError")), SILENCE_MS);
  };
  heard();
  try {
    const response = await fetch("outpace/events", {
      headers: headers(),
      cache: "no-store",
      signal: AbortSignal.any([silence.signal, until]),
    });
    if (!response.ok) return response.status;
    for await (const text of events(response.body)) {
      heard();
      on.link("live", "live");
      on.state(JSON.parse(text));
    }
    return 0;
  } finally {
    clearTimeout(timer);
  }
}

// The `data:` of each server-sent event in a body.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const whole = rest.split("\n\n");
      rest = whole.pop();
      for (const event of whole) if (event.startsWith("data: ")) yield event.slice(6);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function sleep(ms, until) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    until.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
