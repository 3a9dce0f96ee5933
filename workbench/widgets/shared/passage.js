/* The parts of a passage that all lists show. */

/** Pieces of a passage: marked, tinted by the attention (`weights`, the strongest `most`), and the target as `blank(kinds)` draws it. */
function passagePieces(pieces, weights, most, shown, blank) {
  return pieces.map(([text, kinds], i) => {
    const weight = most > 0 ? weights?.[i] ?? null : null;
    // underlined mentions would give a hidden target away; speech is not tinted beside attention
    const marks = [...kinds].filter((kind) => (kind !== "m" || shown) && (kind !== "s" || !most));
    if (!kinds.includes("b") && !marks.length && weight === null) return text;
    const node = kinds.includes("b") ? blank(text, kinds) : h("span", { class: marks.map((kind) => `wb-${kind}`).join(" ") }, text);
    if (weight !== null && node.tagName !== "BUTTON") {
      node.classList.add("wb-weighed");
      node.title = `attention ${Number(weight.toPrecision(2))}`;
      node.style.setProperty("--wb-weight", `${Math.round((60 * weight) / most)}%`);
    }
    return node;
  });
}
const strongest = (p) => (p.weights ? Math.max(1e-12, ...p.weights.flat()) : 0);

/** The choice of the model whose attention tints the passage. */
function attentionChoice(c, p, label = (name) => name) {
  const select = h("select", { class: "wb-look", "aria-label": "Attention of", onchange: () => c.change({ attention: select.value }) },
    h("option", { value: "" }, "no model"), ...p.attention.map((name) => h("option", { value: name }, calm(label(name)))));
  select.value = p.attention.includes(c.s.state.attention) ? c.s.state.attention : "";
  return select;
}

/** The button that puts an item into the widget of wb.ask, or copies the line that asks about it. */
function askAbout(c, p) {
  if (!c.s.asks) return copier(c.root, "Ask about this", () => `wb.ask(models, items[${JSON.stringify(p.id)}])`, "Copy a line of Python that asks models about this item", "wb-button wb-ask-about");
  return h("button", { class: "wb-button wb-ask-about", type: "button", title: "Put the item into the widget of wb.ask", onclick: () => c.ask("ask", { type: "ask", id: p.id }) }, "Ask about this");
}

/** What an answer to that request says on the button, for a moment. */
function saySent(c, id) {
  const button = c.view.querySelector(".wb-ask-about");
  if (c.s.passage?.id !== id || !button) return;
  button.dataset.done = "sent";
  setTimeout(() => delete button.dataset.done, 1200);
}
