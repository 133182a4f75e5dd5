// Money, by the formulas of specbench/analysis/cost.py: null is what nobody said, or what does not follow.

const SECONDS_PER_HOUR = 3600;
const HOURS_PER_MONTH = 730;

function costPerMillion(rate, e) {
  return rate && e.gpu_price !== null ? ((e.gpu_price * e.gpu_count) / (rate * SECONDS_PER_HOUR)) * 1e6 : null;
}

function gpusNeeded(rate, e) {
  if (!rate || e.tokens_per_month === null) return null;
  return Math.ceil(e.tokens_per_month / (HOURS_PER_MONTH * SECONDS_PER_HOUR) / rate) * e.gpu_count;
}

function paybackMonths(saved, e) {
  if (saved === null || saved <= 0 || !e.gpu_price || !e.engineering_cost) return null;
  return e.engineering_cost / (HOURS_PER_MONTH * e.gpu_price * saved);
}

function bill(row, e) {
  const gpus = gpusNeeded(row.rate, e);
  const before = gpusNeeded(row.baseline, e);
  const saved = row.shown && before !== null && gpus !== null ? before - gpus : null;
  const rent = gpus !== null && e.gpu_price !== null ? gpus * e.gpu_price * HOURS_PER_MONTH : null;
  return { cost: costPerMillion(row.rate, e), gpus, before, saved, rent, payback: paybackMonths(saved, e) };
}

// Ties go to even digits, as in Python, so that page and table agree to the last digit.
const decimals = (value, digits) => value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven" });
const whole = (value) => (value === null ? "–" : decimals(value, 0));
const price = (value) => {
  if (value === null) return "–";
  return value >= 1 ? decimals(value, 2) : String(Number(value.toPrecision(2)));
};
const months = (bill) => {
  if (bill.saved !== null && bill.saved <= 0) return "never";
  return bill.payback === null ? "–" : decimals(bill.payback, 1);
};

const compact = new Intl.NumberFormat("en-US", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 4 });

const form = document.getElementById("sliders");
const fields = form ? [...form.querySelectorAll(".slider")].map(field) : [];

// A slider and its number tell the same; the slider is logarithmic and knows a usual range, the number any.
function field(row) {
  const [slider, number] = [row.querySelector("[type=range]"), row.querySelector("[type=number]")];
  const [low, high] = [Number(slider.dataset.low), Number(slider.dataset.high)];
  const isWhole = number.step === "1";
  const unit = row.querySelector(".unit");
  const name = unit.textContent;
  const value = () => (number.value === "" || !(number.valueAsNumber > 0) ? null : number.valueAsNumber);
  const toSlider = () => {
    const at = value();
    slider.value = at === null ? 0 : (1000 * Math.log(at / low)) / Math.log(high / low);
    tell(at);
  };
  const tell = (at) => {
    slider.setAttribute("aria-valuetext", at === null ? "not set" : at.toLocaleString("en-US"));
    unit.textContent = at >= 1e6 ? `= ${compact.format(at)} ${name}` : name;
  };
  slider.addEventListener("input", () => {
    const at = low * (high / low) ** (slider.value / 1000);
    number.value = isWhole ? Math.round(at) : Number(at.toPrecision(3));
    tell(value());
    reckon();
  });
  number.addEventListener("input", () => {
    toSlider();
    reckon();
  });
  toSlider();
  return { name: row.dataset.name, value, toSlider };
}

function economics() {
  const said = Object.fromEntries(fields.map((f) => [f.name, f.value()]));
  return { ...said, gpu_count: Math.max(data.money.least_gpus, said.gpu_count ?? data.money.economics.gpu_count) };
}

function reckon() {
  const e = economics();
  const currency = data.money.economics.currency;
  const bills = data.money.rows.map((row) => bill(row, e));
  for (const line of document.querySelectorAll("#bills [data-row]")) {
    const own = bills[line.dataset.row];
    const shown = { cost: price(own.cost), gpus: whole(own.gpus), rent: whole(own.rent), saved: whole(own.saved), payback: months(own) };
    for (const [name, text] of Object.entries(shown)) line.querySelector(`[data-figure=${name}]`).textContent = text;
  }
  document.getElementById("bill").textContent = sentence(bills, e, currency);
  drawCost(bills, currency);
}

function sentence(bills, e, currency) {
  const enabled = data.money.rows.map((row, i) => ({ row, own: bills[i] })).filter(({ row }) => row.enabled);
  const best = d3.greatest(enabled, ({ row }) => row.saving);
  const alone = data.money.together ? "" : ", served alone";
  if (!best) return "Nothing is enabled, so no saving is counted; the table says what each arm costs.";
  const { row, own } = best;
  const where = `${row.arm} at batch size ${row.batch} on ${row.workload}${alone}`;
  if (own.cost === null) return `${where} saves ${row.saving.toFixed(0)}% per token. Set a GPU price to see what that is in money.`;
  const cost = `${where}: ${price(own.cost)} ${currency} per million output tokens, ${row.saving.toFixed(0)}% less than without speculation.`;
  if (own.saved === null) return `${cost} Set the monthly volume to see how many GPUs that is.`;
  if (own.saved <= 0) return `${cost} At this volume no whole GPU is saved, so the money saved is nil.`;
  const paid = own.payback === null ? "" : ` The engineering cost is paid back in ${months(own)} months.`;
  return `${cost} ${whole(own.gpus)} GPUs instead of ${whole(own.before)}, ${whole(own.saved * e.gpu_price * HOURS_PER_MONTH)} ${currency} less rent per month.${paid}`;
}

function drawCost(bills, currency) {
  const figure = document.querySelector("[data-chart=cost]");
  const marks = data.money.rows.map((row, i) => ({
    ...row,
    cost: bills[i].cost,
    name: `${row.arm}, batch size ${row.batch}, ${row.workload}`,
    facts: [[`${currency} per M tokens`, price(bills[i].cost)], ["GPUs", whole(bills[i].gpus)], ["GPUs saved", whole(bills[i].saved)]],
  })).filter((mark) => mark.cost !== null);
  drawFigure(figure, perWorkload(marks, (own, width) => Plot.plot({
    ...frame, width, height: 240, marginLeft: 56, marginRight: 14, marginTop: 24,
    x: { type: "log" },
    y: { domain: [0, 1.08 * d3.max(own, (mark) => mark.cost)], label: `${currency} per million`, grid: true, ticks: 5 },
    marks: [batchAxis(own), ...lines(own, "batch", "cost", { isHollow: (mark) => mark.void }), hit(own, "batch", "cost")],
  })));
}
