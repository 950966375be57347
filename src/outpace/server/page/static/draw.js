// Elements, and small charts. Text goes in as text, numbers as attributes; nothing is parsed.

const SVG = "http://www.w3.org/2000/svg";

export const get = (id) => document.getElementById(id);

// el("p.small", { title: "…" }, "text", child, …)
export function el(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElement(tag), classes, attributes, children);
}

export function svg(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElementNS(SVG, tag), classes, attributes, children);
}

function fill(node, classes, attributes, children) {
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function text(id, words) {
  const node = typeof id === "string" ? get(id) : id;
  if (node.textContent !== words) node.textContent = words;
}

export function empty(words) {
  return el("p.empty", {}, words);
}

// A share as a thin bar; its number stands beside it, so it is hidden from readers.
export function bar(share, kind = "") {
  const inner = el(`span${kind && `.${kind}`}`);
  inner.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, share || 0))}%`);
  return el("span.meter", { "aria-hidden": "true" }, inner);
}

export function table(caption, heads, rows) {
  const head = el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)));
  const body = rows.map(([first, ...cells]) =>
    el("tr", {}, el("th", { scope: "row" }, first), ...cells.map((c) => el("td", {}, c))));
  return el("table", {}, el("caption.hidden", {}, caption), el("thead", {}, head), el("tbody", {}, ...body));
}

// Ticks at round numbers: about n of them in [low, high].
export function ticks(low, high, n) {
  const rough = (high - low) / n;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= rough * 0.999);
  const found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9; x += step) found.push(x);
  return found;
}

// Where a value is against break-even, on a scale from 1.
export function gauge(node, { value, breakeven }) {
  if (value === null || value === undefined) {
    node.replaceChildren();
    node.hidden = true;
    return;
  }
  node.hidden = false;
  const top = Math.max(value, breakeven ?? 1, 2) * 1.12;
  const at = (x) => `${(100 * (x - 1)) / (top - 1)}%`;
  const fillBar = el("span.fill");
  fillBar.style.setProperty("--to", at(value));
  const parts = [fillBar];
  if (breakeven) {
    const mark = el("span.mark", {}, el("b", {}, `break-even ${breakeven.toFixed(2)}`));
    mark.style.setProperty("--at", at(breakeven));
    mark.classList.toggle("left", (breakeven - 1) / (top - 1) > 0.55);
    parts.push(mark);
  }
  node.classList.toggle("under", Boolean(breakeven) && value < breakeven);
  node.replaceChildren(...parts);
  node.setAttribute("aria-label",
    `${value.toFixed(2)} tokens a round with guesses` + (breakeven ? `; break-even is ${breakeven.toFixed(2)}` : ""));
}

// Bars of shares: [{ name, share, note, few }]; few: so little stands behind it that it is drawn pale.
export function bars(node, found, label) {
  const width = Math.max(260, node.clientWidth), height = 168;
  const base = height - 22, top = 20;
  const slot = width / found.length;
  const wide = Math.min(46, slot * 0.68);
  const parts = [svg("line.axis", { x1: 0, x2: width, y1: base + 0.5, y2: base + 0.5 })];
  found.forEach(({ name, share, note, few }, i) => {
    const x = slot * i + slot / 2;
    const h = Math.max(2, (base - top) * share);
    parts.push(
      svg("rect.ghost", { x: x - wide / 2, y: top, width: wide, height: base - top, rx: 3 }),
      svg(few ? "rect.bar.few" : "rect.bar", { x: x - wide / 2, y: base - h, width: wide, height: h, rx: 3 },
        svg("title", {}, note)),
      svg("text.tick", { x, y: height - 6, "text-anchor": "middle" }, name));
    if (slot > 26) {
      const inside = !few && h > base - top - 14;
      parts.push(svg(inside ? "text.value.inside" : "text.value",
        { x, y: inside ? base - h + 14 : base - h - 5, "text-anchor": "middle" },
        `${Math.round(100 * share)}`));
    }
  });
  node.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...parts));
  node.setAttribute("aria-label", label);
}
