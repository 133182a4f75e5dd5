// One function for each chart: from its marks to panels.

const arms = new Map(data.arms.map((arm) => [arm.label, arm]));
const workloads = unique(data.cells.map((cell) => cell.workload));
const closedLoop = data.cells.filter((cell) => cell.rate === null);
const phases = unique(data.phases.map((mark) => mark.phase));
const phaseColour = (phase) => `var(--phase-${(phases.indexOf(phase) % 6) + 1})`;

const look = (arm) => arms.get(arm);
const sources = Object.keys(data.telemetry.samples);
const sourceColour = (source) => `var(--arm-${(sources.indexOf(source) % 6) + 1})`;

const frame = { marginBottom: 42, style: { background: "none", overflow: "visible", fontSize: "11.5px" } };
const hit = (marks, x, y) => Plot.dot(marks, { x, y, r: 11, fill: "transparent", className: "hit" });
const axisOf = (values) => ({ ticks: unique(values).sort(d3.ascending), tickFormat: String });
// The text is given, because a logarithmic scale would leave out labels of its own accord.
const batchAxis = (cells) => Plot.axisX(axisOf(cells.map((cell) => cell.batch)).ticks, { text: String, label: "batch size" });

function perWorkload(marks, plot, titled = workloads.length > 1) {
  return d3
    .groups(marks, (mark) => mark.workload)
    .map(([workload, own]) => ({ title: titled ? shorten(workload, 60) : "", marks: own, plot: (width) => plot(own, width) }));
}

// A line and its markers for each arm; hollow where `isHollow`.
function lines(marks, x, y, { order = x, isHollow = () => false } = {}) {
  return d3
    .groups(marks, (mark) => mark.arm)
    .flatMap(([arm, own]) => {
      const { colour, symbol, dash } = look(arm);
      const sorted = d3.sort(own, (mark) => mark[order]);
      const common = { x, y, stroke: colour };
      return [
        Plot.line(sorted, { ...common, strokeWidth: 1.7, strokeDasharray: dash }),
        Plot.dot(sorted, { ...common, symbol, r: 3.6, fill: (mark) => (isHollow(mark) ? "var(--card)" : colour) }),
      ];
    });
}

const noEvidence = (cell) => cell.void || cell.divergent;

// The full colour is never less than 1.5 times, so that small gains look small.
function tint(cell, span) {
  if (cell.void) return "var(--blank)";
  const share = Math.round(8 + (46 * Math.abs(Math.log(cell.speedup))) / span);
  return `color-mix(in oklab, var(${cell.speedup >= 1 ? "--gain" : "--loss"}) ${share}%, var(--card))`;
}

const excludesOne = (cell) => cell.low !== null && (cell.low > 1 || cell.high < 1);
const interval = (cell) => (cell.low === null ? "" : cell.wide ? "?" : `${cell.low.toFixed(2)}–${cell.high.toFixed(2)}`);

const withSpeedup = closedLoop.filter((cell) => cell.speculative && cell.speedup !== null);

function byMethod(plot) {
  return d3.groups(
    withSpeedup, (cell) => cell.workload, (cell) => cell.method,
  ).flatMap(([workload, methods]) => methods.map(([method, marks]) => ({
    title: workloads.length > 1 ? `${method}, ${shorten(workload, 40)}` : method,
    marks,
    plot: (width) => plot(marks, width),
  })));
}

function speedup() {
  const span = Math.max(Math.log(1.5), ...withSpeedup.map((cell) => Math.abs(Math.log(cell.speedup))));
  return byMethod((marks, width) => {
    const [batches, gammas] = ["batch", "gamma"].map((key) => unique(marks.map((m) => m[key])).sort(d3.ascending));
    const roomy = (width - 56) / batches.length > 62;
    const place = { x: "batch", y: "gamma" };
    const figure = (cell) => {
      const value = cell.speedup.toFixed(2);
      return (cell.void ? `(${value})` : value) + (cell.divergent ? " ≠" : "");
    };
    const text = { ...place, text: figure, fill: "currentColor", dy: roomy ? -6 : 0, fontSize: roomy ? 14 : 11 };
    return Plot.plot({
      ...frame, width, height: 52 + 46 * gammas.length, marginLeft: 46, marginTop: 8, marginBottom: 38, marginRight: 4,
      x: { type: "band", domain: batches, label: "batch size", labelAnchor: "center", labelArrow: "none", tickSize: 0, padding: 0.04 },
      y: { type: "band", domain: gammas, label: "gamma", labelAnchor: "center", labelArrow: "none", tickSize: 0, padding: 0.05 },
      color: { type: "identity" },
      marks: [
        Plot.cell(marks, { ...place, fill: (cell) => tint(cell, span), rx: 3, className: "hit" }),
        Plot.text(marks, { ...text, filter: (cell) => excludesOne(cell) && !cell.void, fontWeight: 700 }),
        Plot.text(marks, { ...text, filter: (cell) => !excludesOne(cell) || cell.void }),
        roomy ? Plot.text(marks, { ...place, text: interval, dy: 9, fontSize: 10, fill: "currentColor" }) : null,
      ],
    });
  });
}

