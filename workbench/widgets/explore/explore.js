/* The charts of the linked view. The kernel counts; the page draws numbers and tells what is chosen.
   Text from the data reaches the page through textContent alone, never as HTML. */

const HINT = "Click a bar or drag over a range. Ctrl+click adds a bar; a second click, a double-click or Esc clears the chart.";

const USUAL = 5; // charts, of which the first two share a column

const share = (n, of) => (of ? `${((100 * n) / of).toFixed(n && (100 * n) / of < 1 ? 2 : 1)} %` : "");

function render({ model, el }) {
  let state = model.get("state");
  const want = {}; // choices made here that the kernel has not answered yet, by chart

  function choose(name, values) {
    want[name] = values && values.length ? values : null;
    ask("choose", { type: "choose", chosen: { ...want } });
    draw();
  }
  function forget() {
    for (const name of Object.keys(want)) delete want[name];
  }
  const chosen = (chart) => (chart.name in want ? want[chart.name] : chart.chosen);

  // ---- the frame of the widget
  const said = h("div", { class: "we-said", role: "status", "aria-live": "polite" });
  const clear = h("button", { class: "we-button", type: "button", onclick: () => { forget(); ask("choose", { type: "clear" }); } }, "Clear");
  const legend = h("span", { class: "we-legend", "aria-hidden": "true" }, h("i", { class: "we-left" }), "chosen", h("i", { class: "we-all" }), "all");
  const { node: alarm, complain } = alarmOf("we-alarm");
  const grid = h("div", { class: "we-grid" });
  const more = h("div", { class: "we-more", hidden: true }); // charts of further columns
  const root = h("div", { class: "we-charts", onkeydown: onKey },
    h("div", { class: "we-head" }, said, legend, clear), grid, more, alarm);
  el.append(root);
  const { ask, answered, busy, drop, heard: rest, end } = lineTo(model, root, complain);
  function onKey(e) {
    // a plain key is for the widget alone: outside, "d d" deletes the cell
    if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation();
    const name = e.target.closest("[data-chart]")?.dataset.chart;
    if (e.key === "Escape" && name) {
      e.preventDefault();
      choose(name, null);
    }
  }

  // ---- one drawer a chart: made once, then only widths, heights and words change
  let drawers = [];
  let made = null; // which charts they draw: others come with the annotations
  function make() {
    const charts = JSON.stringify(state.charts.map(({ name, kind, starts, rows }) => [name, kind, starts, rows?.map(([value]) => value)]));
    if (charts === made) return;
    made = charts;
    grid.replaceChildren();
    more.replaceChildren();
    drawers = state.charts.map((chart, i) => {
      const title = h("div", { class: "we-title", title: [chart.title, chart.tooltip].filter(Boolean).join("\n") }, chart.title);
      const body = h("div", { class: `we-body we-${chart.kind}` });
      (i < USUAL ? grid : more).append(h("section", {
        class: "we-chart", "data-chart": chart.name, role: "group", "aria-label": chart.title,
        ondblclick: () => { if (chart.kind !== "nothing") choose(chart.name, null); },
      }, title, body));
      return { bars, bins, nothing }[chart.kind](chart, body);
    });
    more.hidden = !more.children.length;
  }

  function nothing(_made, body) {
    return (chart) => { body.textContent = chart.why; };
  }

  function bars(made, body) {
    const rows = made.rows.map(([value, label]) => {
      const row = { value, all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }), n: h("span", { class: "we-n" }) };
      row.node = h("button", { class: "we-row", type: "button", "data-value": value, onclick: (e) => pick(value, e.ctrlKey || e.metaKey || e.shiftKey) },
        h("span", { class: "we-label" }, label), h("span", { class: "we-track" }, row.all, row.left), row.n);
      return row;
    });
    body.append(...rows.map((row) => row.node));
    const digits = `${Math.max(...made.rows.map(([, , total]) => number(total).length))}ch`;
    for (const row of rows) row.n.style.minWidth = digits; // counts change, the bars' scale stays
    if (made.more) body.append(h("div", { class: "we-hint" }, `${number(made.more)} rarer values are not drawn`));
    let now = [];
    function pick(value, add) {
      if (add) choose(made.name, now.includes(value) ? now.filter((v) => v !== value) : [...now, value]);
      else choose(made.name, now.length === 1 && now[0] === value ? null : [value]);
    }
    return (chart) => {
      now = chosen(chart) ?? [];
      const most = Math.max(1, ...chart.rows.map(([, , total]) => total));
      chart.rows.forEach(([value, label, total, left], i) => {
        const { node, all, left: part, n } = rows[i];
        all.style.width = `${(100 * total) / most}%`;
        part.style.width = left ? `max(2px, ${(100 * left) / most}%)` : "0";
        n.textContent = number(left);
        node.setAttribute("aria-pressed", String(now.includes(value)));
        node.classList.toggle("we-off", (now.length > 0 && !now.includes(value)) || Boolean(chart.excluded?.includes(value)));
        node.title = `${label}: ${number(left)} of ${number(total)} (${share(left, total)})`;
        node.setAttribute("aria-label", `${label}: ${number(left)} of ${number(total)}`);
      });
    };
  }

  function bins(made, body) {
    const { starts, ends, names } = made;
    const n = starts.length;
    const short = (value) => String(Number(value.toPrecision(6)));
    const open = ends[n - 1] === null;
    const columns = starts.map(() => {
      const column = { all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }) };
      column.node = h("span", { class: "we-bin" }, column.all, column.left);
      return column;
    });
    if (open) columns[n - 1].node.classList.add("we-open");
    const handles = ["least", "greatest"].map((which, side) => h("span", {
      class: "we-handle", role: "slider", tabindex: 0, "aria-label": `${made.title}, ${which}`, "aria-orientation": "horizontal",
      "aria-valuemin": starts[0], "aria-valuemax": ends[n - 1] ?? starts[n - 1], onkeydown: (e) => step(e, side),
    }));
    const peak = h("span", { class: "we-peak" });
    const plot = h("div", { class: "we-plot" }, ...columns.map((column) => column.node), peak, ...handles);
    const axis = h("div", { class: "we-axis", "aria-hidden": "true" });
    const rest = { all: h("span", { class: "we-all" }), left: h("span", { class: "we-left" }), n: h("span", { class: "we-n" }) };
    rest.node = h("button", { class: "we-row we-rest", type: "button", onclick: () => choose(made.name, none() ? null : [null]) },
      h("span", { class: "we-label" }, made.missing[0]), h("span", { class: "we-track" }, rest.all, rest.left), rest.n);
    rest.node.hidden = !made.missing[1];
    body.append(plot, axis, rest.node);
    const every = Math.max(1, Math.ceil(n / 5));
    const single = Number.isInteger(starts[0]) && starts[0] === ends[0];
    for (let i = 0; i < n; i += every) {
      if (i && n - i < (open ? every : every / 2)) break; // no room for its number
      const tick = h("span", {}, short(starts[i]));
      tick.style.left = `${(100 * (i + (single ? 0.5 : 0))) / n}%`;
      axis.append(tick);
    }
    if (open) axis.append(h("span", { class: "we-beyond" }, `≥ ${short(starts[n - 1])}`));

    let now = null; // [least, greatest] as the kernel knows it; [null] stands for items without a value
    const none = () => now?.length === 1;
    const bin = (value) => Math.max(0, starts.findLastIndex((start) => start <= value));
    const first = () => (now?.[0] ?? null) === null ? 0 : bin(now[0]);
    const last = () => (now?.[1] ?? null) === null ? n - 1 : bin(now[1]);
    const take = (a, b) => {
      const [from, to] = a < b ? [a, b] : [b, a];
      choose(made.name, from === 0 && to === n - 1 ? null : [starts[from], ends[to]]);
    };
    function step(e, side) {
      const here = side ? last() : first();
      const far = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, PageDown: here - 5, PageUp: here + 5, Home: 0, End: n - 1 }[e.key];
      if (far === undefined) return;
      e.preventDefault();
      if (side) take(first(), Math.max(first(), Math.min(n - 1, far)));
      else take(Math.min(last(), Math.max(0, far)), last());
    }

    let held = null; // the bin where a drag began (or its fixed end), and whether it has moved
    const under = (e) => {
      const box = plot.getBoundingClientRect();
      return Math.max(0, Math.min(n - 1, Math.floor(((e.clientX - box.left) / box.width) * n)));
    };
    plot.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      const side = handles.indexOf(e.target);
      const at = under(e);
      held = { from: side < 0 ? at : side ? first() : last(), at, moved: false, handle: side >= 0 };
      plot.setPointerCapture(e.pointerId);
      e.preventDefault(); // no text is selected
      if (side >= 0) e.target.focus({ preventScroll: true });
    });
    plot.addEventListener("pointermove", (e) => {
      if (!held || under(e) === held.at) return;
      held.moved = true;
      held.at = under(e);
      take(held.from, held.at);
    });
    plot.addEventListener("pointerup", () => {
      const narrow = held?.handle && first() === last(); // the handles lie over all of the one bin
      if (held && !held.moved && (!held.handle || narrow)) {
        const same = narrow || (now && now[0] === starts[held.at] && now[1] === ends[held.at]);
        choose(made.name, same ? null : [starts[held.at], ends[held.at]]);
      }
      held = null;
    });
    plot.addEventListener("pointercancel", () => { held = null; });

    return (chart) => {
      now = chosen(chart);
      const most = Math.max(1, ...chart.total);
      peak.textContent = number(most);
      chart.total.forEach((total, i) => {
        const { node, all, left } = columns[i];
        const within = ([low, high]) => starts[i] <= (high ?? Infinity) && (ends[i] ?? Infinity) >= (low ?? -Infinity);
        const without = chart.excluded?.length === 2 && within(chart.excluded);
        all.style.height = total ? `max(1px, ${(100 * total) / most}%)` : "0";
        left.style.height = chart.left[i] ? `max(2px, ${(100 * chart.left[i]) / most}%)` : "0";
        node.classList.toggle("we-off", none() || without || Boolean(now && !within(now)));
        node.title = `${names[i]}: ${number(chart.left[i])} of ${number(total)}`;
      });
      const held = now && !none();
      const at = [held ? first() : 0, held ? last() + 1 : n];
      handles.forEach((handle, side) => {
        handle.style.left = `${(100 * at[side]) / n}%`;
        handle.classList.toggle("we-held", Boolean(held));
        const i = side ? last() : first();
        handle.setAttribute("aria-valuenow", String(side ? ends[i] ?? starts[i] : starts[i]));
        handle.setAttribute("aria-valuetext", held ? names[i] : "all");
      });
      const [what, total, left] = chart.missing;
      rest.all.style.width = `${(100 * total) / Math.max(1, state.total)}%`;
      rest.left.style.width = left ? `max(2px, ${(100 * left) / state.total}%)` : "0";
      rest.n.textContent = number(left);
      rest.node.setAttribute("aria-pressed", String(none()));
      rest.node.classList.toggle("we-off", Boolean(held) || chart.excluded?.length === 1);
      rest.node.title = `${what}: ${number(left)} of ${number(total)}`;
      rest.node.setAttribute("aria-label", rest.node.title);
    };
  }

  // ---- the words, and all of it
  function draw() {
    make();
    state.charts.forEach((chart, i) => drawers[i](chart));
    const words = state.words;
    const focused = said.contains(document.activeElement);
    said.replaceChildren(h("b", {}, `${number(state.shown)} of ${number(state.total)}`), h("span", { class: words.length ? "we-word" : "" }, words.length ? "items:" : "items."),
      ...(words.length ? words.map(([name, text]) => h("button", {
        class: "we-chip", type: "button", title: `${text} (click to remove it)`, "aria-label": `Remove: ${text}`,
        onclick: () => (name ? choose(name, null) : ask("query", { type: name === null ? "where" : "query" })),
      }, h("span", {}, text), h("span", { "aria-hidden": "true" }, "✕"))) : [h("span", { class: "we-hint" }, state.total ? HINT : "There are no items.")]));
    if (words.length && !state.shown) said.append(h("span", { class: "we-hint" }, "No items match. Remove a filter, or press Clear."));
    clear.disabled = legend.hidden = !words.length;
    if (focused) (said.querySelector("button") ?? clear).focus({ preventScroll: true });
  }

  // ---- what the kernel says
  const changed = () => {
    state = model.get("state");
    draw();
  };
  const listen = (message) => {
    rest();
    complain(message.type !== "error" ? "" : message.lane === "choose" ? refusal(message.message) : message.message);
    if (message.type === "error") drop(message.lane); // what is refused is not drawn
    answered(message.lane);
    if (!busy("choose")) forget();
    draw();
  };
  model.on("change:state", changed);
  model.on("msg:custom", listen);
  ask("open", { type: "open" });
  draw();
  return () => {
    end();
    model.off("change:state", changed);
    model.off("msg:custom", listen);
  };
}

export default { render };
