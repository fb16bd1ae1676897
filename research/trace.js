"use strict";
const steps = JSON.parse(document.getElementById("steps").textContent);
const panel = document.getElementById("panel");
const tokens = [...document.querySelectorAll("pre.text .token")];

function element(name, text, parent) {
  const made = document.createElement(name);
  made.textContent = text; // never markup
  parent.append(made);
  return made;
}

function table(heads, rows) {
  const made = document.createElement("table");
  const head = made.insertRow();
  heads.forEach((text) => element("th", text, head));
  for (const row of rows) {
    const line = made.insertRow();
    row.forEach((text) => element("td", text, line));
  }
  panel.append(made);
}

const percent = (share) => (100 * share).toFixed(share < 0.1 ? 1 : 0) + " %";

function show(at) {
  const step = steps[at];
  tokens.forEach((token, other) => token.classList.toggle("on", other === at));
  panel.replaceChildren();
  element("h2", `step ${at + 1} of ${steps.length}: ${JSON.stringify(step.text)} (token ${step.token}), ${step.kind}`, panel);
  element("p", `${step.allowed} tokens allowed; the mask removed ${percent(step.removed)} of the probability; the model gave this token ` +
    `${percent(step.probability)}; entropy ${step.before.toFixed(2)} to ${step.after.toFixed(2)} bits; mask ${step.us.toFixed(1)} µs`, panel);
  table(["allowed", "after the mask"], step.likely.map(([text, share]) => [JSON.stringify(text), percent(share)]));
  table(["rejected", "before it", "because"], step.forbidden.map(([text, share, why]) => [JSON.stringify(text), percent(share), why]));
}

for (const mark of document.querySelectorAll("[data-step]")) {
  for (const event of ["mouseenter", "focus"]) mark.addEventListener(event, () => show(Number(mark.dataset.step)));
}
document.addEventListener("keydown", (event) => {
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!move || !tokens.length) return;
  const at = tokens.findIndex((token) => token.classList.contains("on")) + move;
  tokens[Math.max(0, Math.min(tokens.length - 1, at))].focus();
});
// The step that the mask changed most is the one to begin with.
if (steps.length) show(steps.reduce((most, step, at) => (step.removed > steps[most].removed ? at : most), 0));