function intervals() {
  const values = withSpeedup.map((cell) => cell.speedup);
  const ends = withSpeedup.filter((cell) => cell.low !== null && !cell.wide).flatMap((cell) => [cell.low, cell.high]);
  const [least, most] = [Math.min(1, ...values), Math.max(1, ...values)];
  const domain = [Math.max(least / 2, Math.min(0.95, least, ...ends)) / 1.05, Math.min(most * 2, Math.max(1.05, most, ...ends)) * 1.05];
  return byMethod((marks, width) => {
    const gammas = unique(marks.map((cell) => cell.gamma)).sort(d3.ascending);
    const aside = (cell) => cell.batch * 2 ** ((gammas.indexOf(cell.gamma) - (gammas.length - 1) / 2) * 0.13);
    const placed = marks.map((cell) => ({ ...cell, x: aside(cell) }));
    return Plot.plot({
      ...frame, width, height: 250, marginLeft: 46, marginRight: 14,
      x: { type: "log", domain: [d3.min(placed, (c) => c.x) / 1.25, d3.max(placed, (c) => c.x) * 1.25] },
      y: { type: "log", domain },
      marks: [
        Plot.gridY(d3.ticks(...domain, 6)),
        Plot.axisY(d3.ticks(...domain, 6), { text: (value) => `${+value.toFixed(2)}×`, label: "speedup" }),
        batchAxis(marks),
        Plot.ruleY([1], { stroke: "var(--ink)", strokeWidth: 1.2 }),
        Plot.ruleX(placed, {
          x: "x", y1: "low", y2: "high", filter: (cell) => cell.low !== null, clip: true,
          stroke: (cell) => look(cell.arm).colour, strokeWidth: 2.4, strokeOpacity: 0.6,
        }),
        ...lines(placed, "x", "speedup", { isHollow: noEvidence }),
        hit(placed, "x", "speedup"),
      ],
    });
  });
}

// What no other cell beats on both counts, from fast users to high throughput.
function front(cells) {
  const found = [];
  for (const cell of d3.sort(cells, (c) => -c.perUser, (c) => -c.throughput)) {
    if (!found.length || cell.throughput > found.at(-1).throughput) found.push(cell);
  }
  return found;
}

function pareto() {
  const marks = closedLoop.filter((cell) => cell.perUser && cell.throughput);
  return perWorkload(marks, (own, width) => Plot.plot({
    ...frame, width, height: Math.min(420, 200 + width / 3), marginLeft: 52, marginRight: 22, marginTop: 24,
    x: { domain: [0, 1.08 * d3.max(own, (c) => c.perUser)], label: "tokens/s for each user (1 / TPOT p50)", grid: true },
    y: { domain: [0, 1.08 * d3.max(own, (c) => c.throughput)], label: "output tokens/s", grid: true, ticks: 6 },
    marks: [
      Plot.line(front(own.filter((c) => !noEvidence(c))), {
        x: "perUser", y: "throughput", stroke: "var(--front)", strokeWidth: 9, strokeLinecap: "round", strokeLinejoin: "round",
      }),
      ...lines(own, "perUser", "throughput", { order: "batch", isHollow: noEvidence }),
      Plot.text(own, { x: "perUser", y: "throughput", text: (c) => String(c.batch), dx: 7, dy: -7, fontSize: 10, fill: "currentColor" }),
      hit(own, "perUser", "throughput"),
    ],
  }));
}

function overRate(key, yAxis, y) {
  const marks = data.cells.filter((cell) => cell.rate !== null && cell[key] !== null);
  return perWorkload(marks, (own, width) => Plot.plot({
    ...frame, width, height: 280, marginLeft: 56, marginRight: 14, marginTop: 24,
    x: { label: "requests/s that came", ...axisOf(own.map((c) => c.rate)), domain: [0, 1.05 * d3.max(own, (c) => c.rate)] },
    y,
    marks: [...yAxis(own), ...lines(own, "rate", key, { isHollow: noEvidence }), hit(own, "rate", key)],
  }));
}

