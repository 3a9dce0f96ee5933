/* A person picks four of the alternates of a sentence. The kernel saves every change before it answers.
   Text from the data reaches the page through textContent alone, never as HTML. */

function render({ model, el }) {
  const s = { view: null, index: 0, at: 0 }; // at: the alternate that has the focus

  // ---- the frame of the widget
  const button = (label, title, act, props = {}) => h("button", { class: "wr-button", type: "button", title, "aria-label": title, onclick: act, ...props }, label);
  const numberBox = h("input", { type: "number", class: "wr-place", min: 1, "aria-label": "Number of the question", onchange: () => go(Number(numberBox.value) - 1) });
  const count = h("span", { class: "wr-count" }, "…");
  const progress = h("progress", { class: "wr-progress", "aria-label": "Questions that are done or closed" });
  const status = h("span", { class: "wr-status", role: "status", "aria-live": "polite" });
  const reject = h("select", { class: "wr-reject", "aria-label": "Reject the question (key x)", title: "Reject the question (key x)", onchange: () => {
    const { question } = s.view;
    ask("change", { type: "reject", id: question.id, reason: reject.value });
    grid.querySelector("[tabindex='0']")?.focus();
  } });
  const undo = button("Undo", "Take the last change back (key u)", () => ask("change", { type: "undo" }));
  const { node: alarm, complain } = errorBanner();
  const sentence = h("div", { class: "wr-sentence", dir: "auto" });
  const preview = h("div", { class: "wr-preview", dir: "auto" });
  const grid = h("div", { class: "wr-grid", role: "group", "aria-label": "Alternates: pick four" });
  const picked = h("ol", { class: "wr-picked", "aria-label": "Options that are picked" });
  const guide = h("details", { class: "wr-guide" });
  const root = h("div", { class: "wb-root wr-groom", role: "region", "aria-label": "Choice of alternates", onkeydown: (e) => onKey(e) },
    h("div", { class: "wr-top" },
      h("span", { class: "wr-walk" }, button("‹", "Previous question (key k)", () => go(s.index - 1)), numberBox, count, button("›", "Next question (key j)", () => go(s.index + 1))),
      button("Next open", "Next open question (key n)", () => ask("show", { type: "next" })), undo, reject,
      h("span", { class: "wr-bar" }, progress, status)),
    alarm, h("div", { class: "wr-main", tabindex: -1 }, sentence, picked, grid, guide),
    preview); // below all else: where it takes another line, no button moves under the pointer
  root.style.setProperty("--wr-height", `${model.get("height")}px`);
  el.append(root);
  const kernel = requestQueue(model, root, complain);
  const { ask, answered, busy } = kernel;

  // ---- what is shown
  function go(index) {
    if (!s.view) return;
    s.index = Math.min(Math.max(Number.isFinite(index) ? index : s.index, 0), s.view.n - 1);
    numberBox.value = s.index + 1;
    ask("show", { type: "show", index: s.index });
  }
  function pick(word) {
    const { question } = s.view;
    if (question.state !== "sentence used" && !question.reason && !question.picked.includes(word) && question.picked.length === s.view.needed) {
      complain(`${s.view.needed} options are picked: take one back to pick another.`);
      return;
    }
    ask(`pick ${question.id} ${word}`, { type: "pick", id: question.id, word });
  }
  const buttons = () => [...grid.children];
  /** Give the focus to an alternate, and show it in its sentence. */
  function point(index, focus = true) {
    const all = buttons();
    s.at = Math.min(Math.max(index, 0), all.length - 1);
    all.forEach((node, i) => node.setAttribute("tabindex", i === s.at ? 0 : -1));
    if (focus) all[s.at].focus();
    see(s.view.question.alternates[s.at]);
  }
  function see(word) {
    const { left, right } = s.view.question;
    fill(preview, h("span", { class: "wr-label" }, "with the alternate"), left, h("mark", { class: "wr-other" }, word), right);
  }
  /** The alternate in the row above or below that is nearest. */
  function across(by) {
    const all = buttons();
    const box = all[s.at].getBoundingClientRect();
    const rows = [...new Set(all.map((node) => Math.round(node.getBoundingClientRect().top)))].sort((a, b) => a - b);
    const top = rows[rows.indexOf(Math.round(box.top)) + by];
    if (top === undefined) return;
    const middle = box.left + box.width / 2;
    const far = (node) => { const { left, width } = node.getBoundingClientRect(); return Math.abs(left + width / 2 - middle); };
    const row = all.filter((node) => Math.round(node.getBoundingClientRect().top) === top);
    point(all.indexOf(row.reduce((a, b) => (far(b) < far(a) ? b : a))));
  }
  function draw(same) {
    const { n, question: q, needed, done, rejected, closed, reasons, guidelines, subject } = s.view;
    numberBox.value = s.index + 1;
    numberBox.max = n;
    count.textContent = `of ${number(n)}`;
    progress.max = n;
    progress.value = closed;
    const begun = q.picked.length ? `${q.picked.length} of ${needed} picked` : "open";
    const state = { open: begun, begun, done: "done", rejected: "rejected", "sentence used": "closed: its sentence is used" }[q.state];
    status.textContent = `${number(done)} done, ${number(rejected)} rejected, ${number(n - closed)} left${subject ? ` (${subject})` : ""}. This one: ${state}.`;
    const choices = [["", q.reason ? "Take the rejection back" : "Reject…"], ...reasons.map((reason) => [reason, reason])];
    fill(reject, ...choices.map(([value, label]) => h("option", { value }, label)));
    reject.value = q.reason;
    reject.setAttribute("aria-invalid", String(Boolean(q.reason)));
    fill(sentence, h("span", { class: "wr-label" }, [q.id, ...q.kind].join(" · ")), q.context && h("span", { class: "wr-context" }, q.context),
      q.left, h("mark", { class: "wr-answer", title: "The answer: the word of the original sentence" }, q.answer), q.right);
    fill(picked, ...Array.from({ length: needed }, (_, i) => h("li", { class: q.picked[i] === undefined ? "wr-free" : "" },
      q.picked[i] === undefined ? "\u00a0" : button(`${q.picked[i]} ✕`, `Take ${q.picked[i]} back`, () => pick(q.picked[i])))));
    const open = q.state === "open" || q.state === "begun" || q.state === "done";
    const focused = grid.contains(document.activeElement);
    if (same) {
      buttons().forEach((node, i) => node.setAttribute("aria-pressed", String(q.picked.includes(q.alternates[i]))));
    } else {
      s.at = 0;
      fill(grid, ...q.alternates.map((word, i) => h("button", { class: "wr-word", type: "button", title: word, "aria-pressed": q.picked.includes(word) ? "true" : "false", onclick: () => { point(i); pick(word); },
        onfocus: () => { if (s.at !== i) point(i, false); }, onmouseenter: () => see(word), onmouseleave: () => see(s.view.question.alternates[s.at]) }, word)));
    }
    for (const node of buttons()) node.setAttribute("aria-disabled", String(!open));
    point(s.at, focused && !same);
    if (!guide.childNodes.length) fill(guide, h("summary", {}, "What makes good options"), h("ul", {}, ...guidelines.map((line) => h("li", {}, line))),
      h("p", {}, "Keys: arrows move, space or enter picks, j and k walk, n goes to the next open question, u undoes, x rejects."));
    root.dataset.item = q.id;
    root.dataset.state = q.state;
    root.dataset.picked = q.picked.length;
  }

  // ---- keys
  function onKey(e) {
    if (!plainKey(e) || !s.view || /^(INPUT|SELECT)$/.test(e.target.tagName)) return;
    const inGrid = e.target.parentNode === grid;
    const acts = {
      j: () => go(s.index + 1), k: () => go(s.index - 1), n: () => ask("show", { type: "next" }), u: () => ask("change", { type: "undo" }), x: () => reject.focus(),
      ...(inGrid ? {
        ArrowRight: () => point(s.at + 1), ArrowLeft: () => point(s.at - 1), ArrowDown: () => across(1), ArrowUp: () => across(-1),
        Home: () => point(0), End: () => point(buttons().length - 1),
      } : {}),
    };
    if (!acts[e.key]) return;
    e.preventDefault();
    acts[e.key]();
  }

  // ---- what the kernel says
  const handlers = {
    view(m) {
      if (m.lane) answered(m.lane);
      if (busy("show")) return; // the reader is further on
      const same = s.view?.question.id === m.question.id;
      const inside = grid.contains(document.activeElement);
      s.view = m;
      s.index = m.index;
      complain("");
      draw(same);
      if (inside && !same) point(0);
    },
    error(m) {
      if (m.lane) answered(m.lane);
      if (s.view) { // what is drawn stays
        s.index = s.view.index;
        draw(true);
      }
      complain(m.message);
    },
  };
  const end = listenTo(model, kernel, complain, handlers);
  ask("show", { type: "open" });
  return end;
}

export default { render };
