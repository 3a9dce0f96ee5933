/* What opens over the browser: a filter, tags, a note, files, help. Each stands beside what it belongs to. */

const KEYS = [
  ["j, ↓ / k, ↑", "next / previous item"], ["Page Down / Page Up", "ten items on / back"], ["Home / End", "first / last item"],
  ["space", "show or hide the target"], ["/", "search"], ["f", "filter by a condition in SQL"],
  ["x, Ctrl-click", "select or deselect the item"], ["Shift-click", "select all items up to this one"],
  ["1 to 9", "add or remove a tag, of the item or of all that are selected"], ["c", "choose the columns of the table"],
  ["t", "edit tags"], ["n", "edit the note"], ["Esc", "close what is open (a note is kept), drop the selection, back to the list"], ["?", "this help"],
];
const FORMATS = { csv: "CSV", jsonl: "JSON Lines", parquet: "Parquet" };

const plain = (x) => (Number.isInteger(x) ? String(x) : String(Number(x.toPrecision(4))));
/** The number of the bin of a plot that the pointer is over. */
function binUnder(plot, n, e) {
  const box = plot.getBoundingClientRect();
  return Math.max(0, Math.min(n - 1, Math.floor(((e.clientX - box.left) / box.width) * n)));
}

function panelsOf(c) {
  const { s, uid } = c;
  const node = h("div", { class: "wb-panel", hidden: true });
  let redraw = () => {}; // what of an open panel follows the view
  let keep = () => {}; // stores what was typed into a panel that closes
  const button = (text, act, props = {}) => h("button", { class: "wb-button", type: "button", onclick: act, ...props }, text);
  const facetButton = (name) => c.bar.querySelector(`[data-name="${CSS.escape(name)}"]`) ?? c.bar.querySelector(".wb-more");

  function leave() {
    keep();
    redraw = keep = () => {};
  }
  function open(name, label, anchor, ...content) {
    leave();
    s.open = name;
    s.anchor = anchor;
    node.dataset.facet = "";
    node.replaceChildren(...content.filter(isNode));
    node.setAttribute("role", "dialog");
    node.setAttribute("aria-label", label);
    node.hidden = false;
    c.drawBar();
    moveNode();
  }
  /** Place the panel below its anchor; panels of the passage are placed over the list beside it. */
  function moveNode() {
    const box = c.root.getBoundingClientRect();
    const anchorBox = s.anchor()?.getBoundingClientRect();
    if (!anchorBox) return;
    const main = c.view.parentElement.getBoundingClientRect();
    const inPassage = c.view.contains(s.anchor());
    const list = c.list.getBoundingClientRect();
    const beside = (inPassage && list.right <= anchorBox.left) || s.anchor() === c.picking;
    node.style.maxWidth = beside ? `${Math.max(list.width - 12, 300)}px` : "";
    const size = node.getBoundingClientRect();
    const clamp = (value, low, high) => Math.max(low, Math.min(value, high));
    const x = beside ? list.right - box.left - size.width - 6 : anchorBox.left - box.left;
    const inRow = inPassage || c.bar.contains(s.anchor()); // the other filters, and the line of them, stay in view
    const top = beside ? (inPassage ? anchorBox.top : anchorBox.top - size.height - 4) - box.top : (inRow ? main.top : anchorBox.bottom) - box.top + 4;
    node.style.left = `${clamp(x, 8, box.width - size.width - 8)}px`;
    node.style.top = `${clamp(top, 4, Math.max(4, box.height - size.height - 8))}px`;
  }
  function close() {
    if (s.open === null) return;
    leave();
    s.open = null;
    node.hidden = true;
    node.replaceChildren();
    c.drawBar();
  }
  function closeTo(target) {
    close();
    (target ?? c.list).focus({ preventScroll: true });
  }

  // ---- a facet
  function facet(name) {
    open(name, `Filter by ${s.facets[name].label}`, () => facetButton(name));
    drawFacet();
    moveNode();
    node.querySelector("button, input")?.focus({ preventScroll: true });
  }
  function drawFacet() {
    redraw();
    const name = s.open;
    const column = s.facets[name];
    if (!column) return;
    const choose = (facet) => {
      c.choose({ [name]: facet });
      drawFacet();
    };
    const head = h("div", { class: "wb-panel-head" }, h("b", { title: column.tooltip }, column.unit ? `${column.label} (${column.unit})` : column.label),
      button("Clear", () => choose(null)), button("Close", () => closeTo(facetButton(name))));
    const focus = node.contains(document.activeElement) ? document.activeElement.dataset.value ?? document.activeElement.className : null;
    if (column.kind === "numbers") drawNumber(name, column, c.facet(name), choose, head);
    else drawChoices(name, column, c.facet(name), choose, head);
    node.dataset.facet = name;
    if (focus && !node.contains(document.activeElement)) [...node.querySelectorAll("button, input")].find((n) => (n.dataset.value ?? n.className) === focus)?.focus({ preventScroll: true });
  }
  function chip([[value], label, , n], facet, choose) {
    return h("button", {
      class: "wb-chip", type: "button", "data-value": String(value), "aria-pressed": String(facet?.includes(value) ?? false), onclick: () => choose(toggled(facet, value, true)),
    }, label, h("span", { class: "wb-n" }, number(n)));
  }
  function drawChoices(name, column, facet, choose, head) {
    const typed = node.dataset.facet === name ? node.querySelector(".wb-find")?.value ?? "" : "";
    const chips = h("div", { class: "wb-chips" });
    const all = [...column.bins, ...(column.null ? [column.null] : [])];
    const draw = (text) => chips.replaceChildren(...all
      .filter(([[value], label]) => `${value} ${label}`.toLowerCase().includes(text.toLowerCase()))
      .map((bin) => chip(bin, facet, choose)));
    draw(typed);
    const find = all.length > 12
      && h("input", { class: "wb-find", type: "search", value: typed, placeholder: `Find among ${all.length}`, "aria-label": `Find in ${column.label}`, oninput: (e) => draw(e.target.value) });
    const scroll = node.scrollTop;
    fill(node, head, find, chips, column.more > 0 && h("div", { class: "wb-hint" }, `${number(column.more)} rarer values are not listed`));
    node.scrollTop = scroll;
  }
  function drawNumber(name, column, facet, choose, head) {
    const range = facet?.length === 2 ? facet.map((end) => (end === null ? "" : Number(end.toPrecision(12)))) : ["", ""];
    const none = facet?.length === 1 ? facet : null; // the rows without a number
    const missing = column.null && h("div", { class: "wb-chips" }, chip(column.null, none, choose));
    if (node.dataset.facet === name && node.querySelector(".wb-range")) { // the boxes keep what is being typed
      node.querySelector(".wb-panel-head").replaceWith(head);
      node.querySelector(".wb-bars").replaceChildren(...bars(column, facet));
      node.querySelectorAll(".wb-range input").forEach((box, end) => { if (box !== document.activeElement) box.value = range[end]; });
      if (missing) node.querySelector(".wb-chips").replaceWith(missing);
      return;
    }
    const edges = [column.bins[0]?.[0][0], column.bins.at(-1)?.[0][1]];
    const ends = [0, 1].map((end) => h("input", {
      type: "number", step: "any", value: range[end], placeholder: isNode(edges[end]) ? plain(edges[end]) : "",
      "aria-label": end ? `${column.label}, at most` : `${column.label}, at least`, oninput: () => {
        const values = ends.map((box) => (box.value === "" ? null : Number(box.value)));
        choose(values.every((value) => value === null) ? null : values);
      },
    }));
    const plot = h("div", { class: "wb-bars", title: "Drag over the bars to choose a range" }, ...bars(column, facet));
    brush(plot, () => s.facets[name].bins.length, (first, last) => {
      const { bins } = s.facets[name];
      choose([bins[first][0][0], bins[last][0][1]]);
    });
    fill(node, head, plot, h("div", { class: "wb-range" }, ends[0], h("span", {}, "to"), ends[1]),
      h("div", { class: "wb-hint" }, "Drag over the bars, or type the ends."), missing);
  }
  function bars(column, facet) {
    const largest = Math.max(1, ...column.bins.map(([, , , n]) => n));
    return column.bins.map(([bin, label, , n]) => {
      const bar = h("span", { class: !facet || listsBin(facet, bin, true) ? "wb-bar wb-in" : "wb-bar", title: `${label}: ${number(n)}` });
      bar.style.height = `${n ? Math.max(6, (100 * n) / largest) : 0}%`;
      return bar;
    });
  }
  /** Choose the bins that the pointer is dragged over; a click chooses one bin. */
  function brush(plot, count, take) {
    let drag = null; // bins where the drag began and where it is
    const under = (e) => binUnder(plot, count(), e);
    const taken = () => take(Math.min(...drag), Math.max(...drag));
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || !count()) return;
      e.preventDefault(); // no text is selected
      plot.setPointerCapture(e.pointerId);
      drag = [under(e), under(e)];
      taken();
    });
    plot.addEventListener("pointermove", (e) => {
      if (!drag || under(e) === drag[1]) return;
      drag[1] = under(e);
      taken();
    });
    for (const end of ["pointerup", "pointercancel"]) plot.addEventListener(end, () => { drag = null; });
  }

  // ---- tags, note, files, help
  function tags() {
    const ranges = c.ranges();
    if (!s.passage && !ranges.length) return;
    const many = ranges.length > 0;
    const box = h("input", {
      type: "text", value: many ? "" : s.passage.tags.join(", "), list: `${uid}tags`, placeholder: many ? "tags to add, separated by commas" : "tags, separated by commas",
      "aria-label": many ? "Tags to add, separated by commas" : "Tags, separated by commas",
    });
    const save = () => {
      const words = box.value.split(",");
      if (many) c.ask("mark", { type: "tag", version: s.version, ranges, tags: words, on: true });
      else c.ask("mark", { type: "tags", id: s.passage.id, tags: words });
      closeTo(c.list);
    };
    editor("t", many ? `Tags for ${number(s.picked.size)} items` : `Tags of ${s.passage.id}`, box, save,
      h("datalist", { id: `${uid}tags` }, ...s.labels.map((label) => h("option", { value: label }))));
  }
  function note() {
    if (!s.passage) return;
    const { id, note: before } = s.passage;
    const box = h("textarea", { rows: 5, value: before, "aria-label": "Note" });
    editor("n", `Note on ${id}`, box, () => closeTo(c.list));
    keep = () => box.value !== before && c.ask("mark", { type: "note", id, note: box.value });
  }
  function editor(name, title, box, save, ...controls) {
    box.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (box.tagName === "INPUT" || e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        e.stopPropagation(); // Ctrl+Enter outside runs the cell
        save();
      }
    });
    const anchor = () => (c.picking.hidden || name === "n" ? c.view.querySelector(`[data-opens="${name}"]`) : c.picking);
    open(name, title, anchor, h("div", { class: "wb-panel-head" }, h("b", {}, title),
      button(box.tagName === "INPUT" ? "Save (Enter)" : "Save (Ctrl+Enter)", save), button("Cancel", () => { keep = () => {}; closeTo(c.list); })), box, ...controls);
    box.focus({ preventScroll: true });
    box.select();
  }
  function columns() {
    if (!c.inTable()) return;
    const boxes = Object.entries(s.titles).map(([name, title]) => h("input", { type: "checkbox", value: name, "aria-label": title, onchange: () => take() }));
    const show = (names) => c.change({ table: names.length ? names : true });
    const draw = () => boxes.forEach((box) => { box.checked = s.columns.includes(box.value); });
    function take() { // what is added comes last
      const on = boxes.filter((box) => box.checked).map((box) => box.value);
      show([...s.columns.filter((name) => on.includes(name)), ...on.filter((name) => !s.columns.includes(name))]);
    }
    open("(columns)", "Columns of the table", () => c.columnsButton, h("div", { class: "wb-panel-head" }, h("b", {}, "Columns of the table"),
      button("Usual ones", () => show([])), button("Close", () => closeTo(c.columnsButton))),
    h("div", { class: "wb-column-list" }, ...boxes.map((box, i) => h("label", {}, box, Object.values(s.titles)[i]))));
    redraw = draw;
    draw();
    boxes[0].focus({ preventScroll: true });
  }
  /** The filters for which the line of them has no room. */
  function filters(names) {
    open("(filters)", "More filters", () => facetButton(""), h("div", { class: "wb-panel-head" }, h("b", {}, "More filters"), button("Close", () => closeTo(facetButton("")))),
      h("div", { class: "wb-chips" }, ...names.map(c.facetChip)));
    node.querySelector(".wb-facet").focus({ preventScroll: true });
  }
  function exports() {
    open("(exports)", "Export", () => c.exports, h("div", { class: "wb-panel-head" }, h("b", {}, "Export"), button("Close", () => closeTo(c.exports))),
      h("div", { class: "wb-chips" }, c.copyView),
      h("p", { class: "wb-hint" }, `Download ${number(s.n)} items in their order, with annotations, tags and notes:`),
      h("div", { class: "wb-chips" }, ...Object.entries(FORMATS).map(([format, label]) => button(label, () => {
        c.ask("export", { type: "export", kind: format });
        closeTo(c.exports);
      }))),
      h("p", { class: "wb-hint" }, "In Python: browser.export(\"items.csv\")."));
    c.copyView.focus({ preventScroll: true });
  }
  function help() {
    open("?", "Keyboard help", () => c.helper, h("div", { class: "wb-panel-head" }, h("b", {}, "Keys"), button("Close", () => closeTo(c.list))),
      h("dl", { class: "wb-keys" }, ...KEYS.flatMap(([key, action]) => [h("dt", {}, key), h("dd", {}, action)])),
      h("p", { class: "wb-hint" }, "Search ignores case. Direct speech is tinted. Click the blank, or press space, to show the target; its earlier mentions are then underlined."));
    node.querySelector("button").focus({ preventScroll: true });
  }
  return { node, facet, drawFacet, tags, note, columns, filters, exports, help, close, closeTo };
}
