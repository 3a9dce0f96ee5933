/* A list of items under one state: messages between page and kernel, keys, and visible rows. */

const PAGE = 60; // rows asked for at a time
const NO_ITEMS = "No items match. Remove a filter, or press Clear.";

/** Whether a facet lists the rows of a bin, or some of them; of a column of numbers both are ranges, or [null]. */
function listsBin(facet, bin, numbers) {
  if (!facet || !bin) return false;
  if (!numbers) return facet.includes(bin[0]);
  if (facet.length < 2 || bin.length < 2) return facet.length === bin.length;
  return (facet[0] ?? -Infinity) <= (bin[1] ?? Infinity) && (bin[0] ?? -Infinity) <= (facet[1] ?? Infinity);
}

/** The choice after a click on a value: it alone or, with `add`, it beside the others; null without any. */
function toggled(facet, value, add) {
  const selected = facet ?? [];
  const others = add ? selected.filter((other) => other !== value) : [];
  const on = selected.includes(value) && (add || selected.length === 1);
  return on ? (others.length ? others : null) : [...others, value];
}

/** Share a state between page and kernel; `c` gets the functions that change it, `s` the last view of the kernel.

    `c.follow` draws a view, newest or not; `c.drawList`, `c.drawPassage` and `c.redraw` a part of it. `extraHandlers`
    answer messages of one widget alone.
*/
function shareState(c, model, outer, complain, extraHandlers) {
  const { s, list, view } = c;
  const line = requestQueue(model, outer, complain);
  let pending = {}; // changes of the state that are not yet answered: sent with each further one
  Object.assign(c, line, {
    forget() { pending = {}; },
    /** Change entries of the state. */
    change(changes) {
      Object.assign(pending, changes);
      line.ask("query", { type: "query", state: { ...pending } });
    },
    /** The facet of a column, as it was chosen last, or null. */
    facet: (name) => (pending.facets ?? s.state.facets)[name] ?? null,
    /** Choose the facets of columns, of which null removes one, with further changes of the state. */
    choose(choices, changes = {}) {
      const facets = Object.entries({ ...(pending.facets ?? s.state.facets), ...choices });
      c.change({ ...changes, facets: Object.fromEntries(facets.filter(([, values]) => values)) });
    },
    clear() {
      c.forget();
      c.change({ search: "", where: "", facets: {} });
    },
    select(index) {
      if (!s.n) return;
      s.index = Math.min(Math.max(index, 0), s.n - 1);
      s.waiting = true;
      c.left?.(); // the item before
      c.reach(s.index);
      c.drawList();
      c.ask("show", { type: "show", version: s.version, index: s.index });
    },
  });
  const handlers = {
    view(m) {
      const newest = m.request ? c.answered(m.request) : !c.busy("query");
      c.before?.(m);
      Object.assign(s, m, { asked: null, rows: new Map(m.rows.map((row, i) => [m.start + i, row])), waiting: false });
      if (newest) { // else the reader has typed on: the boxes are theirs
        c.forget();
        c.filters.follow(m);
      }
      complain("");
      c.resetList();
      c.follow(m, newest);
    },
    rows(m) {
      c.answered("rows");
      s.asked = null;
      if (m.version !== s.version) return;
      m.rows.forEach((row, i) => s.rows.set(m.start + i, row));
      c.drawList();
    },
    passage(m) {
      if (!c.answered("show") || m.version !== s.version) return;
      if (m.index !== s.index) c.left?.(); // not chosen in the list
      Object.assign(s, { index: m.index, passage: m.passage, waiting: false });
      view.scrollTop = 0;
      c.reach(s.index);
      c.drawList();
      c.drawPassage();
    },
    error(m) {
      if (m.request === "query") { // what is refused is not drawn
        c.drop(m.request);
        c.forget();
        c.filters.refuse();
      }
      if (m.request) c.answered(m.request);
      complain(m.request === "query" ? refusal(m.message) : m.message);
      c.redraw();
    },
    ...extraHandlers,
  };
  const stop = listenTo(model, c, complain, handlers);
  const sized = new ResizeObserver(() => c.drawSoon());
  sized.observe(list);
  c.ask("query", { type: "open" });
  return () => {
    stop();
    sized.disconnect();
  };
}

