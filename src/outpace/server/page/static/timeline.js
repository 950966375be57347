// Acceptance length against break-even, over the last five minutes.

import { svg, text, ticks, empty } from "./draw.js";
import { ago, decimal } from "./words.js";

const SPAN_S = 300;
// What is shown of it while there is less: seconds, and where to write the time.
const SPANS = [[60, [60, 45, 30, 15, 0]], [120, [120, 90, 60, 30, 0]], [SPAN_S, [300, 240, 180, 120, 60, 0]]];
const SMOOTH_S = 5; // single seconds hold few rounds
const GAP_S = 6;
const LEFT = 34, RIGHT = 12, TOP = 12, BOTTOM = 24;

export class Timeline {
  constructor(node, read) {
    this.node = node;
    this.read = read;
    this.points = new Map(); // by where they begin; the newest one still grows
    this.shown = [];
    this.cursor = null;
    this.now = 0;
    node.addEventListener("pointermove", (event) => this.point(event));
    node.addEventListener("pointerleave", () => this.pick(null));
    node.addEventListener("blur", () => this.pick(null));
    node.addEventListener("keydown", (event) => this.walk(event));
    new ResizeObserver(() => this.draw()).observe(node);
  }

  add(points, now) {
    this.now = now;
    for (const point of points) this.points.set(Math.round(10 * (point.time - point.seconds)), point);
    for (const [key, point] of this.points) if (point.time < now - SPAN_S) this.points.delete(key);
    this.draw();
  }

  forget() {
    this.points.clear();
  }

  smooth() {
    const all = [...this.points.values()].sort((a, b) => a.time - b.time);
    const found = [];
    for (const point of all) {
      const near = all.filter((p) => p.time <= point.time && p.time > point.time - SMOOTH_S && p.drafts);
      const drafts = near.reduce((sum, p) => sum + p.drafts, 0);
      const kept = near.reduce((sum, p) => sum + (p.length - 1) * p.drafts, 0);
      const even = near.map((p) => p.breakeven).filter((x) => x !== null).sort((a, b) => a - b);
      found.push({
        time: point.time, rounds: point.rounds,
        length: drafts ? 1 + kept / drafts : null,
        breakeven: even.length ? even[even.length >> 1] : null,
      });
    }
    return found.filter((p) => p.rounds);
  }

  draw() {
    const points = this.smooth();
    this.shown = points;
    const known = points.flatMap((p) => [p.length, p.breakeven]).filter((x) => x !== null);
    if (!known.length) {
      const words = points.length
        ? "Rounds ran, none with guesses: there is no acceptance length to show."
        : "Nothing ran in the last five minutes. Each second with rounds becomes a point here.";
      this.node.replaceChildren(empty(words));
      this.node.setAttribute("aria-label", words);
      return;
    }
    const width = Math.max(260, this.node.clientWidth), height = width < 500 ? 180 : 220;
    // Break-even jumps where costs are still being learned; what is far above all others is drawn
    // at the top, so that it does not flatten them. Lengths are always shown whole.
    const lengths = points.map((p) => p.length ?? 1);
    const evens = points.map((p) => p.breakeven ?? 1).sort((a, b) => a - b);
    const top = Math.max(2, ...lengths, evens[Math.floor(0.9 * (evens.length - 1))]) * 1.1;
    const age = this.now - points[0].time;
    const [span, times] = SPANS.find(([s]) => age <= s) ?? SPANS.at(-1);
    this.x = (time) => LEFT + ((time - (this.now - span)) / span) * (width - LEFT - RIGHT);
    this.y = (value) => height - BOTTOM - ((Math.min(value, top) - 1) / (top - 1)) * (height - TOP - BOTTOM);
    const parts = [];
    for (const value of new Set([1, ...ticks(1, top, 5)])) {
      parts.push(svg("line.rule", { x1: LEFT, x2: width - RIGHT, y1: this.y(value), y2: this.y(value) }),
        svg("text.tick", { x: LEFT - 8, y: this.y(value) + 4, "text-anchor": "end" }, `${+value.toFixed(2)}`));
    }
    for (const [i, s] of times.entries()) {
      if (width < 500 && i % 2 !== (times.length - 1) % 2) continue;
      const anchor = s === 0 ? "end" : i === 0 ? "start" : "middle";
      const words = s % 60 ? `${s} s ago` : `${s / 60} min ago`;
      parts.push(svg("text.tick", { x: this.x(this.now - s), y: height - 6, "text-anchor": anchor }, s ? words : "now"));
    }
    parts.push(...this.path(points, "breakeven", "path.dashed"), ...this.path(points, "length", "path.curve"));
    const last = points.findLast((p) => p.length !== null);
    if (last) parts.push(svg("circle.dot", { cx: this.x(last.time), cy: this.y(last.length), r: 3.5 }));
    this.mark = svg("g.mark");
    parts.push(this.mark);
    this.height = height;
    this.node.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...parts));
    const pair = last ? `${decimal(last.length)} tokens a round with guesses ${ago(this.now - last.time)}` : "no guesses";
    const even = last && last.breakeven !== null ? `, break-even ${decimal(last.breakeven)}` : "";
    this.node.setAttribute("aria-label", `Over five minutes: ${pair}${even}. Left and right arrows read single points.`);
    if (this.cursor !== null) this.pick(this.cursor);
  }

  path(points, field, kind) {
    const runs = [];
    let run = null, before = -Infinity;
    for (const point of points) {
      if (point[field] === null || point.time - before > GAP_S) run = null;
      if (point[field] !== null) {
        if (!run) runs.push((run = []));
        run.push(`${this.x(point.time).toFixed(1)},${this.y(point[field]).toFixed(1)}`);
        before = point.time;
      }
    }
    return runs.map((r) => svg(kind, { d: r.length > 1 ? `M${r.join("L")}` : `M${r[0]}h1.5` }));
  }

  point(event) {
    if (!this.shown.length || !this.x) return;
    const x = event.clientX - this.node.getBoundingClientRect().left;
    const near = this.shown.reduce((a, b) => (Math.abs(this.x(b.time) - x) < Math.abs(this.x(a.time) - x) ? b : a));
    this.pick(near.time);
  }

  walk(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.shown.length) return;
    event.preventDefault();
    const last = this.shown.length - 1;
    const at = this.cursor === null ? last : this.shown.findIndex((p) => p.time >= this.cursor) + step;
    this.pick(this.shown[Math.min(last, Math.max(0, at))].time);
  }

  pick(time) {
    this.cursor = time;
    const point = time === null ? null : this.shown.find((p) => p.time >= time);
    if (this.mark) this.mark.replaceChildren();
    if (!point) {
      text(this.read, "");
      return;
    }
    const x = this.x(point.time);
    this.mark.append(svg("line.cursor", { x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM }));
    const guessed = point.length === null ? "no guesses" : `${decimal(point.length)} tokens a round with guesses`;
    const even = point.breakeven === null ? "" : `, break-even ${decimal(point.breakeven)}`;
    text(this.read, `${ago(this.now - point.time)}: ${guessed}${even}`);
  }
}
