// The API key: in this tab's memory, in headers only, never in an address or in the page's text.

const PLACE = "outpace-key";
let held = null;

export const needed = document.querySelector(`meta[name="${PLACE}"]`).content === "needed";

export function headers(more = {}) {
  const key = current();
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

export function current() {
  if (held === null) {
    try {
      held = sessionStorage.getItem(PLACE) || "";
    } catch {
      held = "";
    }
  }
  return held;
}

export function keep(key) {
  held = key;
  try {
    if (key) sessionStorage.setItem(PLACE, key);
    else sessionStorage.removeItem(PLACE);
  } catch {
    // it is kept in `held` alone
  }
}
