/* What all parts of the comparison share. The files are joined into one module, this one after `page.js`. */

const fixed = (x, digits) => x.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", MINUS); // a zero has no sign
const points = (x, digits = 1) => fixed(100 * x, digits);
const signed = (x) => (Math.abs(100 * x) < 0.05 ? "0.0" : `${x > 0 ? "+" : ""}${points(x)}`);
const three = (x) => Number(x.toPrecision(3));
const short = (x) => (x >= 1e9 ? x.toExponential(1).replace("e+", "e") : x >= 1e6 ? `${three(x / 1e6)}M` : x >= 1e4 ? `${three(x / 1000)}k` : x >= 1000 ? number(Math.round(x)) : String(three(x)));
const grouped = (x, digits) => x.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const perplexity = (x) => (x >= 1e9 ? x.toExponential(2) : grouped(x, 2)); // with the digits of the tables
const midRank = (x) => grouped(x, 1);
const tiny = (x) => (x >= 999500 ? `${Math.round(x / 1e6)}M` : x >= 1000 ? `${Math.round(x / 1000)}k` : String(Math.round(x)));
const range = (low, high, write) => (low === null || high === null ? "" : `${write(low)}${DASH}${write(high)}`);

/** What stands in place of a list or a chart of no items. */
const NO_ITEMS = "No items match. Remove a filter, or press Clear.";

/** Write a p-value as the tables do: two digits, or a bound. */
function pValue(p) {
  if (p === null || p === undefined) return "not known";
  return p < 0.0001 ? "< 0.0001" : String(Number(p.toPrecision(2)));
}

/** Write a probability as a percentage of two or three digits. */
function percent(p) {
  const value = 100 * p;
  if (value >= 99.95) return "100 %";
  if (value >= 0.995) return `${value.toPrecision(value >= 10 ? 3 : 2)} %`;
  if (value === 0) return "0 %";
  return value >= 1e-3 ? `${Number(value.toPrecision(2))} %` : `${value.toExponential(0).replace("e-", "e" + MINUS)} %`;
}

/** The letter of a model on its colour; those after the eighth are ringed, after the sixteenth striped. */
function chip(model) {
  const node = h("span", { class: `wc-chip wc-lap${model.lap % 3}`, title: model.label, "aria-hidden": "true" }, model.key);
  node.style.setProperty("--wc-colour", model.colour);
  return node;
}

/** A model's name, which may hold anything: where there is no room, what it shares with others is cut first. */
function named(model, kind = "wc-name") {
  const [common, rest] = model.name;
  return h("bdi", { class: kind, title: model.label }, common && h("span", { class: "wc-common" }, common), h("span", { class: "wc-rest" }, rest));
}
