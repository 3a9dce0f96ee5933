/* A published list of items or rows: facets, search, order, pages, and one item.
   The state is the fragment of the address, so that a link shows the same view. Text of the data reaches the page through textContent and
   attributes alone, never as HTML. Numbers are text that the kernel has written; they are compared here, and never formatted. */

const PAGE_SIZE = 100;
const FACETS = 5; // that are in sight beside those with a choice
const BLANK = "\u2581\u2581\u2581";
const BEFORE = 90; // letters of a passage before its blank or its first hit, in the list
const AFTER = 160;
const NUMBER = new Intl.NumberFormat("en");

const data = JSON.parse(document.getElementById("wp-data").textContent);
const root = document.getElementById("wp-view");
const notice = document.getElementById("wp-notice");
const columns = new Map(data.columns.map((column) => [column.name, column]));
const ids = columns.get("item_id");
const { passage, outcomes } = data;
const published = { facets: {}, search: "", sort: "", current: "", ...data.state };

let state = published;
let rows = []; // those that pass, in their order
let failures = new Uint8Array(data.n); // how many filters a row does not pass
const failed = new Uint8Array(data.n); // the number of the last one of them
let active = []; // the names of the filters, by that number; "" is the search
let page = 0;
let reveals = false;

/** Make an element: h("div", { class: "x", onclick: f }, ...children). */
function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}
const counted = (n) => `${NUMBER.format(n)} ${data.noun}${n === 1 ? "" : "s"}`;
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
function complain(text) {
  notice.textContent = text;
  notice.hidden = !text;
}

// ---- cells

function cellText(column, row) {
  const code = column.codes[row];
  if (Array.isArray(code)) return code.map((each) => column.texts[each]).join(", ");
  return code < 0 ? "" : column.texts[code];
}
const idOf = (row) => (ids && passage ? cellText(ids, row) : String(row + 1));
const answerOf = (row) => cellText(columns.get("answer"), row);
let searchTexts = null;
/** The text of each row in which the search looks. */
function lowerCase() {
  searchTexts ??= Array.from({ length: data.n }, (_, row) => {
    const texts = passage ? [`${passage.before[row]}${answerOf(row)}${passage.after[row]}`, idOf(row)] : data.columns.map((column) => cellText(column, row));
    return texts.join("\n").toLowerCase();
  });
  return searchTexts;
}

/** A text as nodes in which the hits of the search are marked. */
function marked(text) {
  const words = state.search.trim().toLowerCase();
  const nodes = [];
  let start = 0;
  for (let at = words ? text.toLowerCase().indexOf(words) : -1; at >= 0; at = text.toLowerCase().indexOf(words, start)) {
    nodes.push(text.slice(start, at), h("mark", {}, text.slice(at, at + words.length)));
    start = at + words.length;
  }
  return [...nodes, text.slice(start)];
}
/** The passage of a row, cut for the list: the end of it, or what surrounds the first hit. */
function snippet(row) {
  const text = `${passage.before[row]}${BLANK}${passage.after[row]}`;
  const words = state.search.trim().toLowerCase();
  const hit = words ? text.toLowerCase().indexOf(words) : -1;
  const middle = hit >= 0 ? hit : passage.before[row].length;
  const cut = Math.max(0, middle - BEFORE);
  const first = cut ? Math.min(text.indexOf(" ", cut) + 1 || cut, middle) : 0;
  return marked(`${first ? "\u2026" : ""}${text.slice(first, middle + AFTER)}`);
}
/** The text of a cell, behind a button where it would give the target away. */
function cell(column, row) {
  const text = cellText(column, row);
  if (!column.hidden || reveals || !text) return text || "\u2013";
  return h("button", { class: "wp-reveal", type: "button", title: `Show: ${column.label}`, "aria-label": `Show: ${column.label}`, onclick: (e) => e.currentTarget.replaceWith(text) }, BLANK);
}

// ---- the state

/** A function that tells of the code of a cell whether a choice has it: values, or the ends of a range of numbers. */
function choiceOf(column, choice) {
  const isRange = column.kind === "numbers" && choice.length === 2;
  const [low, high] = choice;
  const accepted = column.values.map((value) => (isRange ? (low === null || value >= low) && (high === null || value <= high) : choice.includes(value)));
  const missing = !isRange && choice.includes(null);
  return (code) => (Array.isArray(code) ? (code.length ? code.some((each) => accepted[each]) : missing) : code < 0 ? missing : accepted[code]);
}

