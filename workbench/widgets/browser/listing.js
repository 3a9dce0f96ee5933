/* The list of items and its table form: only the rows in view are in the page. */

const ROW = { list: 64, table: 30 }; // height of a row in px, as in the style sheet
const PAGE = 60; // rows asked for at a time
const LEAST = { passage: 170, tags: 70, other: 62, id: 64 }; // width of a column of the table in px
const SHARE = { passage: 3.4, id: 1.3 }; // of the room that is left

function listingOf(c) {
  const { s, uid } = c;
  const spacer = h("div", { class: "wb-spacer", role: "presentation" });
  const list = h("div", {
    class: "wb-list", role: "listbox", tabindex: 0, "aria-label": "Items", "aria-multiselectable": "true", onscroll: () => { head.scrollLeft = list.scrollLeft; drawSoon(); },
  }, spacer);
  const head = h("div", { class: "wb-head", role: "group", "aria-label": "Sort by", hidden: true });
  const picking = h("div", { class: "wb-picking", role: "status", hidden: true });
  const tools = h("div", { class: "wb-tools", hidden: true }, c.columnsButton);
  const node = h("div", { class: "wb-left" }, tools, head, list, picking);
  const height = () => ROW[c.inTable() ? "table" : "list"];
  let anchor = 0; // where a selection with Shift begins

  let drawing = false;
  function drawSoon() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => { drawing = false; draw(); });
  }
  function drawHead() {
    const table = c.inTable();
    const sort = s.state.sort ?? "";
    head.hidden = tools.hidden = !table;
    if (!table) {
      spacer.style.minWidth = "";
      return;
    }
    const columns = ["id", ...s.columns];
    const least = columns.map((name) => LEAST[name] ?? LEAST.other);
    node.style.setProperty("--wb-cells", columns.map((name, i) => `minmax(${least[i]}px, ${SHARE[name] ?? 1}fr)`).join(" "));
    spacer.style.minWidth = `${least.reduce((sum, width) => sum + width + 6, 17)}px`; // a gap less than columns; 23 px of padding and edge
    const focused = head.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    head.replaceChildren(...["item_id", ...s.columns].map((name) => {
      const on = sort.replace(/^-/, "") === name;
      const next = on && !sort.startsWith("-") ? `-${name}` : on ? "" : name;
      if (!(name in s.names)) return h("span", { class: "wb-head-name", title: s.titles[name] }, s.titles[name]); // it has no order
      return h("button", {
        type: "button", class: on ? "wb-on" : "", "data-name": name, title: `${s.names[name]} (${name}): sort`, onclick: () => c.change({ sort: next }),
      }, h("span", {}, s.names[name]), on && h("span", { class: "wb-way", "aria-label": sort.startsWith("-") ? "descending" : "ascending" }, sort.startsWith("-") ? "▼" : "▲"));
    }));
    if (focused) head.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
  function row(i) {
    const made = s.rows.get(i);
    const on = i === s.index;
    const inCell = made?.cells && s.columns.includes("tags");
    const tags = made ? [...(inCell ? [] : made.tags).map((tag) => h("span", { class: "wb-tag" }, tag)), made.note && h("span", { class: "wb-tag", title: "has a note" }, "✎")] : [];
    const content = !made ? [h("div", { class: "wb-snippet wb-hint" }, "…")]
      : made.cells ? [h("span", { class: "wb-id", title: made.id }, made.id.split("/").at(-1), ...tags), ...made.cells.map((cell, k) => h("span", { class: "wb-cell", title: `${s.titles[s.columns[k]]}: ${cell || DASH}`, dir: "auto" }, cell || DASH))]
        : [h("div", { class: "wb-row-head" }, h("span", { class: "wb-id" }, made.id), ...tags),
          h("div", { class: "wb-snippet" }, made.text[0], made.text[1] && h("mark", {}, made.text[1]), made.text[2])];
    const item = h("div", {
      class: `wb-row${on ? " wb-selected" : ""}${s.picked.has(i) ? " wb-picked" : ""}${made?.cells ? " wb-cells" : ""}`, role: "option", id: `${uid}-${i}`,
      "aria-selected": String(s.picked.size ? s.picked.has(i) : on), "aria-setsize": s.n, "aria-posinset": i + 1, onmousedown: (e) => { if (e.shiftKey) e.preventDefault(); }, onclick: (e) => click(i, e),
    }, ...content);
    item.style.top = `${i * height()}px`;
    item.style.height = `${height()}px`;
    return item;
  }
  function draw() {
    if (!list.clientHeight) return; // not laid out (hidden, or the theme is changing): drawn once it is
    const first = Math.max(0, Math.floor(list.scrollTop / height()) - 4);
    const last = Math.min(s.n, Math.ceil((list.scrollTop + list.clientHeight) / height()) + 4);
    const nodes = [];
    let missing = null;
    for (let i = first; i < last; i += 1) {
      if (!s.rows.has(i) && missing === null) missing = i;
      nodes.push(row(i));
    }
    spacer.style.height = `${s.n * height()}px`;
    if (!s.n && s.version >= 0) nodes.push(h("div", { class: "wb-empty" }, s.total ? "No items match. Remove a filter, or press Clear." : "There are no items here."));
    spacer.replaceChildren(...nodes);
    list.setAttribute("aria-activedescendant", s.index >= 0 ? `${uid}-${s.index}` : "");
    if (missing !== null) {
      const start = Math.max(0, missing - 10);
      const want = `${s.version}:${start}`;
      if (s.asked !== want) {
        s.asked = want;
        c.ask("rows", { type: "rows", version: s.version, start, end: start + PAGE });
      }
    }
  }
  function reach(index) { // scroll no more than is needed
    const top = index * height();
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + height() > list.scrollTop + list.clientHeight) list.scrollTop = top + height() - list.clientHeight;
  }
  function select(index) {
    if (!s.n) return;
    s.index = Math.min(Math.max(index, 0), s.n - 1);
    s.shown = s.state.reveal;
    s.waiting = true;
    reach(s.index);
    draw();
    c.ask("show", { type: "show", version: s.version, index: s.index });
  }

  // ---- several items at a time
  function click(i, e) {
    if (e.shiftKey) {
      const [low, high] = anchor < i ? [anchor, i] : [i, anchor];
      pick(Array.from({ length: high - low + 1 }, (_, k) => low + k), true);
    } else if (e.ctrlKey || e.metaKey) {
      if (!s.picked.size && s.index >= 0 && s.index !== i) s.picked.add(s.index);
      pick([i], !s.picked.has(i));
    } else pick([...s.picked], false);
    if (!e.shiftKey) anchor = i;
    select(i);
    list.focus({ preventScroll: true });
  }
  function pick(indices, on) {
    for (const i of indices) {
      if (on) s.picked.add(i);
      else s.picked.delete(i);
    }
    drawPicking();
    draw();
  }
  function toggle() { // the current item
    anchor = s.index;
    if (s.index >= 0) pick([s.index], !s.picked.has(s.index));
  }
  const all = () => pick(Array.from({ length: s.n }, (_, i) => i), true);
  const none = () => pick([...s.picked], false);
  function drawPicking() {
    picking.hidden = !s.picked.size;
    fill(picking, h("b", {}, `${number(s.picked.size)} selected`), h("button", { class: "wb-button", type: "button", onclick: () => c.openTags() }, "Add tags (t)"),
      s.labels.length > 0 && h("span", { class: "wb-hint" }, `${s.labels.length > 1 ? `1${DASH}${Math.min(9, s.labels.length)}` : "1"}: toggle a tag`),
      h("button", { class: "wb-button", type: "button", onclick: none }, "Deselect (Esc)"));
  }
  function ranges() {
    const result = [];
    for (const i of [...s.picked].sort((a, b) => a - b)) {
      if (result.length && result.at(-1)[1] === i) result.at(-1)[1] = i + 1;
      else result.push([i, i + 1]);
    }
    return result;
  }
  return { node, list, picking, draw, drawSoon, drawHead, drawPicking, reach, select, toggle, all, none, ranges };
}
