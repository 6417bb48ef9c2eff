// Draws the plots and heat maps of a page from the JSON beside each of them. Text only ever
// becomes text nodes.
"use strict";
(function () {
const NS = "http://www.w3.org/2000/svg";
const LEFT = 56, RIGHT = 14, TOP = 20, BOTTOM = 34, ROW = 15;
const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
let n_clips = 0;

function el(parent, name, cls, text) {
  const e = document.createElement(name);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}
function svg(parent, name, attributes, text) {
  const e = document.createElementNS(NS, name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}
const colour = i => "var(--s" + (i % 8) + ")";
// Behind the eight colours the lines change: whole, long dashes, dots, both.
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const dashes = i => DASHES[Math.floor(i / 8) % DASHES.length];
// The same line as the ground of a small box.
function swatch(i) {
  let at = 0;
  const stops = dashes(i).map((n, k) => (k % 2 ? "transparent " : colour(i) + " ") + at + "px " +
                                        (at += n) + "px");
  return stops.length ? "repeating-linear-gradient(90deg," + stops.join(",") + ")" : colour(i);
}

// ---- numbers ----

function short(v) {
  const a = Math.abs(v);
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (a >= size) return +(v / (size === 1e4 ? 1e3 : size)).toPrecision(4) + letter;
  if (a !== 0 && a < 1e-3) return v.toExponential(1).replace(".0e", "e");
  return String(+v.toPrecision(4));
}
function exact(v) {
  if (Number.isInteger(v)) return v.toLocaleString("en");
  const a = Math.abs(v);
  return a !== 0 && (a < 1e-3 || a >= 1e7) ? v.toExponential(3) : String(+v.toPrecision(5));
}
function linearTicks(lo, hi, n) {
  const raw = (hi - lo) / n, base = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = base * [1, 2, 5, 10].find(m => m * base >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; k++)
    ticks.push(+(k * step).toPrecision(12));
  return ticks;
}
function logTicks(lo, hi) {
  const from = Math.floor(Math.log10(lo)), to = Math.ceil(Math.log10(hi)), ticks = [];
  const every = Math.ceil((to - from) / 8);
  const within = to - from <= 2 ? [1, 2, 5] : [1];
  for (let d = from; d <= to; d += every)
    for (const m of within) {
      const t = m * Math.pow(10, d);
      if (t >= lo * 0.999 && t <= hi * 1.001) ticks.push(t);
    }
  return ticks.length > 1 ? ticks : [lo, hi];
}
// The index of the point nearest to x.
function nearest(xs, x) {
  let lo = 0, hi = xs.length - 1;
  while (hi - lo > 1) {
    const mid = (lo + hi) >> 1;
    if (xs[mid] < x) lo = mid; else hi = mid;
  }
  return Math.abs(xs[hi] - x) < Math.abs(xs[lo] - x) ? hi : lo;
}

// ---- a box that follows the pointer ----

function tip(figure) {
  const box = el(figure, "div", "tip");
  box.hidden = true;
  return {
    hide() { box.hidden = true; },
    show(event, title, rows) {
      box.textContent = "";
      el(box, "b", "", title);
      for (const [c, text] of rows) {
        const row = el(box, "div");
        if (c) el(row, "i").style.background = c;
        row.appendChild(document.createTextNode(text));
      }
      box.hidden = false;
      const r = figure.getBoundingClientRect(), x = event.clientX - r.left;
      const left = x + 14 + box.offsetWidth > r.width ? x - 14 - box.offsetWidth : x + 14;
      box.style.left = Math.max(0, left) + "px";
      box.style.top = event.clientY - r.top + 12 + "px";
    }
  };
}

// ---- line plots ----

function Plot(figure, data) {
  const head = el(figure, "div", "head");
  el(head, "span", "", data.title);
  const reset = el(head, "button", "", "whole range"), log = el(head, "button");
  const root = svg(figure, "svg", {role: "img"});
  root.setAttribute("aria-label", data.title);
  const legend = el(figure, "div", "legend"), box = tip(figure);
  const state = {log: data.log, off: new Set(), range: null, drag: null};
  let place = null;

  log.onclick = () => { state.log = !state.log; draw(); };
  reset.onclick = () => { state.range = null; draw(); };
  data.series.forEach((s, i) => {
    const b = el(legend, "button", "", s.name);
    b.style.setProperty("--c", swatch(i));
    b.title = "click to hide or show";
    b.onclick = () => {
      if (!state.off.delete(i)) state.off.add(i);
      b.classList.toggle("off", state.off.has(i));
      draw();
    };
  });
  legend.hidden = data.series.length < 2;

  const shown = v => v !== null && (!state.log || v > 0);
  const visible = () => data.series.map((s, i) => [s, i]).filter(p => !state.off.has(p[1]));

  function rangeX() {
    if (state.range) return state.range;
    let lo = Infinity, hi = -Infinity;
    for (const s of data.series)
      if (s.x.length) { lo = Math.min(lo, s.x[0]); hi = Math.max(hi, s.x[s.x.length - 1]); }
    if (!(lo <= hi)) return [0, 1];
    return lo === hi ? [lo - 1, hi + 1] : [lo, hi];
  }
  function rangeY(rx) {
    let lo = Infinity, hi = -Infinity;
    const take = v => { if (shown(v)) { lo = Math.min(lo, v); hi = Math.max(hi, v); } };
    const fitted = visible().filter(p => !p[0].aside);
    for (const [s] of fitted.length ? fitted : visible())
      s.x.forEach((x, k) => {
        if (x < rx[0] || x > rx[1]) return;
        take(s.y[k]);
        if (s.low) { take(s.low[k]); take(s.high[k]); }
      });
    if (lo <= hi) for (const l of data.levels) take(l.y);
    if (!(lo <= hi)) return state.log ? [1, 10] : [0, 1];
    if (state.log) return lo === hi ? [lo / 2, hi * 2] : [lo / 1.05, hi * 1.05];
    const pad = lo === hi ? Math.abs(lo) * 0.1 || 1 : (hi - lo) * 0.04;
    return [lo - pad, hi + pad];
  }

  function drawAxes(p) {
    const ticks = state.log ? logTicks(p.ry[0], p.ry[1]) : linearTicks(p.ry[0], p.ry[1], 5);
    for (const t of ticks) {
      svg(root, "line", {class: "grid", x1: LEFT, x2: p.right, y1: p.y(t), y2: p.y(t)});
      svg(root, "text", {x: LEFT - 7, y: p.y(t) + 4, "text-anchor": "end"}, short(t));
    }
    for (const t of linearTicks(p.rx[0], p.rx[1], Math.max(2, Math.floor(p.width / 110)))) {
      svg(root, "line", {class: "grid", x1: p.x(t), x2: p.x(t), y1: TOP, y2: p.bottom});
      svg(root, "text", {x: p.x(t), y: p.bottom + 15, "text-anchor": "middle"}, short(t));
    }
    svg(root, "line", {class: "axis", x1: LEFT, x2: p.right, y1: p.bottom, y2: p.bottom});
    svg(root, "text", {x: p.right, y: p.bottom + 29, "text-anchor": "end"}, data.x_name);
    svg(root, "text", {x: 0, y: 10}, data.y_name);
  }

  function drawMarks(p) {
    let last = -Infinity;
    for (const m of data.marks) {
      const x = p.x(m.x);
      if (m.x < p.rx[0] || m.x > p.rx[1]) continue;
      const tall = m.label !== undefined;
      svg(root, "line", {class: (tall ? "mark " : "tick ") + m.tone, x1: x, x2: x,
                         y1: tall ? TOP : p.bottom - 7, y2: p.bottom});
      if (!tall || x < last) continue;
      const left = x > p.right - 90;
      const text = svg(root, "text", {x: left ? x - 4 : x + 4, y: TOP + 9,
                                      "text-anchor": left ? "end" : "start"}, m.label);
      last = x + text.getComputedTextLength() + 8;
    }
    for (const l of data.levels) {
      if (!shown(l.y)) continue;
      svg(root, "line", {class: "level", x1: LEFT, x2: p.right, y1: p.y(l.y), y2: p.y(l.y)});
      svg(root, "text", {x: p.right, y: p.y(l.y) - 4, "text-anchor": "end"}, l.label);
    }
  }

  function path(p, xs, ys) {
    let d = "", pen = false;
    xs.forEach((x, k) => {
      if (!shown(ys[k])) { pen = false; return; }
      d += (pen ? "L" : "M") + p.x(x).toFixed(1) + " " + p.y(ys[k]).toFixed(1);
      pen = true;
    });
    return d;
  }
  function drawSeries(p, group, s, i) {
    const style = "stroke:" + colour(i) + ";stroke-dasharray:" + dashes(i).join(" ");
    if (s.low) {
      const ok = s.x.map((x, k) => k).filter(k => shown(s.low[k]) && shown(s.high[k]));
      const at = (k, v) => p.x(s.x[k]).toFixed(1) + " " + p.y(v[k]).toFixed(1);
      const up = ok.map(k => at(k, s.high)), down = ok.reverse().map(k => at(k, s.low));
      if (ok.length) svg(group, "path", {class: "band", style: "fill:" + colour(i),
                                         d: "M" + up.concat(down).join("L") + "Z"});
    }
    svg(group, "path", {class: "line" + (s.faint ? " faint" : ""), style, d: path(p, s.x, s.y)});
    s.x.forEach((x, k) => {
      const alone = !shown(s.y[k - 1] === undefined ? null : s.y[k - 1]) &&
                    !shown(s.y[k + 1] === undefined ? null : s.y[k + 1]);
      if ((s.dots || alone) && shown(s.y[k]))
        svg(group, "circle", {cx: p.x(x), cy: p.y(s.y[k]), r: s.dots ? 3 : 1.5,
                              style: "fill:" + colour(i)});
    });
  }

  function draw() {
    const width = Math.max(260, figure.clientWidth);
    const height = figure.classList.contains("wide") ? 320 : 230;
    const rx = rangeX(), ry = rangeY(rx), right = width - RIGHT, bottom = height - BOTTOM;
    const f = state.log ? Math.log10 : v => v;
    const p = place = {
      rx, ry, right, bottom, width,
      x: v => LEFT + (v - rx[0]) / (rx[1] - rx[0]) * (right - LEFT),
      y: v => bottom - (f(v) - f(ry[0])) / (f(ry[1]) - f(ry[0])) * (bottom - TOP),
      value: px => rx[0] + (px - LEFT) / (right - LEFT) * (rx[1] - rx[0])
    };
    root.textContent = "";
    root.setAttribute("height", height);
    root.setAttribute("viewBox", "0 0 " + width + " " + height);
    log.textContent = state.log ? "log" : "linear";
    log.title = "click for a " + (state.log ? "linear" : "logarithmic") + " axis";
    reset.hidden = !state.range;
    drawAxes(p);
    const id = "clip-" + ++n_clips;
    svg(svg(root, "clipPath", {id}), "rect",
        {x: LEFT, y: TOP - 4, width: right - LEFT, height: bottom - TOP + 8});
    const group = svg(root, "g", {"clip-path": "url(#" + id + ")"});
    const order = visible();
    order.filter(q => q[0].faint).concat(order.filter(q => !q[0].faint))
      .forEach(([s, i]) => drawSeries(p, group, s, i));
    drawMarks(p);
    p.zoom = svg(root, "rect", {class: "zoom", y: TOP, height: bottom - TOP, width: 0});
    p.cross = svg(root, "line", {class: "cross", y1: TOP, y2: bottom, visibility: "hidden"});
  }

  const pointer = e => {
    const r = root.getBoundingClientRect();
    return Math.min(place.right, Math.max(LEFT, (e.clientX - r.left) * place.width / r.width));
  };
  root.onpointermove = e => {
    const px = pointer(e), want = place.value(px), rows = [];
    if (state.drag !== null) {
      place.zoom.setAttribute("x", Math.min(px, state.drag));
      place.zoom.setAttribute("width", Math.abs(px - state.drag));
    }
    let at = null;
    for (const [s] of visible()) {
      const k = nearest(s.x, want);
      if (s.x.length && (at === null || Math.abs(s.x[k] - want) < Math.abs(at - want)))
        at = s.x[k];
    }
    if (at === null) return;
    for (const [s, i] of visible()) {
      if (!s.x.length) continue;
      const k = nearest(s.x, at), y = s.y[k];
      rows.push([swatch(i), s.name + "  " + (y === null ? "not finite" : exact(y)) +
                 (s.x[k] === at ? "" : "  (at " + exact(s.x[k]) + ")")]);
    }
    const near = (place.rx[1] - place.rx[0]) / (place.right - LEFT) * 4;
    for (const m of data.marks)
      if (m.label !== undefined && Math.abs(m.x - at) <= near) rows.push([null, m.label]);
    place.cross.setAttribute("x1", place.x(at));
    place.cross.setAttribute("x2", place.x(at));
    place.cross.setAttribute("visibility", "visible");
    box.show(e, data.x_name + " " + exact(at), rows);
  };
  root.onpointerleave = () => { box.hide(); place.cross.setAttribute("visibility", "hidden"); };
  root.onpointerdown = e => { state.drag = pointer(e); };
  root.onpointerup = e => {
    const from = state.drag, to = pointer(e);
    state.drag = null;
    if (from === null || Math.abs(to - from) < 8) { place.zoom.setAttribute("width", 0); return; }
    state.range = [place.value(Math.min(from, to)), place.value(Math.max(from, to))];
    draw();
  };
  root.ondblclick = () => { state.range = null; draw(); };
  draw();
  return draw;
}

// ---- heat maps ----

function viridis(share) {
  const t = Math.min(1, Math.max(0, share)) * (VIRIDIS.length - 1), i = Math.min(3, Math.floor(t));
  return "rgb(" + VIRIDIS[i].map((c, k) => Math.round(c + (VIRIDIS[i + 1][k] - c) * (t - i))) + ")";
}

function Heat(figure, data) {
  const head = el(figure, "div", "head");
  el(head, "span", "", data.title);
  const body = el(figure, "div", "heat"), names = el(body, "ul");
  const canvas = el(body, "canvas"), scale = el(figure, "div", "scale"), box = tip(figure);
  let lo = data.low, hi = data.high;
  for (const row of data.rows) {
    el(names, "li", "", row.name).title = row.name;
    for (const v of row.v)
      if (typeof v === "number") {
        if (data.low === null) lo = lo === null ? v : Math.min(lo, v);
        if (data.high === null) hi = hi === null ? v : Math.max(hi, v);
      }
  }
  if (lo === null) lo = 0;
  if (hi === null || hi <= lo) hi = lo + 1;
  el(scale, "span", "", short(lo));
  el(scale, "i").style.background =
    "linear-gradient(90deg," + [0, .25, .5, .75, 1].map(viridis).join(",") + ")";
  el(scale, "span", "", short(hi) + "  " + data.value);
  const n = data.x.length;
  if (n) el(scale, "em", "", data.x_name + " " + exact(data.x[0]) + " to " + exact(data.x[n - 1]));
  const say = v => v === "inf" ? "nothing lost" : v === "-inf" ? "all lost" :
                   v === null ? "none" : exact(v);

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = Math.max(60, canvas.clientWidth);
    const height = data.rows.length * ROW;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    data.rows.forEach((row, r) => row.v.forEach((v, c) => {
      if (v === null) return;
      const share = v === "inf" ? 1 : v === "-inf" ? 0 : (v - lo) / (hi - lo);
      pen.fillStyle = viridis(share);
      const x0 = Math.floor(c * canvas.width / n), x1 = Math.floor((c + 1) * canvas.width / n);
      pen.fillRect(x0, Math.round(r * ROW * ratio), x1 - x0,
                   Math.round((ROW - 1) * ratio));
    }));
  }
  canvas.onpointermove = e => {
    const r = canvas.getBoundingClientRect();
    const c = Math.min(n - 1, Math.max(0, Math.floor((e.clientX - r.left) / r.width * n)));
    const row = data.rows[Math.floor((e.clientY - r.top) / ROW)];
    if (!row || n === 0) { box.hide(); return; }
    box.show(e, row.name, [[null, data.x_name + " " + exact(data.x[c])],
                           [null, data.value + " " + say(row.v[c])]]);
  };
  canvas.onpointerleave = () => box.hide();
  draw();
  return draw;
}

const drawings = [];
for (const script of document.querySelectorAll("figure.drawing > script")) {
  const data = JSON.parse(script.textContent);
  drawings.push((script.dataset.kind === "heat" ? Heat : Plot)(script.parentElement, data));
}
let due = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(due);
  due = requestAnimationFrame(() => drawings.forEach(draw => draw()));
});
document.documentElement.dataset.drawn = String(drawings.length);
})();