/** Throw an error that says why a state does not fit this page. */
function check(candidate) {
  const { facets, sort, current } = candidate;
  if (typeof facets !== "object" || facets === null || Array.isArray(facets)) throw new Error("its facets are not choices by column");
  for (const [name, choice] of Object.entries(facets)) {
    if (!columns.get(name)?.facet) throw new Error(`there is no facet '${name}'`);
    const isRange = columns.get(name).kind === "numbers" && Array.isArray(choice) && choice.length === 2;
    if (!Array.isArray(choice) || !choice.length || (isRange && !choice.every((end) => end === null || typeof end === "number"))) throw new Error(`the facet '${name}' is not a choice of values`);
  }
  const column = columns.get(sort.replace(/^-/, ""));
  if (sort && (!column || column.kind === "labels")) throw new Error(`there is no column '${sort.replace(/^-/, "")}' to sort by`);
  if (current && !(passage && ids.texts.includes(current))) throw new Error(`there is no item '${current}'`);
}

function fail(row, number) {
  failures[row] += 1;
  failed[row] = number;
}
/** Compute which rows pass, and their order. */
function list() {
  failures = new Uint8Array(data.n);
  active = Object.keys(state.facets);
  active.forEach((name, number) => {
    const column = columns.get(name);
    const accepts = choiceOf(column, state.facets[name]);
    for (let row = 0; row < data.n; row += 1) if (!accepts(column.codes[row])) fail(row, number);
  });
  const words = state.search.trim().toLowerCase();
  if (words) {
    const texts = lowerCase();
    for (let row = 0; row < data.n; row += 1) if (!texts[row].includes(words)) fail(row, active.length);
    active.push("");
  }
  rows = [];
  for (let row = 0; row < data.n; row += 1) if (!failures[row]) rows.push(row);
  if (!state.sort) return;
  const { codes } = columns.get(state.sort.replace(/^-/, ""));
  const sign = state.sort.startsWith("-") ? -1 : 1;
  rows.sort((a, b) => (codes[a] < 0 || codes[b] < 0 ? (codes[a] < 0) - (codes[b] < 0) : sign * (codes[a] - codes[b])));
}
/** The choice of a column; null without one. */
const choiceIn = (name) => (Object.hasOwn(state.facets, name) ? state.facets[name] : null);
/** The facets without the choices of some columns. */
const without = (...names) => Object.fromEntries(Object.entries(state.facets).filter(([name]) => !names.includes(name)));
/** The number of the current item in the list; the first one where it is not listed. */
const position = () => Math.max(0, rows.findIndex((row) => idOf(row) === state.current));

/** Set parts of the state, and show it; `isStep` makes a step that the browser's back button takes back. */
function change(changes, isStep = true) {
  state = { ...state, ...changes };
  list();
  page = Math.floor(position() / PAGE_SIZE);
  draw();
  write(isStep);
}
/** Choose or release a bin of a facet: values are added, ranges of numbers grow to the bin, or shrink to it. */
function choose(column, bin) {
  const before = choiceIn(column.name);
  let choice = bin;
  if (column.kind !== "numbers") {
    const [value] = bin;
    choice = !before ? bin : before.includes(value) ? before.filter((each) => each !== value) : [...before, value];
  } else if (same(before, bin)) choice = [];
  else if (before?.length === 2 && bin.length === 2 && !overlap(before, bin)) {
    const ends = [before, bin].sort((a, b) => (a[0] ?? -Infinity) - (b[0] ?? -Infinity));
    choice = [ends[0][0], ends[1][1]];
  }
  const others = without(column.name);
  change({ facets: choice.length ? { ...others, [column.name]: choice } : others, current: "" });
}
const overlap = (a, b) => (a[0] ?? -Infinity) <= (b[1] ?? Infinity) && (b[0] ?? -Infinity) <= (a[1] ?? Infinity);
/** Whether a bin is among the chosen ones. */
function isChosen(column, bin) {
  const choice = choiceIn(column.name);
  if (!choice) return false;
  const isRange = column.kind === "numbers" && choice.length === 2;
  return isRange ? bin.length === 2 && overlap(choice, bin) : bin.length === 1 && choice.includes(bin[0]);
}

// ---- the address

