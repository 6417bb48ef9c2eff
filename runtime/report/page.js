// Draws the plots and heat maps of a page from the JSON beside each of them. Text only ever
// becomes text nodes.
"use strict";
(function () {
const NS = "http://www.w3.org/2000/svg";
const LEFT = 56, RIGHT = 14, TOP = 20, BOTTOM = 34, ROW = 15, NAMES = 16, MOST_ROWS = 40;
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

function short(v, digits = 4) {
  const a = Math.abs(v);
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (a >= size) return +(v / (size === 1e4 ? 1e3 : size)).toPrecision(digits) + letter;
  if (a !== 0 && a < 1e-3) return +v.toPrecision(digits - 2) === 0 ? "0" :
    v.toExponential(digits - 3).replace(/\.?0*e/, "e");
  return String(+v.toPrecision(digits));
}
// Ticks with as many digits as it takes to tell them apart.
function labels(ticks) {
  for (let digits = 4; ; digits++) {
    const texts = ticks.map(t => short(t, digits));
    if (digits === 12 || new Set(texts).size === texts.length) return texts;
  }
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
// At least four ticks: powers of ten, or with 2 and 5 between; even steps within a decade.
function logTicks(lo, hi) {
  const from = Math.floor(Math.log10(lo)), to = Math.ceil(Math.log10(hi));
  const every = Math.ceil((to - from) / 8);
  for (const within of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]]) {
    const ticks = [];
    for (let d = from; d <= to; d += every)
      for (const m of within) {
        const t = +(m + "e" + d);
        if (t >= lo * 0.999 && t <= hi * 1.001) ticks.push(t);
      }
    if (ticks.length > 3) return ticks;
  }
  return linearTicks(lo, hi, 5).filter(t => t > 0);
}
// Counts have no ticks between two of them.
function countTicks(lo, hi, n) {
  const ticks = linearTicks(lo, hi, n), whole = ticks.filter(Number.isInteger);
  return whole.length || lo % 1 || hi % 1 ? whole : ticks;
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

// ---- the x axis, of plots and of maps ----

function drawX(root, p, name, single) {
  const most = Math.max(3, Math.floor((p.right - p.left) / 75));
  const ticks = single === null ? countTicks(p.rx[0], p.rx[1], most) : [single];
  const texts = labels(ticks);
  ticks.forEach((t, i) => {
    svg(root, "line", {class: "grid", x1: p.x(t), x2: p.x(t), y1: p.top, y2: p.bottom});
    svg(root, "text", {x: p.x(t), y: p.bottom + 15, "text-anchor": "middle"}, texts[i]);
  });
  svg(root, "line", {class: "axis", x1: p.left, x2: p.right, y1: p.bottom, y2: p.bottom});
  svg(root, "text", {x: p.right, y: p.bottom + 29, "text-anchor": "end"}, name);
}
// Names stand above the curves, each cut to the room up to the next.
function drawMarks(root, p, marks) {
  const inside = marks.filter(m => m.x >= p.rx[0] && m.x <= p.rx[1]);
  const named = inside.filter(m => m.label !== undefined);
  for (const m of inside) {
    const tall = m.label !== undefined, x = p.x(m.x);
    svg(root, "line", {class: (tall ? "mark " : "tick ") + m.tone, x1: x, x2: x,
                       y1: tall ? p.top - 4 : p.bottom - 7, y2: p.bottom});
  }
  named.forEach((m, i) => {
    const x = p.x(m.x), room = (i + 1 < named.length ? p.x(named[i + 1].x) : p.right + RIGHT) - x - 8;
    const text = svg(root, "text", {x: x + 2, y: p.top - 8}, m.label);
    for (let n = m.label.length; n > 0 && text.getComputedTextLength() > room; n--)
      text.textContent = n > 2 ? m.label.slice(0, n - 1) + "\u2026" : "";
    svg(text, "title", {}, m.label);
  });
}

// ---- line plots ----

function Plot(figure, data) {
  const head = el(figure, "div", "head");
  el(head, "span", "", data.title);
  const reset = el(head, "button", "", "whole range"), choice = el(head, "label");
  const log = el(choice, "input");
  log.type = "checkbox";
  choice.appendChild(document.createTextNode(" log axis"));
  const root = svg(figure, "svg", {role: "img"});
  root.setAttribute("aria-label", data.title);
  const legend = el(figure, "div", "legend"), box = tip(figure);
  const state = {log: data.log, off: new Set(), range: null, drag: null};
  let place = null;

  log.checked = state.log;
  log.onchange = () => { state.log = log.checked; draw(); };
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
    return lo === hi ? [lo - (Math.abs(lo) / 2 || 1), hi + (Math.abs(lo) / 2 || 1)] : [lo, hi];
  }
  // The only x that there is, for one point, or null.
  function singleX() {
    const xs = new Set();
    for (const s of data.series) for (const x of s.x) { xs.add(x); if (xs.size > 1) return null; }
    return xs.size === 1 && !state.range ? [...xs][0] : null;
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
    if (state.log) {
      const pad = lo === hi ? 2 : Math.pow(hi / lo, 0.04);
      return [lo / pad, hi * pad];
    }
    const pad = lo === hi ? Math.abs(lo) * 0.1 || 1 : (hi - lo) * 0.04;
    return [lo - pad, hi + pad];
  }

  function drawAxes(p) {
    const ticks = state.log ? logTicks(p.ry[0], p.ry[1]) : 
      linearTicks(p.ry[0], p.ry[1], Math.floor((p.bottom - p.top) / 26));
    const texts = labels(ticks);
    ticks.forEach((t, i) => {
      svg(root, "line", {class: "grid", x1: LEFT, x2: p.right, y1: p.y(t), y2: p.y(t)});
      svg(root, "text", {class: "y", x: LEFT - 7, y: p.y(t) + 4, "text-anchor": "end"}, texts[i]);
    });
    drawX(root, p, data.x_name, singleX());
    svg(root, "text", {x: 0, y: 10}, data.y_name);
  }

  function drawLevels(p) {
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
    const top = TOP + (data.marks.some(m => m.label !== undefined) ? NAMES : 0);
    const f = state.log ? Math.log10 : v => v;
    const p = place = {
      rx, ry, left: LEFT, right, top, bottom, width,
      x: v => LEFT + (v - rx[0]) / (rx[1] - rx[0]) * (right - LEFT),
      y: v => bottom - (f(v) - f(ry[0])) / (f(ry[1]) - f(ry[0])) * (bottom - top),
      value: px => rx[0] + (px - LEFT) / (right - LEFT) * (rx[1] - rx[0])
    };
    root.textContent = "";
    root.setAttribute("height", height);
    root.setAttribute("viewBox", "0 0 " + width + " " + height);
    reset.hidden = !state.range;
    drawAxes(p);
    const id = "clip-" + ++n_clips;
    svg(svg(root, "clipPath", {id}), "rect",
        {x: LEFT - 5, y: top - 5, width: right - LEFT + 10, height: bottom - top + 10});
    const group = svg(root, "g", {"clip-path": "url(#" + id + ")"});
    const order = visible();
    order.filter(q => q[0].faint).concat(order.filter(q => !q[0].faint))
      .forEach(([s, i]) => drawSeries(p, group, s, i));
    drawLevels(p);
    drawMarks(root, p, data.marks);
    p.zoom = svg(root, "rect", {class: "zoom", y: top, height: bottom - top, width: 0});
    p.cross = svg(root, "line", {class: "cross", y1: top, y2: bottom, visibility: "hidden"});
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
  const all = el(head, "button"), above = svg(figure, "svg", {class: "names"});
  const body = el(figure, "div", "heat"), names = el(body, "ul");
  const canvas = el(body, "canvas"), below = svg(figure, "svg", {});
  const scale = el(figure, "div", "scale"), box = tip(figure);
  let whole = data.rows.length <= MOST_ROWS;
  all.hidden = whole;
  all.onclick = () => { whole = !whole; draw(); };
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
  // A column reaches from the count before to its own, as the tokens of its steps do; where none
  // was due before, as far as most do.
  const n = data.x.length, first = n ? data.x[0] : 0, last = n ? data.x[n - 1] : 0;
  const gaps = data.x.map((x, c) => x - (c ? data.x[c - 1] : 0)).slice(1);
  const usual = gaps.slice().sort((a, b) => a - b)[gaps.length >> 1] || Math.abs(first) || 1;
  const from = data.x.map((x, c) =>
    c === 0 ? Math.max(Math.min(0, x), x - usual) :
    gaps[c - 1] > 1.5 * usual ? x - usual : data.x[c - 1]);
  for (const m of data.marks) // a phase begins: counts of it reach no further back
    if (m.label !== undefined)
      data.x.forEach((x, c) => { if (m.x < x && m.x > from[c]) from[c] = m.x; });
  const rx = [Math.min(n ? from[0] : 0, data.x_low !== null ? data.x_low : Infinity),
              Math.max(last, data.x_high !== null ? data.x_high : -Infinity)];
  if (!(rx[1] > rx[0])) rx[1] = rx[0] + 1;
  const say = v => v === "inf" ? "nothing lost" : v === "-inf" ? "all lost" :
                   v === null ? "none" : exact(v);

  // The axis of the curves below the map, and their phases above it.
  function drawAround(width) {
    const full = Math.max(260, figure.clientWidth), left = canvas.offsetLeft;
    const place = {left, right: left + width, rx,
                   x: v => left + (v - rx[0]) / (rx[1] - rx[0]) * width};
    for (const [root, height] of [[above, NAMES], [below, BOTTOM]]) {
      root.textContent = "";
      root.setAttribute("height", height);
      root.setAttribute("viewBox", "0 0 " + full + " " + height);
    }
    drawX(below, Object.assign({top: 0, bottom: 4}, place), data.x_name, null);
    drawMarks(above, Object.assign({top: NAMES + 4, bottom: NAMES}, place),
              data.marks.filter(m => m.label !== undefined));
    for (const m of data.marks)
      if (m.label !== undefined && m.x >= rx[0] && m.x <= rx[1])
        svg(below, "line", {class: "mark", x1: place.x(m.x), x2: place.x(m.x), y1: 0, y2: 8});
    above.style.display = data.marks.some(m => m.label !== undefined) ? "" : "none";
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = Math.max(60, canvas.clientWidth);
    const height = data.rows.length * ROW;
    canvas.style.height = height + "px";
    body.style.maxHeight = whole ? "none" : MOST_ROWS * ROW + "px";
    all.textContent = whole ? "fewer rows" : "all " + data.rows.length + " rows";
    all.title = whole ? "" : "or scroll within the map";
    drawAround(width);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    data.rows.forEach((row, r) => row.v.forEach((v, c) => {
      if (v === null) return;
      const share = v === "inf" ? 1 : v === "-inf" ? 0 : (v - lo) / (hi - lo);
      pen.fillStyle = viridis(share);
      const at = x => Math.round((x - rx[0]) / (rx[1] - rx[0]) * canvas.width);
      const x1 = at(data.x[c]), x0 = Math.min(x1 - 1, at(from[c]));
      pen.fillRect(x0, Math.round(r * ROW * ratio), x1 - x0,
                   Math.round((ROW - 1) * ratio));
    }));
    pen.fillStyle = getComputedStyle(figure).color;
    for (const m of data.marks)
      if (m.label !== undefined && m.x > rx[0] && m.x < rx[1])
        pen.fillRect(Math.round((m.x - rx[0]) / (rx[1] - rx[0]) * canvas.width), 0, ratio, canvas.height);
  }
  canvas.onpointermove = e => {
    const r = canvas.getBoundingClientRect();
    const want = rx[0] + (e.clientX - r.left) / r.width * (rx[1] - rx[0]);
    const c = data.x.findIndex(x => x >= want);
    const row = data.rows[Math.floor((e.clientY - r.top) / ROW)];
    if (!row || c < 0 || want < from[c]) { box.hide(); return; }
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