function latency() {
  const axis = (cells) => {
    const [least, most] = d3.extent(cells, (cell) => cell.latency);
    const decades = d3.range(Math.floor(Math.log10(least)), Math.log10(most)).flatMap((k) => [1, 2, 5].map((i) => i * 10 ** k));
    const inside = decades.filter((value) => value >= least && value <= most);
    const ticks = inside.length > 2 ? inside : d3.ticks(least, most, 5);
    return [Plot.gridY(ticks), Plot.axisY(ticks, { text: (v) => v.toLocaleString("en-US"), label: "end-to-end latency p99, ms" })];
  };
  return overRate("latency", axis, { type: "log" });
}

const goodput = () => overRate("goodput", () => [], { grid: true, domain: [0, 100], label: "met the SLO, %" });

function acceptance() {
  const kinds = [["share", "accepted, of all steps"], ["conditional", "accepted, once those before were"]];
  return d3.groups(data.acceptance, (mark) => mark.workload).flatMap(([workload, own]) => kinds.map(([key, kind]) => {
    const marks = own.filter((mark) => mark[key] !== null);
    const last = d3.max(own, (mark) => mark.position);
    return {
      title: workloads.length > 1 ? `${shorten(workload, 40)}: ${kind}` : kind,
      marks,
      plot: (width) => Plot.plot({
        ...frame, width, height: 240, marginLeft: 46, marginRight: 14, marginTop: 24,
        x: { domain: [0.7, last + 0.3], label: "position in the draft", ...axisOf(own.map((mark) => mark.position)) },
        y: { domain: [0, 1], label: "accepted", grid: true, ticks: 5, tickFormat: "%" },
        marks: [...lines(marks, "position", key), hit(marks, "position", key)],
      }),
    };
  }));
}

// Rows with names at the left, of one height each.
function rows(marks, width, options) {
  const names = unique(marks.map((mark) => mark.row));
  const letters = Math.max(6, Math.min(30, Math.floor((width * 0.42) / 6.6)));
  const longest = Math.max(...names.map((name) => Math.min(letters, [...name].length)));
  return Plot.plot({
    ...frame, width, height: 58 + 23 * names.length, marginLeft: 14 + 6.6 * longest, marginRight: 16, marginTop: 8,
    y: { type: "band", domain: names, label: null, tickSize: 0, tickFormat: (name) => shorten(name, letters), padding: 0.22 },
    ...options,
  });
}

function byGroup(marks) {
  return perWorkload(marks.map((mark) => ({ ...mark, row: mark.group })), (own, width) => rows(own, width, {
    x: { label: "tokens per step (AL)", grid: true, domain: [1, Math.max(1.5, 1.04 * d3.max(own, (m) => m.length))] },
    marks: [
      Plot.ruleY(own, Plot.groupY({ x1: "min", x2: "max" }, { y: "row", x1: "length", x2: "length", stroke: "var(--rule)" })),
      ...d3.groups(own, (mark) => mark.arm).map(([arm, part]) => Plot.dot(part, {
        x: "length", y: "row", symbol: look(arm).symbol, r: 4, fill: look(arm).colour,
      })),
      hit(own, "length", "row"),
    ],
  }));
}

const armAndLoad = (mark) => ({ ...mark, row: `${mark.arm} · ${mark.load}` });

function phasesOf() {
  return perWorkload(data.phases.map(armAndLoad), (own, width) => rows(own, width, {
    x: { domain: [0, 100], label: "share of the engine's time, %", grid: true },
    marks: [Plot.barX(own, { x: "percent", y: "row", fill: (mark) => phaseColour(mark.phase), insetRight: 0.5, className: "hit" })],
  }));
}

function kv() {
  const marks = data.kv.map((mark) => ({ ...mark, row: mark.arm }));
  const lost = (mark) => (mark.lost > 0.0005 ? `−${(100 * mark.lost).toFixed(1)}%` : "");
  const panel = (width) => rows(marks, width, {
    x: { label: "tokens", grid: true, ticks: 6, tickFormat: "~s", domain: [0, 1.12 * d3.max(marks, (mark) => mark.tokens)] },
    marks: [
      Plot.barX(marks, { x: "tokens", y: "row", fill: (mark) => look(mark.arm).colour, fillOpacity: 0.75, className: "hit" }),
      Plot.text(marks, { x: "tokens", y: "row", text: lost, dx: 6, textAnchor: "start", fill: "currentColor" }),
    ],
  });
  return marks.length ? [{ title: "", marks, plot: panel }] : [];
}