function write(isStep) {
  const parameters = new URLSearchParams();
  const current = position() ? state.current : "";
  for (const [name, value] of [["search", state.search], ["sort", state.sort], ["item", current]]) if (value !== (published[name === "item" ? "current" : name])) parameters.set(name, value);
  if (!same(state.facets, published.facets)) parameters.set("facets", JSON.stringify(state.facets));
  const fragment = parameters.toString();
  if (fragment === location.hash.slice(1)) return;
  const address = fragment ? `#${fragment}` : location.pathname + location.search;
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
function read() {
  complain("");
  try {
    const candidate = { ...published };
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      const setting = name === "item" ? "current" : name;
      if (!Object.hasOwn(published, setting)) throw new Error(`this view has no setting '${name}'`);
      candidate[setting] = setting === "facets" ? JSON.parse(value) : value;
    }
    check(candidate);
    state = candidate;
  } catch (error) {
    complain(`The link does not fit this view: ${error.message}. The view is shown as it was published.`);
    state = published;
  }
  list();
  page = Math.floor(position() / PAGE_SIZE);
  search.value = state.search;
  draw();
}

// ---- facets

/** A facet that is drawn once it is open; return the function that brings it up to date. */
function facet(column) {
  const { bins } = column.facet;
  const chosen = h("small");
  const buttons = bins.map((bin) => h("button", { class: "wp-bin", type: "button", disabled: !bin.facet, onclick: () => choose(column, bin.facet) }, h("span", {}, bin.label), h("small")));
  const node = h("details", { class: "wp-facet", open: column.facet.open, ontoggle: () => update() },
    h("summary", { title: [column.name, column.tooltip].filter(Boolean).join(": ") }, column.label, " ", chosen), h("div", { role: "group", "aria-label": column.label }, buttons));
  let binOf = null; // of each value, once the facet is open
  let totals = null;
  const missing = bins.findIndex((bin) => bin.facet?.length === 1 && bin.facet[0] === null);

  /** The number of the bin that has a value. */
  function binOfValue(value) {
    return bins.findIndex((bin) => bin.facet && (column.kind === "numbers" && bin.facet.length === 2 ? overlap(bin.facet, [value, value]) : bin.facet[0] === value));
  }
  function count(passes) {
    const numbers = new Uint32Array(bins.length + 1); // the last one: of values in no bin
    const add = (index) => { numbers[index < 0 ? bins.length : index] += 1; };
    column.codes.forEach((code, row) => {
      if (!passes(row)) return;
      if (Array.isArray(code) && code.length) code.forEach((each) => add(binOf[each]));
      else add(Array.isArray(code) || code < 0 ? missing : binOf[code]);
    });
    return numbers;
  }
  function update() {
    chosen.textContent = choiceIn(column.name) ? "chosen" : "";
    if (!node.open) return;
    binOf ??= column.values.map(binOfValue);
    totals ??= count(() => true);
    const number = active.indexOf(column.name);
    const passing = count((row) => !failures[row] || (failures[row] === 1 && number >= 0 && failed[row] === number));
    const most = Math.max(1, ...totals);
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(bins[i].facet ? isChosen(column, bins[i].facet) : false));
      button.lastChild.textContent = `${NUMBER.format(passing[i])} of ${NUMBER.format(totals[i])}`;
      button.style.setProperty("--all", `${(100 * totals[i]) / most}%`);
      button.style.setProperty("--now", `${(100 * passing[i]) / most}%`);
    });
  }
  return { node, update };
}

/** The choices in words, each a button that takes it back. */
function chips() {
  const entries = Object.entries(state.facets).map(([name, choice]) => {
    const column = columns.get(name);
    const labels = column.facet.bins.filter((bin) => bin.facet && isChosen(column, bin.facet)).map((bin) => bin.label);
    const text = labels.length > 1 && column.kind === "numbers" ? `${labels[0]} \u2026 ${labels.at(-1)}` : labels.join(" or ") || choice.join(" to ");
    return [`${column.label}: ${text}`, { facets: without(name) }];
  });
  if (state.search.trim()) entries.push([`contains \u201c${state.search.trim()}\u201d`, { search: "" }]);
  const nodes = entries.map(([text, changes]) => h("button", { class: "wp-button", type: "button", title: "Take this choice back", onclick: () => clear(changes) }, text, h("span", { "aria-hidden": "true" }, " \u00d7")));
  if (entries.length) nodes.push(h("button", { class: "wp-button", type: "button", onclick: () => clear({ facets: {}, search: "" }) }, "Clear"));
  return nodes;
}
function clear(changes) {
  change(changes);
  search.value = state.search;
  search.focus();
}

