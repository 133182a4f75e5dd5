// Draws every figure, lists the sections, and lets the recipe be copied.

for (const figure of document.querySelectorAll("[data-chart]")) {
  const chart = charts[figure.dataset.chart];
  if (chart) drawFigure(figure, chart());
}
if (form) {
  reckon();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => {
    for (const one of fields) one.toSlider();
    reckon();
  }));
}

const contents = document.getElementById("contents");
for (const title of document.querySelectorAll("main section > h2")) {
  const entry = element("li");
  entry.append(element("a", title.textContent, { href: `#${title.parentElement.id}` }));
  contents.append(entry);
}

for (const button of document.querySelectorAll("[data-copies]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    let done = true;
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      getSelection().selectAllChildren(source);
      done = document.execCommand("copy");
    }
    document.getElementById("copied").textContent = done ? `Copied: ${source.getAttribute("aria-label").toLowerCase()}.` : "Not copied: the text is selected, copy it by hand.";
  });
}

// What is folded away would be missing on paper, but for the figures of charts.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open]):not(.figures)")];
  for (const details of unfolded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of unfolded) details.open = false;
});