/** Return the key handler of a list: common keys and `acts`. A key is ignored where `goes` is false. */
function keysOf(c, acts, escape, goes) {
  const { s } = c;
  const to = (node) => () => { node.focus({ preventScroll: true }); node.select(); };
  const all = {
    j: () => c.select(s.index + 1), ArrowDown: () => c.select(s.index + 1), k: () => c.select(s.index - 1), ArrowUp: () => c.select(s.index - 1),
    PageDown: () => c.select(s.index + 10), PageUp: () => c.select(s.index - 10), Home: () => c.select(0), End: () => c.select(s.n - 1),
    "/": to(c.filters.search), f: to(c.filters.line), ...acts,
  };
  return (e) => {
    const plain = plainKey(e);
    const typing = e.target.matches("input:not([type=checkbox]), textarea");
    let act = plain && !typing && goes(e) ? all[e.key] : null;
    if (e.key === "Escape") act = () => escape(e.target);
    else if (e.target === c.filters.search && (e.key === "ArrowDown" || e.key === "Enter")) act = () => c.list.focus({ preventScroll: true });
    else if (e.target.tagName === "BUTTON" && (e.key === " " || e.key === "Enter")) act = null;
    if (!act) return;
    e.preventDefault();
    act();
  };
}

/** The list; the page holds only the visible rows.

    `row(data, i)` returns the content of a row, its class and its label; `classes(i)` those that follow what is chosen, by name.
*/
function itemList(c, { height, row, classes, click, onscroll = () => {} }) {
  const { s, uid } = c;
  const spacer = h("div", { class: "wb-spacer", role: "presentation" });
  const list = h("div", { class: "wb-list", role: "listbox", tabindex: 0, "aria-label": "Items", onscroll: () => { onscroll(); drawSoon(); } }, spacer);
  let drawn = new Map(); // drawn rows, by index
  let drawing = false;

  function drawSoon() {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => { drawing = false; draw(); });
  }
  function make(i) {
    const data = s.rows.get(i);
    const { content, kind: cssClass = "", label } = data ? row(data, i) : { content: [h("span", { class: "wb-snippet wb-hint" }, "…")] };
    const node = h("div", {
      class: `wb-row ${cssClass}`, role: "option", id: `${uid}-${i}`, "aria-setsize": s.n, "aria-posinset": i + 1, "aria-label": label,
      onmousedown: (e) => { if (e.shiftKey) e.preventDefault(); }, onclick: (e) => click(i, e),
    }, ...content);
    node.style.top = `${i * height()}px`;
    node.style.height = `${height()}px`;
    return node;
  }
  function draw() {
    if (!list.clientHeight) return; // not laid out (hidden, or the theme is changing): drawn once it is
    const first = Math.max(0, Math.floor(list.scrollTop / height()) - 4);
    const last = Math.min(s.n, Math.ceil((list.scrollTop + list.clientHeight) / height()) + 4);
    const nodes = [];
    const visible = new Map();
    let missing = null;
    for (let i = first; i < last; i += 1) {
      if (!s.rows.has(i)) missing ??= i;
      const node = drawn.get(i) ?? make(i);
      nodes.push(node);
      if (s.rows.has(i)) visible.set(i, node);
      const { selected, ...toggles } = classes(i);
      for (const [name, on] of Object.entries(toggles)) node.classList.toggle(name, on);
      node.setAttribute("aria-selected", String(selected));
      node.classList.toggle("wb-selected", i === s.index);
    }
    drawn = visible;
    spacer.style.height = `${s.n * height()}px`;
    if (!s.n && s.version >= 0) nodes.push(h("div", { class: "wb-empty" }, s.total ? NO_ITEMS : "There are no items here."));
    // A row that stays is not moved: the click of a button that is down would be lost
    for (const node of [...spacer.children]) if (!nodes.includes(node)) node.remove();
    nodes.forEach((node, k) => { if (spacer.children[k] !== node) spacer.insertBefore(node, spacer.children[k] ?? null); });
    list.setAttribute("aria-activedescendant", s.index >= 0 ? `${uid}-${s.index}` : "");
    if (missing === null) return;
    const start = Math.max(0, missing - 10);
    if (s.asked === `${s.version}:${start}`) return;
    s.asked = `${s.version}:${start}`;
    c.ask("rows", { type: "rows", version: s.version, start, end: start + PAGE });
  }
  function reach(index) { // scroll no more than is needed
    const top = index * height();
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + height() > list.scrollTop + list.clientHeight) list.scrollTop = top + height() - list.clientHeight;
  }
  /** Redraw the rows of a view, with the current one visible. */
  function show() {
    drawn.clear();
    draw(); // sets the height
    if (s.index >= 0) reach(s.index);
    draw();
  }
  Object.assign(c, { list, reach, drawSoon, drawList: draw, showList: show, resetList: () => drawn.clear() });
  return { list, spacer };
}