/** The cells of two models: a click lists the items that the row has right and the column wrong. */
function matrix() {
  const name = (model) => `${outcomes.models[model]}: correct`;
  const cells = [];
  const table = h("table", { class: "wp-table wp-matrix", "aria-label": "Differences in accuracy, row minus column" },
    h("thead", {}, h("tr", {}, h("td"), outcomes.models.map((label) => h("th", { scope: "col" }, h("bdi", {}, label))))),
    h("tbody", {}, outcomes.cells.map((line, a) => h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, outcomes.models[a])), line.map((each, b) => {
      if (!each) return h("td");
      const about = `${outcomes.models[a]} right, ${outcomes.models[b]} wrong${each.about}`;
      const facets = { [name(a)]: [true], [name(b)]: [false] };
      const button = h("button", { type: "button", title: about, "aria-label": `${each.text}: ${about}`, onclick: () => {
        const others = without(...outcomes.models.map((_, model) => name(model)));
        change({ facets: isOn(facets) ? others : { ...others, ...facets }, current: "" });
      } }, each.text);
      cells.push([button, facets]);
      return h("td", {}, button);
    })))));
  const isOn = (facets) => Object.entries(facets).every(([key, choice]) => same(choiceIn(key), choice));
  const update = () => cells.forEach(([button, facets]) => button.setAttribute("aria-pressed", String(isOn(facets))));
  const region = h("div", { class: "wp-scroll", tabindex: 0, role: "region", "aria-label": "Differences in accuracy" }, table);
  const summary = h("summary", {}, "Accuracy of the row minus that of the column, in points. Click: items only the row got right.");
  return { node: h("details", { class: "wp-numbers", open: true }, summary, region), update };
}

// ---- the list and the item

const search = h("input", { type: "search", spellcheck: "false", "aria-label": "Search", placeholder: "Search (ignores case)", oninput: () => change({ search: search.value, current: "" }, false) });
const status = h("span", { role: "status", "aria-live": "polite" });
const choices = h("div", { class: "wp-chips" });
const body = h("tbody");
const pages = h("nav", { class: "wp-bar", "aria-label": "Pages" });
const item = h("section", { class: "wp-item", tabindex: 0, role: "region", "aria-label": "Item", hidden: !passage });
const hides = data.columns.some((column) => column.hidden);
const revealing = h("button", { class: "wp-button", type: "button", "aria-pressed": "false", hidden: !hides, onclick: () => {
  reveals = !reveals;
  revealing.setAttribute("aria-pressed", String(reveals));
  drawRows();
  drawItem();
} }, "Show targets");
const isFirst = (column, i) => i < FACETS || column.facet.open || Object.hasOwn(published.facets, column.name);
const facetColumns = (data.facets ?? data.columns.map(({ name }) => name)).map((name) => columns.get(name)).filter((column) => column?.facet);
const facets = facetColumns.map(facet);
const nodes = [true, false].map((first) => facets.filter((_, i) => isFirst(facetColumns[i], i) === first).map(({ node }) => node));
const outcome = outcomes && outcomes.models.length > 1 ? matrix() : null;
const heads = data.shown.map((name) => {
  const column = columns.get(name);
  if (!column || column.kind === "labels") return h("th", { scope: "col" }, column?.label ?? "Passage");
  const arrow = h("span", { "aria-hidden": "true" });
  const sort = () => change({ sort: state.sort === name ? `-${name}` : state.sort === `-${name}` ? "" : name });
  return h("th", { scope: "col", class: column.kind === "numbers" && "wp-right", "data-name": name }, h("button", { type: "button", title: [name, column.tooltip].filter(Boolean).join(": "), onclick: sort }, column.label, arrow));
});
const region = h("div", { class: "wp-scroll", tabindex: 0, role: "region", "aria-label": data.noun === "item" ? "Items" : "Table", onkeydown: walk },
  h("table", { class: "wp-table", "aria-label": data.noun === "item" ? "Items" : "Table" }, h("thead", {}, h("tr", {}, heads)), body));

