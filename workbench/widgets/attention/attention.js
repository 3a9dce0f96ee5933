/* What models looked at. The kernel cuts the passage and weighs the pieces; the page shades them.
   Text from the data reaches the page through textContent alone, never as HTML. */

const FIGURES = ["SVG", "PNG", "PDF"];

const short = (x) => (x === 0 ? "0" : x < 0.0001 ? x.toExponential(1) : x.toPrecision(2));

function render({ model, el }) {
  const s = { n: 0, index: -1, models: [], model: "", row: "", passage: null, shown: model.get("reveal") };

  // ---- the frame of the widget
  const button = (label, title, act, props = {}) => h("button", { class: "wt-button", type: "button", title, "aria-label": title, onclick: act, ...props }, label);
  const select = (label, act) => h("select", { class: "wt-select", "aria-label": label, title: label, onchange: act });
  const numberBox = h("input", { type: "number", class: "wt-place", min: 1, "aria-label": "Number of the item", onchange: () => go(Number(numberBox.value) - 1) });
  const count = h("span", { class: "wt-count", role: "status", "aria-live": "polite" }, "…");
  const models = select("Model (key m)", () => show({ model: models.value }));
  const groups = select("Hop, layer or head (keys h and l)", () => show({ row: groups.value }));
  const members = select("Head (keys h and l)", () => show({ row: members.value }));
  const reveal = button("Show answer", "Show answer and prediction (space)", () => flip());
  const root_ = button("√ scale", "Shade by the square root of the weights, so that small ones show", () => {
    model.set("scale", model.get("scale") === "linear" ? "square root" : "linear");
    model.save_changes();
  });
  const figure = h("select", { class: "wt-select", "aria-label": "Save a figure", title: "Save the passage as a figure", onchange: () => {
    const format = figure.value.toLowerCase();
    figure.value = "";
    if (format) ask("figure", { type: "figure", kind: format });
  } }, h("option", { value: "" }, "Save figure"), ...FIGURES.map((format) => h("option", { value: format }, format)));
  const { node: alarm, complain } = errorBanner();
  const view = h("div", { class: "wt-passage", role: "region", tabindex: 0, "aria-label": "Passage" });
  const side = h("div", { class: "wt-side", role: "region", tabindex: 0, "aria-label": "Strongest parts" });
  const root = h("div", { class: "wb-root wt-attention", role: "region", "aria-label": "Attention", onkeydown: (e) => onKey(e) },
    h("div", { class: "wt-top" },
      h("span", { class: "wt-walk" }, button("‹", "Previous item (k)", () => go(s.index - 1)), numberBox, count, button("›", "Next item (j)", () => go(s.index + 1))),
      models, groups, members, reveal, root_, figure),
    alarm, h("div", { class: "wt-main" }, view, side));
  root.style.setProperty("--wt-height", `${model.get("height")}px`);
  el.append(root);
  const noted = pieceNotes(root, view);
  const kernel = requestQueue(model, root, complain);
  const { ask, answered, busy } = kernel;

  // ---- what is shown
  function show(changes) { ask("show", { type: "show", index: s.index, ...changes }); }
  function go(index) {
    if (!s.n) return;
    s.index = Math.min(Math.max(Number.isFinite(index) ? index : s.index, 0), s.n - 1);
    drawPlace();
    show({});
  }
  /** Selectable rows, in the order of the keys h and l. */
  function rows() {
    const all = (s.passage?.groups ?? []).flatMap(([name, inner]) => [name, ...inner]);
    return ["", ...all];
  }
  function step(by) {
    const all = rows();
    const next = all[Math.min(Math.max(all.indexOf(s.row) + by, 0), all.length - 1)];
    if (next === s.row) return;
    s.row = next;
    show({ row: next });
  }
  function flip() {
    s.shown = !s.shown;
    const focused = view.contains(document.activeElement) && document.activeElement !== view;
    if (s.passage) drawPassage();
    drawSide();
    press(reveal, s.shown);
    if (focused) view.querySelector(".wb-blank")?.focus({ preventScroll: true });
    model.set("reveal", s.shown);
    model.save_changes();
  }
  function press(node, on) { node.setAttribute("aria-pressed", String(on)); }
  const strength = (weight) => {
    const share = s.passage.most > 0 ? weight / s.passage.most : 0;
    return model.get("scale") === "linear" ? share : Math.sqrt(share);
  };

  function drawPlace() {
    numberBox.value = s.index + 1;
    numberBox.max = s.n;
    count.textContent = `of ${number(s.n)}`;
  }
  function drawTop() {
    drawPlace();
    fill(models, ...s.models.map((name) => h("option", { value: name }, name)));
    models.value = s.model;
    models.hidden = s.models.length < 2;
    const rowGroups = s.passage?.groups ?? [];
    const group = rowGroups.find(([name, inner]) => name === s.row || inner.includes(s.row));
    fill(groups, h("option", { value: "" }, "all together"), ...rowGroups.map(([name]) => h("option", { value: name }, name)));
    groups.value = group ? group[0] : "";
    groups.hidden = rowGroups.length < 2 && !rowGroups[0]?.[1].length;
    const inner = group?.[1] ?? [];
    fill(members, h("option", { value: group?.[0] ?? "" }, "mean of its heads"), ...inner.map((name) => h("option", { value: name }, name.slice(group[0].length + 2))));
    members.value = inner.includes(s.row) ? s.row : group?.[0] ?? "";
    members.hidden = !rowGroups.some(([, names]) => names.length);
    members.disabled = !inner.length;
    press(reveal, s.shown);
    press(root_, model.get("scale") !== "linear");
  }
  function drawPassage() {
    const p = s.passage;
    if (!p) {
      fill(view, h("div", { class: "wb-empty" }, s.n ? "No item to show." : "There are no items here."));
      return;
    }
    const shades = (pieces) => pieces.map(([, , weight]) => (weight === null ? null : [strength(weight), [`attention ${short(weight)}`]]));
    const blank = (_, letters) => h("button", { class: letters.includes("w") ? "wb-blank wb-w" : "wb-blank", type: "button", title: "space shows or hides the answer", "aria-label": s.shown ? `Answer: ${p.answer ?? "unknown"}` : "Hidden answer; press space to show it", onclick: () => flip() }, s.shown ? p.answer ?? "?" : "\u00a0");
    const words = (pieces) => passagePieces(pieces, shades(pieces), s.shown, blank);
    const right = s.shown ? p.answer : null;
    const scroll = view.dataset.id === p.id ? view.scrollTop : 0;
    view.dataset.id = p.id;
    const texts = [
      p.context.length > 0 && h("div", { class: "wb-context", dir: "auto" }, ...words(p.context)),
      h("div", { class: "wb-target" }, h("div", { class: "wb-query", dir: "auto" }, ...words(p.query)),
        p.candidates && h("ul", { class: "wb-candidates", "aria-label": "Candidates" }, ...p.candidates.map((word) => h("li", {
          class: [word === right && "wb-right", s.shown && word === p.prediction && "wt-chosen"].filter(Boolean).join(" "),
        }, word)))),
    ];
    fill(view,
      h("div", { class: "wt-meta" }, h("b", {}, p.id), ...p.kind.map((text) => h("bdi", {}, text))),
      ...(p.influence ? [h("div", { class: "wt-two" }, h("div", {}, h("div", { class: "wt-head" }, "attention"), ...texts.filter(isNode)), influenced(p))] : texts));
    noted();
    view.scrollTop = scroll;
  }
  /** The passage once more, shaded by influence. */
  function influenced({ influence, answer }) {
    const blank = () => h("b", { class: "wt-answer" }, s.shown ? answer ?? "?" : "_____");
    const words = (side) => passagePieces(side ? influence.query : influence.context, shadesOf(influence, side, true), s.shown, blank);
    return h("div", { class: "wt-influence", role: "group", "aria-label": "Influence" }, h("div", { class: "wt-head" }, "influence"),
      h("div", { class: "wb-context", dir: "auto" }, ...words(0)), h("div", { class: "wb-query", dir: "auto" }, ...words(1)), shadesLegend(influence.shades));
  }
  function drawSide() {
    const p = s.passage;
    side.hidden = !p;
    if (!p) return;
    const verdict = p.correct === null ? "" : p.correct ? "right" : "wrong";
    const bars = p.parts.map(([text, weight, piece]) => {
      const bar = h("i", {});
      bar.style.width = `${(100 * weight) / p.parts[0][1]}%`;
      return h("li", {}, h("button", { class: "wt-part", type: "button", title: `${text}: attention ${short(weight)}; click to see it in the passage`, onclick: () => reach(piece) },
        h("bdi", {}, text), h("em", {}, short(weight)), h("span", {}, bar)));
    });
    const ramp = h("span", { class: "wt-ramp", role: "img", "aria-label": `Colours from 0 to ${short(p.most)}` });
    fill(side,
      h("div", { class: "wt-legend" }, h("div", {}, "attention weight", model.get("scale") === "linear" ? "" : ", square-root scale"),
        h("div", { class: "wt-scale", title: "A word in several parts has the sum of their weights" }, h("span", {}, "0"), ramp, h("span", {}, short(p.most))),
        p.asked && h("div", { class: "wt-key" }, h("span", { class: "wb-w", title: "The part of the text that the model asked with: the window around the blank, or the place that predicts it" }, "query")),
        s.shown && h("div", { class: "wt-key" }, h("span", { class: "wb-m" }, "answer"), h("span", { class: "wb-p" }, "prediction"))),
      p.influence && h("div", { class: "wt-facts wt-tau", title: "Kendall's tau-b of the attention to the parts and their influence: 1 where they are in the same order, -1 in the opposite one" },
        "τ of attention and influence ", h("b", {}, p.influence.tau), ` (${number(p.influence.n)} parts)`),
      s.shown ? h("div", { class: "wt-facts" }, h("div", {}, "answer ", h("b", {}, h("bdi", {}, p.answer ?? "?"))),
        h("div", {}, "prediction ", h("b", {}, h("bdi", {}, p.prediction || DASH)), verdict && ` (${verdict})`))
        : h("div", { class: "wt-facts wb-hint" }, "Answer and prediction are hidden (space shows them)."),
      h("div", { class: "wt-head" }, p.parts.length ? `strongest of ${number(p.n)} parts` : "no part of the text has a weight"), h("ol", { class: "wt-parts" }, ...bars),
      p.parts.length > 0 && h("div", { class: "wb-hint" }, `sum of all ${short(p.sum)}`));
  }
  function reach(index) {
    const { context, query } = s.passage; // pieces without a weight are not nodes of their own
    const node = view.querySelectorAll(".wb-weighed")[[...context, ...query].slice(0, index).filter(([, , weight]) => weight !== null).length];
    if (!node) return;
    const box = view.getBoundingClientRect();
    view.scrollTop += node.getBoundingClientRect().top - box.top - box.height / 3;
    view.querySelector(".wt-here")?.classList.remove("wt-here");
    node.classList.add("wt-here");
  }
  function draw() {
    drawTop();
    drawPassage();
    drawSide();
  }

  // ---- keys
  function onKey(e) {
    if (!plainKey(e) || /^(INPUT|SELECT)$/.test(e.target.tagName)) return;
    if (e.target.tagName === "BUTTON" && (e.key === " " || e.key === "Enter")) return; // it is pressed
    const scrolls = e.target === view || e.target === side; // arrows scroll there
    const acts = {
      j: () => go(s.index + 1), k: () => go(s.index - 1), l: () => step(1), h: () => step(-1), " ": () => flip(),
      m: () => s.models.length > 1 && show({ model: s.models[(s.models.indexOf(s.model) + 1) % s.models.length] }),
      ...(scrolls ? {} : { ArrowDown: () => go(s.index + 1), ArrowUp: () => go(s.index - 1), Home: () => go(0), End: () => go(s.n - 1) }),
      ArrowRight: () => step(1), ArrowLeft: () => step(-1),
    };
    if (!acts[e.key]) return;
    e.preventDefault();
    acts[e.key]();
  }

  // ---- what the kernel says
  const handlers = {
    view(m) {
      const newest = m.request ? answered(m.request) : !busy("show");
      if (!newest) return; // the reader is further on
      Object.assign(s, { n: m.n, index: m.index, models: m.models, model: m.model, row: m.row, passage: m.passage });
      complain("");
      draw();
      root.dataset.row = s.row;
      root.dataset.item = m.passage?.id ?? "";
      view.dataset.place = s.index;
    },
    file(m, buffers) {
      answered(m.request);
      download(m.name, buffers[0]);
    },
    error(m) {
      if (m.request) answered(m.request);
      if (m.request === "show" && s.passage) { // what is drawn stays
        const drawn = view.dataset.place;
        if (drawn !== undefined) s.index = Number(drawn);
        s.row = root.dataset.row;
        drawTop();
      }
      complain(m.message);
    },
  };
  const changed = () => {
    s.shown = model.get("reveal");
    if (s.passage) draw();
  };
  const end = listenTo(model, kernel, complain, handlers);
  model.on("change:reveal", changed);
  model.on("change:scale", changed);
  ask("show", { type: "open" });
  return () => {
    end();
    model.off("change:reveal", changed);
    model.off("change:scale", changed);
  };
}

export default { render };
