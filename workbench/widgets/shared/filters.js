/* Search box, the line of the condition with completions, and a chip for each choice. */

const COMPLETIONS = 20; // at most

/** The boxes of search and condition; a part of the state is changed as it is typed, the condition on Enter. */
function filterBoxes(c, placeholder, searchState) {
  const { s, uid } = c;
  const search = h("input", {
    type: "search", class: "wb-search", placeholder: "Search (ignores case)", "aria-label": "Search items", spellcheck: "false",
    title: "Search the items; matching ignores case", oninput: () => c.change(searchState()),
  });
  const completions = h("datalist", { id: `${uid}-completions` });
  const line = h("input", {
    class: "wb-line", type: "text", spellcheck: "false", autocomplete: "off", list: completions.id, "aria-label": "Filter by a condition in SQL",
    title: "A condition as after WHERE in SQL; Enter applies it", onfocus: complete, oninput: complete, onkeydown: onKey, onblur: submit,
  });

  function refuse(refused = line.value.trim() !== s.state.where) { line.setAttribute("aria-invalid", String(refused)); }
  function submit() {
    if (line.value.trim() !== s.state.where) c.change({ where: line.value });
    else if (line.getAttribute("aria-invalid") === "true") { // back to the valid one
      c.complain("");
      refuse(false);
    }
  }
  function onKey(e) {
    if (e.key !== "Enter" || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    submit();
  }
  /** Offer the columns that begin like the last word, or the values of the column before an operator. */
  function complete() {
    const last = line.value.match(/'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\w+|\s+|./gs)?.at(-1) ?? "";
    const word = /^['"\w]/.test(last) ? last : "";
    const before = line.value.slice(0, line.value.length - word.length);
    const column = before.match(/("(?:[^"]|"")+"|\w+)\s*(?:=|!=|<>|in\s*\((?:[^()']|'[^']*')*)\s*$/i)?.[1];
    const name = column?.startsWith('"') ? column.slice(1, -1).replaceAll('""', '"') : column;
    const values = name === undefined ? [] : c.valuesOf(name).map((value) => (typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value)));
    const begins = (text) => text.replace(/^["']/, "").toLowerCase().startsWith(word.replace(/^["']/, "").toLowerCase());
    const words = (values.length ? values : s.fields).filter((text) => begins(text) && text !== word).slice(0, COMPLETIONS);
    fill(completions, ...words.map((text) => h("option", { value: before + text })));
  }
  return {
    search, line, completions, refuse,
    /** Show the state of a view. */
    follow({ state, request }) {
      if (search.value.trim() !== state.search.trim()) search.value = state.search;
      if (line.value !== state.where && (document.activeElement !== line || request === "query")) line.value = state.where;
      line.placeholder = placeholder();
      refuse(false);
    },
  };
}

/** A chip to remove each choice; `inside` may draw a choice. */
function choiceChips(c, inside = (text) => text) {
  return c.s.words.map(([text, change], i) => h("button", {
    class: "wb-choice", type: "button", title: `${text} (click to remove it)`, "aria-label": `Remove: ${text}`, onclick: () => c.change(change),
  }, h("bdi", {}, ...[inside(text, i)].flat()), h("span", { "aria-hidden": "true" }, "\u2715")));
}

/** Number of listed items, and a chip to remove each choice. */
function chosenWords(c, hint, inside) {
  const { s } = c;
  const node = h("div", { class: "wb-said", tabindex: 0, role: "status", "aria-live": "polite" }, "…");
  function draw() {
    const focused = node.contains(document.activeElement);
    const { words } = s;
    fill(node, h("b", { class: "wb-listed" }, `${number(s.n)} of ${number(s.total)}`), h("span", {}, words.length ? "items:" : "items"), ...choiceChips(c, inside),
      !words.length && h("span", { class: "wb-hint" }, s.total ? hint : "There are no items."), words.length > 0 && !s.n && h("span", { class: "wb-hint" }, NO_ITEMS));
    if (focused) (node.querySelector("button") ?? c.list).focus({ preventScroll: true });
  }
  return { node, draw };
}
