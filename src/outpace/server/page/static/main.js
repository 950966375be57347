// The page: a door if a key is needed, then states as they come.

import { get, text } from "./draw.js";
import { follow } from "./feed.js";
import * as key from "./key.js";
import { TryBox } from "./prompt.js";
import { show } from "./sections.js";
import { Timeline } from "./timeline.js";

let feed = null;
let newest = null;
const timeline = new Timeline(get("timeline"), get("timeline-read"));
const box = new TryBox(refused);

function open() {
  feed?.abort();
  feed = new AbortController();
  get("door").hidden = true;
  get("page").hidden = false;
  get("forget").hidden = !key.current();
  link("wait", "connecting");
  follow({ state, link, refused }, feed.signal);
}

function state(document_) {
  newest = document_;
  box.chat = document_.chat;
  timeline.add(document_.history, document_.time);
  show(document_);
}

function link(how, words) {
  const pill = get("link");
  pill.dataset.state = how;
  text(pill, words);
  get("page").classList.toggle("stale", how !== "live");
}

function refused() {
  const wrong = Boolean(key.current());
  key.keep("");
  door(wrong ? "That key is not one of this server’s." : "");
}

function door(words) {
  feed?.abort();
  get("page").hidden = true;
  get("forget").hidden = true;
  get("door").hidden = false;
  text("door-error", words);
  link("wait", "locked");
  get("door-key").focus();
}

get("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = get("door-key");
  key.keep(field.value.trim());
  field.value = "";
  open();
});
get("forget").addEventListener("click", () => {
  key.keep("");
  door("");
});
addEventListener("resize", () => newest && show(newest));

if (key.needed && !key.current()) door("");
else open();
