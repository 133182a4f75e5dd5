// A figure: panels side by side, drawn anew where their width changes, whose marks tell their figures to the pointer
// and to the keyboard (one tab stop for a figure, arrow keys within), and once more as a table.

const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function shorten(text, length) {
  const letters = [...text];
  return letters.length > length ? letters.slice(0, length - 1).join("") + "…" : text;
}

function unique(values) {
  return [...new Set(values)];
}

// panels: [{title, marks, plot(width)}], plot giving an SVG whose elements in ".hit" are bound to the index of a mark
function drawFigure(figure, panels) {
  const box = figure.querySelector(".panels");
  figure.hidden = panels.length === 0;
  box.replaceChildren();
  for (const panel of panels) {
    const place = element("div", undefined, { class: "panel" });
    if (panel.title) place.append(element("h4", panel.title, { dir: "auto" }));
    const drawing = element("div", undefined, { class: "drawing" });
    place.append(drawing);
    box.append(place);
    panel.draw = () => drawPanel(figure, panel, drawing);
    drawing.panel = panel;
    widths.observe(drawing);
  }
  const marks = unique(panels.flatMap((panel) => panel.marks));
  legendOf(figure, marks);
  tableOf(figure, marks);
}

const widths = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const width = Math.floor(contentRect.width);
    if (width > 0 && Math.abs(width - (target.panel.width ?? 0)) > 1) {
      target.panel.width = width;
      target.panel.draw();
    }
  }
});

function drawPanel(figure, panel, drawing) {
  const focused = drawing.contains(document.activeElement) ? document.activeElement.__data__ : undefined;
  const svg = panel.plot(panel.width);
  const title = figure.querySelector("h3").textContent;
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", `${title}${panel.title ? `: ${panel.title}` : ""}. Arrow keys go from mark to mark.`);
  for (const part of svg.children) {
    if (part.classList.contains("hit")) part.removeAttribute("aria-label");
    else part.setAttribute("aria-hidden", "true");
  }
  for (const target of svg.querySelectorAll(".hit > *")) {
    const mark = panel.marks[target.__data__];
    target.mark = mark;
    target.setAttribute("role", "img");
    target.setAttribute("tabindex", "-1");
    target.setAttribute("aria-label", `${mark.name}: ${mark.facts.map((fact) => fact.join(" ")).join("; ")}`);
  }
  drawing.replaceChildren(svg);
  const targets = [...figure.querySelectorAll(".hit > *")];
  if (targets.length && !targets.some((target) => target.tabIndex === 0)) targets[0].setAttribute("tabindex", "0");
  if (focused !== undefined) [...svg.querySelectorAll(".hit > *")].find((t) => t.__data__ === focused)?.focus();
}

function legendOf(figure, marks) {
  const entries = legends[figure.dataset.legend](marks).map(([label, sign]) => {
    const entry = element("span", undefined, { class: "entry" });
    sign.setAttribute("aria-hidden", "true");
    entry.append(sign, element("span", label));
    return entry;
  });
  figure.querySelector(".legend").replaceChildren(...entries);
}

function tableOf(figure, marks) {
  const box = figure.querySelector(".figures .scroll");
  const headings = unique(marks.flatMap((mark) => mark.facts.map(([label]) => label)));
  const table = element("table");
  const head = table.createTHead().insertRow();
  head.append(element("th", "mark", { scope: "col", class: "left" }));
  for (const heading of headings) head.append(element("th", heading, { scope: "col" }));
  const body = table.createTBody();
  for (const mark of marks) {
    const row = body.insertRow();
    row.append(element("th", mark.name, { scope: "row", class: "name", dir: "auto" }));
    const facts = new Map(mark.facts);
    for (const heading of headings) row.append(element("td", facts.get(heading) ?? "–"));
  }
  box.replaceChildren(table);
}

function showTip(target) {
  const list = element("dl");
  for (const [label, value] of target.mark.facts) list.append(element("dt", label), element("dd", value));
  tip.replaceChildren(element("strong", shorten(target.mark.name, 90), { dir: "auto" }), list);
  tip.hidden = false;
  tip.of = target;
  placeTip();
}

function placeTip() {
  if (tip.hidden || !tip.of) return;
  const at = tip.of.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const edge = document.documentElement.clientWidth - own.width - 8;
  const above = at.top - own.height - 10;
  tip.style.left = `${Math.max(8, Math.min(at.left + at.width / 2 - own.width / 2, edge))}px`;
  tip.style.top = `${above > 8 ? above : Math.min(at.bottom + 10, window.innerHeight - own.height - 8)}px`;
}

function hideTip() {
  tip.hidden = true;
  tip.of = undefined;
}

const marked = (event) => (event.target.closest ? event.target.closest(".hit > *") : null);
document.addEventListener("pointerover", (event) => {
  const target = marked(event);
  if (target) showTip(target);
  else if (tip.of && !tip.of.matches(":focus")) hideTip();
});
document.addEventListener("focusin", (event) => {
  const target = marked(event);
  if (!target) return hideTip();
  for (const other of target.closest("figure").querySelectorAll(".hit > *")) other.setAttribute("tabindex", "-1");
  target.setAttribute("tabindex", "0");
  showTip(target);
});
document.addEventListener("focusout", hideTip);
document.addEventListener("scroll", placeTip, { passive: true, capture: true });

const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hideTip();
  const from = marked(event);
  if (!from) return;
  const targets = [...from.closest("figure").querySelectorAll(".hit > *")];
  let next;
  if (event.key === "Home") next = targets[0];
  else if (event.key === "End") next = targets.at(-1);
  else if (directions[event.key]) next = neighbour(from, targets, directions[event.key]);
  else return;
  event.preventDefault();
  next?.focus();
});

// The nearest mark in a direction, as the eye goes: what lies aside counts as three times as far.
function neighbour(from, targets, [dx, dy]) {
  const centre = (target) => {
    const box = target.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = centre(from);
  let nearest;
  let least = Infinity;
  for (const target of targets) {
    const [tx, ty] = centre(target);
    const along = (tx - x) * dx + (ty - y) * dy;
    const aside = Math.abs((tx - x) * dy) + Math.abs((ty - y) * dx);
    const distance = along + 3 * aside;
    if (target !== from && along > 0.5 && distance < least) [nearest, least] = [target, distance];
  }
  return nearest;
}