/** Show an item by its number in the list. */
function show(index) {
  if (index < 0 || index >= rows.length) return;
  state = { ...state, current: idOf(rows[index]) };
  if (page !== Math.floor(index / PAGE_SIZE)) {
    page = Math.floor(index / PAGE_SIZE);
    drawRows();
  }
  drawItem();
  write(false);
}
/** Walk through the items by keys. */
function walk(e) {
  if (!passage || e.ctrlKey || e.metaKey || e.altKey) return;
  const at = position();
  const index = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: rows.length - 1 }[e.key];
  if (index === undefined) return;
  e.preventDefault();
  show(index);
  body.querySelector("[aria-current] button")?.focus();
}
function drawRows() {
  body.replaceChildren(...rows.slice(page * PAGE_SIZE, (page + 1) * PAGE_SIZE).map((row, i) => h("tr", {}, data.shown.map((name) => {
    const column = columns.get(name);
    if (passage && name === "passage") return h("td", { class: "wp-passage", dir: "auto" }, snippet(row));
    if (passage && column === ids) return h("th", { scope: "row" }, h("button", { type: "button", onclick: () => show(page * PAGE_SIZE + i) }, cellText(column, row)));
    return h("td", { class: column.kind === "numbers" && "wp-right", dir: "auto" }, cell(column, row));
  }))));
  const last = Math.ceil(rows.length / PAGE_SIZE) - 1;
  const step = (label, to) => h("button", { class: "wp-button", type: "button", disabled: to < 0 || to > last, onclick: () => {
    page = to;
    drawRows();
    drawItem();
    region.scrollTop = 0;
    region.focus();
  } }, label);
  pages.hidden = last < 1;
  pages.replaceChildren(step("Previous", page - 1), h("span", {}, `Page ${NUMBER.format(page + 1)} of ${NUMBER.format(last + 1)}`), step("Next", page + 1));
}
function drawItem() {
  const index = position();
  [...body.children].forEach((line, i) => {
    if (passage && page * PAGE_SIZE + i === index) line.setAttribute("aria-current", "true");
    else line.removeAttribute("aria-current");
  });
  if (!passage) return;
  const row = rows[index];
  if (row === undefined) {
    item.replaceChildren(h("p", {}, `No ${data.noun}s pass. Take a choice back.`));
    return;
  }
  const facts = data.columns.filter((column) => !["item_id", "answer"].includes(column.name) && cellText(column, row));
  const answer = h("button", { class: "wp-reveal", type: "button", "aria-label": "Show the target", onclick: (e) => e.currentTarget.replaceWith(h("b", {}, answerOf(row) || "?")) }, BLANK);
  item.replaceChildren(h("h2", {}, h("bdi", {}, idOf(row))),
    h("p", { class: "wp-text", dir: "auto" }, marked(passage.before[row]), reveals || !columns.get("answer").hidden ? h("b", {}, answerOf(row) || "?") : answer, marked(passage.after[row])),
    h("dl", { class: "wp-facts" }, facts.flatMap((column) => [h("dt", { title: column.tooltip || null }, h("bdi", {}, column.label)), h("dd", { dir: "auto" }, cell(column, row))])));
}
function draw() {
  status.textContent = `${NUMBER.format(rows.length)} of ${counted(data.n)} shown`;
  choices.replaceChildren(...chips());
  for (const head of heads) {
    const { name } = head.dataset;
    const sorted = name && state.sort === name ? "ascending" : name && state.sort === `-${name}` ? "descending" : null;
    if (sorted) head.setAttribute("aria-sort", sorted);
    else head.removeAttribute("aria-sort");
    if (name) head.querySelector("span").textContent = { ascending: " \u25b2", descending: " \u25bc" }[sorted] ?? "";
  }
  for (const each of facets) each.update();
  outcome?.update();
  drawRows();
  drawItem();
}

const link = document.getElementById("wp-link");
link.addEventListener("click", async () => {
  let done = "copied";
  try {
    await navigator.clipboard.writeText(location.href);
  } catch { // no permission, or a page without https
    done = "copy it from the address line";
  }
  link.dataset.done = done;
  setTimeout(() => delete link.dataset.done, 1500);
});
addEventListener("popstate", read);
if (outcome) root.append(outcome.node);
root.append(h("div", { class: "wp-bar" }, search, status, revealing), choices, h("div", { class: `wp-list-view${facets.length ? "" : " wp-plain"}` },
  h("div", { class: "wp-facets", role: "group", "aria-label": "Facets", hidden: !facets.length }, nodes[0], nodes[1].length > 0 && h("details", { class: "wp-further" }, h("summary", {}, `${nodes[1].length} more facets`), h("div", {}, nodes[1]))), h("div", {}, region, pages), item));
read();
root.dataset.ready = "true";
