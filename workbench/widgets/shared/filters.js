/* Search box, filter line with completions, and the summary of choices. */

/** The boxes of search and filter; a part of the state is changed as it is typed, the filter on Enter. */
function filterBoxes(c, placeholder, searchState) {
  const { s, uid } = c;
  const search = h("input", {
    type: "search", class: "wb-search", placeholder: "Search (ignores case)", "aria-label": "Search items", spellcheck: "false",
    title: "Search the items; matching ignores case", oninput: () => c.change(searchState()),
  });
  const line = h("input", {
    class: "wb-line", type: "text", spellcheck: "false", autocomplete: "off", "aria-label": "Filter by a condition",
    role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": `${uid}-choices`,
    title: "A condition on columns; Enter applies it", oninput: ask, onkeydown: onKey, onblur: () => draw(null), onchange: submit,
  });
  const choices = h("ul", { class: "wb-choices", role: "listbox", id: `${uid}-choices`, "aria-label": "Completions", hidden: true });
  let completed = null; // {start, cursor, choices, at}

  function ask() { c.ask("suggest", { type: "suggest", text: line.value, cursor: line.selectionStart }); }
  function refuse(refused = line.value.trim() !== s.state.where) { line.setAttribute("aria-invalid", String(refused)); }
  function submit() {
    draw(null);
    if (line.value.trim() !== s.state.where) c.change({ where: line.value });
    else if (line.getAttribute("aria-invalid") === "true") { // back to the valid one
      c.complain("");
      refuse(false);
    }
  }
  function draw(completions) {
    const before = completed?.choices[completed.at]; // chosen by an arrow while the answer was under way
    completed = completions?.choices.length ? { at: -1, ...completions } : null;
    choices.hidden = !completed;
    line.setAttribute("aria-expanded", String(Boolean(completed)));
    line.setAttribute("aria-activedescendant", "");
    fill(choices, ...(completed?.choices ?? []).map((text, i) => h("li", {
      role: "option", id: `${uid}-choice-${i}`, "aria-selected": "false", onmousedown: (e) => { e.preventDefault(); complete(i); },
    }, text)));
    if (before && completed?.choices.includes(before)) move(completed.choices.indexOf(before) + 1);
  }
  function move(step) {
    const n = completed.choices.length;
    completed.at = (completed.at + step + (completed.at < 0 && step < 0 ? 1 : 0) + n) % n;
    [...choices.children].forEach((node, i) => node.setAttribute("aria-selected", String(i === completed.at)));
    choices.children[completed.at].scrollIntoView({ block: "nearest" });
    line.setAttribute("aria-activedescendant", `${uid}-choice-${completed.at}`);
  }
  function complete(i) {
    const { start, choices: words } = completed;
    draw(null);
    line.setRangeText(`${words[i]} `, start, line.selectionStart, "end"); // also what was typed since it was asked
    ask();
  }
  function onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (completed && (e.key === "ArrowDown" || e.key === "ArrowUp")) move(e.key === "ArrowDown" ? 1 : -1);
    else if (completed && (e.key === "Tab" || e.key === "Enter") && completed.at >= 0) complete(completed.at);
    else if (e.key === "Enter") submit();
    else if (e.key === "Escape" && completed) draw(null);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
  return {
    search, line, choices, refuse,
    suggest(m) { if (document.activeElement === line && m.text === line.value) draw(m); },
    /** Show the state of a view. */
    follow({ state, lane }) {
      if (search.value.trim() !== state.query.trim()) search.value = state.query;
      if (line.value !== state.where && (document.activeElement !== line || lane === "query")) line.value = state.where;
      line.placeholder = placeholder();
      refuse(false);
    },
  };
}

/** Number of listed items, and a chip to remove each choice; `inside` may draw a choice. */
function chosenWords(c, hint, inside = (text) => text) {
  const { s } = c;
  const node = h("div", { class: "wb-said", tabindex: 0, role: "status", "aria-live": "polite" }, "…");
  function draw() {
    const focused = node.contains(document.activeElement);
    const { words } = s;
    fill(node, h("b", { class: "wb-listed" }, `${number(s.n)} of ${number(s.total)}`), h("span", {}, words.length ? "items:" : "items"),
      ...words.map(([text, change], i) => h("button", {
        class: "wb-choice", type: "button", title: `${text} (click to remove it)`, "aria-label": `Remove: ${text}`, onclick: () => c.change(change),
      }, h("span", {}, ...[inside(text, i)].flat()), h("span", { "aria-hidden": "true" }, "\u2715"))),
      !words.length && h("span", { class: "wb-hint" }, s.total ? hint : "There are no items."), words.length > 0 && !s.n && h("span", { class: "wb-hint" }, NO_ITEMS));
    if (focused) (node.querySelector("button") ?? c.list).focus({ preventScroll: true });
  }
  return { node, draw };
}
