/* Search box, the line of the condition with completions, and the number of listed items. */

const COMPLETIONS = 20; // at most

/** The boxes of search and condition; a part of the state is changed as it is typed, the condition on Enter. */
function filterBoxes(c, searchState) {
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
    fill(completions); // closes their list
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
      line.placeholder = s.example ? `Filter, e.g. ${s.example} (Enter)` : "Filter by a condition in SQL (Enter)";
      refuse(false);
    },
  };
}

/** The number of listed items, and which items these are. */
function listedCount({ s }) {
  const count = h("b", { class: "wb-count" }, "…");
  const rest = h("span", {});
  function draw() {
    count.textContent = `${number(s.n)} of ${number(s.total)}`;
    rest.textContent = `items shown${s.origin && ` (${stripBidi(s.origin)})`}`;
  }
  return { node: h("div", { class: "wb-status", role: "status", "aria-live": "polite" }, count, " ", rest), draw };
}
