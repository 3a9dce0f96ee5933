/* The parts of a passage that all lists show. */

/** Pieces of a passage: marked, shaded (`shades`, a pair of share and note per piece; null for none), and the target drawn by `blank(letters)`. */
function passagePieces(pieces, shades, reveal, blank) {
  return pieces.map(([text, letters], i) => {
    const shade = shades?.[i] ?? null;
    // underlined mentions would give a hidden target away, or the prediction; speech is not tinted beside shades
    const marks = [...letters].filter((letter) => (!"mp".includes(letter) || reveal) && (letter !== "s" || !shades));
    if (!letters.includes("b") && !marks.length && !shade) return text;
    const node = letters.includes("b") ? blank(text, letters) : h("span", { class: marks.map((letter) => `wb-${letter}`).join(" ") }, text);
    if (shade) {
      const [share, note] = shade;
      node.classList.add("wb-weighed");
      node.classList.toggle("wb-against", share < 0);
      node.style.setProperty("--wb-weight", `${Math.round(60 * Math.abs(share))}%`);
      node.note = note.map(stripBidi);
      if (node.tagName !== "BUTTON") node.tabIndex = -1;
    }
    return node;
  });
}
/** The pieces' shades of one side of a passage (0: the context, 1: the target sentence), if they are visible. */
const shadesOf = (p, side, reveal) => (reveal && p.shades ? p.shades.pieces[side] : null);

/** Legend of the shades: their ends and signs. Hatching and a dotted line mark negative values without colours. */
function shadesLegend({ label, unit, signs, darkest: value }) {
  const swatch = (cssClass, text) => [h("span", { class: `wb-weighed wb-swatch ${cssClass}`, style: "--wb-weight: 60%", "aria-hidden": "true" }), text];
  const darkest = unit ? `${value} ${unit}` : value;
  return h("div", { class: "wb-shades wb-hint" }, h("span", {}, label), ...(signs ? [
    h("span", {}, ...swatch("", `${signs[0]} (darkest: ${darkest})`)), h("span", {}, ...swatch("wb-against", signs[1])),
  ] : [h("span", {}, ...swatch("", `darkest: ${darkest}`))]));
}

/** Show the notes of shaded pieces in `view`, under the pointer and under the focus, which the arrow keys move; `root` holds the tooltip. */
function pieceNotes(root, view) {
  const tip = h("div", { class: "wb-tip", role: "tooltip", id: `wb-tip-${Math.random().toString(36).slice(2, 9)}`, hidden: true });
  root.append(tip);
  const all = () => [...view.querySelectorAll(".wb-weighed")].filter((node) => node.note);
  const hide = () => { tip.hidden = true; };
  function show(node) {
    fill(tip, ...node.note.map((line) => h("div", { dir: "auto" }, line)));
    tip.hidden = false;
    const outer = root.getBoundingClientRect();
    const box = node.getClientRects()[0];
    if (!box) return;
    const x = Math.max(4, Math.min(box.left - outer.left, outer.width - tip.offsetWidth - 6));
    const below = box.bottom - outer.top + 4;
    tip.style.left = `${x}px`;
    tip.style.top = `${below + tip.offsetHeight < outer.height ? below : Math.max(2, box.top - outer.top - tip.offsetHeight - 4)}px`;
  }
  const piece = (e) => { const node = e.target.closest?.(".wb-weighed"); return node?.note && view.contains(node) ? node : null; };
  view.addEventListener("mouseover", (e) => { const node = piece(e); if (node) show(node); else hide(); });
  view.addEventListener("mouseleave", hide);
  view.addEventListener("scroll", hide);
  view.addEventListener("focusout", hide);
  view.addEventListener("focusin", (e) => {
    const node = piece(e);
    if (!node) return;
    for (const other of all()) if (other.tagName !== "BUTTON") other.tabIndex = -1;
    node.tabIndex = 0;
    node.setAttribute("aria-describedby", tip.id);
    show(node);
  });
  view.addEventListener("keydown", (e) => {
    const node = piece(e);
    if (!node) return;
    const nodes = all();
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (e.key === "Escape" && !tip.hidden) hide();
    else if (step) nodes[Math.min(Math.max(nodes.indexOf(node) + step, 0), nodes.length - 1)].focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  });
  /** Make one piece reachable by the Tab key; call it after a passage is drawn. */
  return () => {
    hide();
    const [first] = all();
    if (first) first.tabIndex = 0;
  };
}

/** Selector of the shading: the attention of a model, or one of `p.shadings`. */
function shadesChoice(c, p, label = (name) => name) {
  const select = h("select", { class: "wb-look", "aria-label": "Shade by", onchange: () => {
    const [type, name] = [select.value.slice(0, 1), select.value.slice(1)];
    c.change({ attention: type === "a" ? name : "", shade: type === "s" ? name : "" });
  } },
  h("option", { value: "" }, "nothing"), ...p.shadings.map((name) => h("option", { value: `s${name}` }, stripBidi(name))),
  ...p.attention.map((name) => h("option", { value: `a${name}` }, `attention of ${stripBidi(label(name))}`)));
  const { attention, shade } = c.s.state;
  select.value = shade ? `s${shade}` : p.attention.includes(attention) ? `a${attention}` : "";
  return select;
}

/** The button that puts an item into the widget of wb.ask, or copies the line that asks about it. */
function askAbout(c, p) {
  if (!c.s.asks) return copier(c.root, "Ask about this", () => `wb.ask(models, items[${JSON.stringify(p.id)}])`, "Copy a line of Python that asks models about this item", "wb-button wb-ask-about");
  return h("button", { class: "wb-button wb-ask-about", type: "button", title: "Put the item into the widget of wb.ask", onclick: () => c.ask("ask", { type: "ask", id: p.id }) }, "Ask about this");
}

/** Show the answer to that request on the button for a moment. */
function saySent(c, id) {
  const button = c.view.querySelector(".wb-ask-about");
  if (c.s.passage?.id !== id || !button) return;
  button.dataset.done = "sent";
  setTimeout(() => delete button.dataset.done, 1200);
}