function steps() {
  const pays = (mark) => (mark.yields > mark.cost ? "var(--gain)" : "var(--loss)");
  return perWorkload(data.steps.map(armAndLoad), (own, width) => rows(own, width, {
    x: { label: "plain steps, and tokens", grid: true, domain: [Math.min(0.9, d3.min(own, (m) => m.cost)), 1.04 * d3.max(own, (m) => Math.max(m.cost, m.yields))] },
    marks: [
      Plot.ruleX([1], { stroke: "var(--rule)", strokeWidth: 1.5 }),
      Plot.ruleY(own, { y: "row", x1: "cost", x2: "yields", stroke: pays, strokeWidth: 3 }),
      Plot.dot(own, { x: "cost", y: "row", r: 4, fill: "var(--card)", stroke: pays, strokeWidth: 2 }),
      Plot.dot(own, { x: "yields", y: "row", r: 4.5, fill: pays }),
      Plot.barX(own, { x1: "cost", x2: "yields", y: "row", insetLeft: -8, insetRight: -8, fill: "transparent", className: "hit" }),
    ],
  }));
}

function telemetry() {
  const { readings, spans, samples } = data.telemetry;
  const launches = spans.filter((span, i) => i === 0 || spans[i - 1].launch !== span.launch);
  const series = readings.map((label, i) => [i + 1, label]); // after the time
  const known = series.filter(([column]) => Object.values(samples).some((taken) => taken.some((row) => row[column] !== null)));
  return known.map(([column, label]) => ({
    title: "",
    marks: spans,
    plot: (width) => {
      const most = d3.max(Object.values(samples).flat(), (row) => row[column]) || 1;
      return Plot.plot({
        ...frame, width, height: 182, marginLeft: 50, marginRight: 10, marginTop: 34,
        x: { domain: [0, spans.at(-1).to], label: "measured time, s" },
        y: { domain: [0, 1.08 * most], label, grid: true, ticks: 4 },
        marks: [
          Plot.ruleX(launches, { x: "from", stroke: "var(--soft)", strokeDasharray: "1 3" }),
          ...(launches.length * 62 < width ? [Plot.text(launches, { x: "from", text: "label", frameAnchor: "top", textAnchor: "start", dx: 3, dy: -12, fontSize: 10, fill: "var(--soft)" })] : []),
          ...Object.entries(samples).map(([source, taken]) => Plot.line(taken, { x: "0", y: String(column), stroke: sourceColour(source), strokeWidth: 1.2 })),
          Plot.rect(spans, { x1: "from", x2: "to", y1: 0, y2: 1.08 * most, fill: "transparent", className: "hit" }),
        ],
      });
    },
  }));
}

const charts = {
  speedup, intervals, pareto, latency, goodput, acceptance, phases: phasesOf, kv, steps, telemetry,
  categories: () => byGroup(data.categories),
  output_positions: () => byGroup(data.output_positions),
};

// Legends name what a chart holds.
const legends = {
  arms: (marks) => data.arms.filter(({ label }) => marks.some((mark) => mark.arm === label)).map((arm) => [arm.label, swatch(arm)]),
  phases: () => phases.map((phase) => [phase, swatch({ colour: phaseColour(phase), symbol: "square2", dash: "none" })]),
  sources: () => sources.map((source) => [source, swatch({ colour: sourceColour(source), symbol: "none", dash: "none" })]),
  none: () => [],
};

function swatch({ colour, symbol, dash }) {
  const marks = [];
  if (symbol === "square2") marks.push(Plot.rect([0], { x1: 0, x2: 1, y1: 0, y2: 1, fill: colour }));
  else marks.push(Plot.line([[0, 0.5], [1, 0.5]], { stroke: colour, strokeWidth: 1.7, strokeDasharray: dash }));
  if (symbol !== "none" && symbol !== "square2") marks.push(Plot.dot([[0.5, 0.5]], { symbol, r: 3.6, fill: colour, stroke: colour }));
  const axis = { axis: null, domain: [0, 1] };
  return Plot.plot({ width: symbol === "square2" ? 12 : 30, height: 12, margin: 0, x: axis, y: axis, marks, style: { background: "none", overflow: "visible" } });
}
