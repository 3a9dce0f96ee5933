const EXAMPLE = "target_class = CN and mention_distance > 40 and not direct_speech";

/** The line of a typed filter, with completions; what is wrong with it stands below. Clicks are shown in it, as they would be typed. */
function filterLine(c, copying) {
  const uid = `wcf${Math.random().toString(36).slice(2, 9)}`;
  const options = h("datalist", { id: uid });
  const input = h("input", {
    type: "text", class: "wc-where", list: uid, spellcheck: "false", autocomplete: "off", "aria-label": "Filter", "aria-describedby": `${uid}-error`,
    placeholder: EXAMPLE,
    title: "A condition on columns of items, annotations and models; Enter applies it",
    oninput: () => c.ask("suggest", { type: "suggest", text: input.value }), onfocus: () => c.ask("suggest", { type: "suggest", text: input.value }),
    onchange: () => apply(),
  });
  const problem = h("div", { class: "wc-where-error", tabindex: 0, id: `${uid}-error`, role: "alert", hidden: true });
  const node = h("div", { class: "wc-filter" }, h("label", {}, "Filter ", input), copying, options, problem);

  function refuse(text) {
    problem.textContent = calm(text);
    problem.hidden = !text;
    input.setAttribute("aria-invalid", String(Boolean(text)));
  }
  function apply() {
    if (input.value.trim() === c.chosen.where.trim()) refuse("");
    else c.choose({ where: input.value.trim() });
  }
  function draw() {
    input.placeholder = c.typed || EXAMPLE;
    if (input.value.trim() === c.chosen.where.trim() || (document.activeElement !== input && problem.hidden)) refuse("");
    if (document.activeElement !== input && problem.hidden) input.value = c.chosen.where;
  }
  function suggest(texts) {
    options.replaceChildren(...texts.map((text) => h("option", { value: text })));
  }
  return { node, input, draw, refuse, suggest, apply };
}

const KEYS = [
  ["j, ↓ / k, ↑", "next / previous item"], ["Page Down / Page Up", "eight items on / back"], ["Home / End", "first / last item"],
  ["/", "search"], ["f", "type a filter"], ["← ↑ → ↓ in the matrix", "another pair of models"], ["Enter, space", "choose the cell, group or outcome"],
  ["Esc", "close what is open; then remove the last filter"], ["?", "this help"],
];

/** The button with a question mark, and the keys that it shows below itself. */
function keysHelp() {
  const button = h("button", { class: "wc-button wc-ask-keys", type: "button", "aria-label": "Keys", "aria-expanded": "false", title: "Keys (?)", onclick: () => open(panel.hidden) }, "?");
  const panel = h("div", { class: "wc-keys", role: "dialog", "aria-label": "Keys", hidden: true },
    h("b", {}, "Keys"), h("dl", {}, ...KEYS.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))));
  let before = null;
  function open(on) {
    if (on) before = document.activeElement;
    panel.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
    if (on) button.focus({ preventScroll: true });
    else before?.focus?.({ preventScroll: true });
  }
  return { node: h("span", { class: "wc-keys-anchor" }, button, panel), panel, open };
}

/** A button that copies a text when it is pressed, and says so. */
function copyButton(label, title, text, near) {
  const button = h("button", {
    class: "wc-button wc-copy", type: "button", title, onclick: async () => {
      button.textContent = (await copyText(text(), near())) ? "Copied" : "Copying failed";
      button.dataset.copied = text();
    }, onblur: () => { button.textContent = label; }, onpointerleave: () => { button.textContent = label; },
  }, label);
  return button;
}
