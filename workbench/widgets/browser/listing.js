/* The list of items and its table form: only the rows in view are in the page. */

const ROW = { list: 64, table: 30 }; // height of a row in px, as in the style sheet
const LEAST = { passage: 300, tags: 70, other: 62, id: 64 }; // width of a column of the table in px
const SHARE = { passage: 3.4, id: 1.3 }; // of the room that is left

function listingOf(c) {
  const { s, uid } = c;
  const head = h("div", { class: "wb-head", role: "group", "aria-label": "Sort by", hidden: true });
  const picking = h("div", { class: "wb-picking", role: "status", hidden: true });
  const tools = h("div", { class: "wb-tools" }, c.status.node, c.columnsButton); // charts take the status
  const height = () => ROW[c.inTable() ? "table" : "list"];
  let anchor = 0; // where a selection with Shift begins

  const { list, spacer } = itemList(c, { height, row, classes, click, onscroll: () => { head.scrollLeft = list.scrollLeft; } });
  list.setAttribute("aria-multiselectable", "true");
  const node = h("div", { class: "wb-left" }, tools, head, list, picking);

  function drawHead() {
    const table = c.inTable();
    const sort = s.state.sort ?? "";
    head.hidden = c.columnsButton.hidden = !table;
    tools.hidden = !table && !tools.contains(c.status.node);
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
  function row(data) {
    const inCell = data.cells && s.columns.includes("tags");
    const tags = [...(inCell ? [] : data.tags).map((tag) => h("span", { class: "wb-tag" }, tag)), data.note && h("span", { class: "wb-tag", title: "has a note" }, "✎")].filter(isNode);
    if (!data.cells) {
      return { content: [h("div", { class: "wb-row-head" }, h("span", { class: "wb-id" }, data.id), ...tags),
        h("div", { class: "wb-snippet" }, data.text[0], data.text[1] && h("mark", {}, data.text[1]), data.text[2])] };
    }
    return { kind: "wb-cells", content: [h("span", { class: "wb-id", title: data.id }, data.id.split("/").at(-1), ...tags),
      ...data.cells.map((cell, k) => h("span", { class: "wb-cell", title: `${s.titles[s.columns[k]]}: ${cell || DASH}`, dir: "auto" }, cell || DASH))] };
  }
  function classes(i) { return { selected: s.picked.size ? s.picked.has(i) : i === s.index, "wb-picked": s.picked.has(i) }; }

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
    c.select(i);
    list.focus({ preventScroll: true });
  }
  function pick(indices, on) {
    for (const i of indices) {
      if (on) s.picked.add(i);
      else s.picked.delete(i);
    }
    drawPicking();
    c.drawList();
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
  return { node, picking, drawHead, drawPicking, toggle, all, none, ranges };
}
