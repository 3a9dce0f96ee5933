/** ln p of the answers by two models: one point per item, or squares with counts; dragging filters the list. */
function scatter(c) {
  const { s } = c;
  const SIDE = 232;
  const LEFT = 48; // of the title of the axis and its numbers
  const svgNode = (tag, props, ...children) => {
    const node_ = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(props)) node_.setAttribute(key, value);
    node_.append(...children);
    return node_;
  };
  const KINDS = ["wc-neither", "wc-first", "wc-second", "wc-both"];
  const SHAPES = { // a form each, so that nobody needs the colours
    "wc-neither": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0M-1.5 0a1.5 1.5 0 1 1 3 0a1.5 1.5 0 1 1-3 0", "wc-both": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "wc-first": "M-3.6 3h7.2L0-3.6z", "wc-second": "M-2.8-2.8h5.6v5.6h-5.6z",
  };
  const point = (outcome, x, y) => svgNode("path", { class: `wc-point ${outcome}`, d: SHAPES[outcome], transform: `translate(${x} ${y})`, "fill-rule": "evenodd" });
  const svg = svgNode("svg", { class: "wc-scatter", width: LEFT + SIDE + 8, height: SIDE + 40, role: "img" });
  const about = h("div", { class: "wb-hint wc-scatter-about", tabindex: 0, role: "region", "aria-label": "About the scatter" });
  const table = chartTable("ln p of the answers", "wc-table");
  const node = h("div", { class: "wc-scatter-part", hidden: true }, svg, table.node, about);
  let data = null;
  let start = null;
  let box = null;

  const toX = (value) => LEFT + (SIDE * (value - data.low)) / -data.low;
  const up = (value) => 4 + (SIDE * value) / data.low;
  const valueAt = (px) => Math.min(0, Math.max(data.low, data.low + ((px - LEFT) / SIDE) * -data.low));
  const valueUp = (px) => Math.min(0, Math.max(data.low, ((px - 4) / SIDE) * data.low));

  function position(e) {
    const { left, top } = svg.getBoundingClientRect();
    return [e.clientX - left, e.clientY - top];
  }
  svg.addEventListener("pointerdown", (e) => {
    if (!data?.n) return;
    start = position(e);
    svg.setPointerCapture(e.pointerId);
    e.preventDefault();
  });
  svg.addEventListener("pointermove", (e) => {
    if (!start) return;
    const [x, y] = position(e);
    box?.remove();
    box = svgNode("rect", { class: "wc-brush", x: Math.min(x, start[0]), y: Math.min(y, start[1]), width: Math.abs(x - start[0]), height: Math.abs(y - start[1]) });
    svg.append(box);
  });
  svg.addEventListener("pointerup", (e) => {
    if (!start) return;
    const [first, last] = [start, position(e)];
    start = null;
    if (Math.hypot(last[0] - first[0], last[1] - first[1]) < 4) { // a click: the nearest item, else no brush
      const near = (data.points ?? []).map(([x, y, , row]) => [Math.hypot(toX(x) - last[0], up(y) - last[1]), row]).sort((a, b) => a[0] - b[0])[0];
      if (near && near[0] < 7) c.ask("pick", { type: "pick", row: near[1] });
      else if (data.brush.length) c.choose(Object.fromEntries(data.names.map((name) => [name, null])));
      return;
    }
    const range = (from, to) => [from, to].sort((a, b) => a - b).map((value) => Number(value.toFixed(2)));
    c.choose({ [data.names[0]]: range(valueAt(first[0]), valueAt(last[0])), [data.names[1]]: range(valueUp(first[1]), valueUp(last[1])) });
  });

  function take(m) {
    data = m;
    svg.replaceChildren();
    box = null;
    const names = m.two?.map((k) => s.models[k]);
    about.replaceChildren();
    if (!m.n) {
      table.draw([], []);
      about.append(names ? (m.left_out ? "No item has a log-probability by both models." : NO_ITEMS) : "One model: there is nothing to compare it with.");
      return;
    }
    const [a, b] = names;
    svg.setAttribute("aria-label", `ln p of ${number(m.n)} answers by ${a.label} and ${b.label}`);
    drawTable(a, b);
    svg.append(svgNode("rect", { class: "wc-frame", x: LEFT, y: 4, width: SIDE, height: SIDE }), svgNode("line", { class: "wc-diagonal", x1: LEFT, y1: 4 + SIDE, x2: LEFT + SIDE, y2: 4 }));
    for (const [i, text] of m.ticks.entries()) {
      const value = m.low * (1 - i / 2);
      svg.append(svgNode("text", { x: toX(value), y: SIDE + 18, "text-anchor": "middle" }, text), svgNode("text", { x: LEFT - 4, y: up(value) + 4, "text-anchor": "end" }, text));
    }
    svg.append(svgNode("text", { x: LEFT + SIDE / 2, y: SIDE + 34, "text-anchor": "middle" }, `ln p by ${a.key}`), svgNode("text", { x: 10, y: SIDE / 2, transform: `rotate(-90 10 ${SIDE / 2})`, "text-anchor": "middle" }, `ln p by ${b.key}`));
    const largest = Math.max(...(m.bins ?? []).map(([, , count]) => count));
    const side = SIDE / m.cut;
    for (const [i, j, count] of m.bins ?? []) svg.append(svgNode("rect", { class: "wc-square", x: LEFT + i * side, y: 4 + SIDE - (j + 1) * side, width: side, height: side, "fill-opacity": 0.15 + 0.85 * Math.sqrt(count / largest) }));
    for (const [x, y, outcome] of m.points ?? []) svg.append(point(KINDS[outcome], toX(x), up(y)));
    svg.style.setProperty("--wc-first", a.colour);
    svg.style.setProperty("--wc-second", b.colour);
    if (m.brush.length === 4) {
      const [left, right, low, high] = m.brush;
      svg.append(svgNode("rect", { class: "wc-brush", x: toX(left), y: up(high), width: toX(right) - toX(left), height: up(low) - up(high) }));
    }
    const key = (outcome, text) => h("div", {}, svgNode("svg", { width: 10, height: 10, style: `--wc-first:${a.colour};--wc-second:${b.colour}` }, point(outcome, 5, 5)), ` ${text}`);
    fill(about, h("div", {}, `${number(m.n)} items${m.left_out ? `; ${number(m.left_out)} without a finite ln p by both excluded` : ""}.`),
      h("div", {}, "Right of the diagonal, ", chip(a), " gives the answer a higher probability; above it, ", chip(b), "."),
      ...(m.points ? [key("wc-first", `only ${a.key} right`), key("wc-second", `only ${b.key} right`), key("wc-both", "both right"), key("wc-neither", "both wrong")] : [h("div", {}, `Darker squares hold more items, ${number(largest)} at most.`)]),
      h("div", {}, `Drag to filter the list${m.points ? "; click a point to show its item" : ""}.`));
  }
  /** The points, or how many items each square holds; a button shows the item of a point. */
  function drawTable(a, b) {
    if (table.node.hidden || !data?.n) return;
    const outcomes = ["both wrong", `only ${a.key} right`, `only ${b.key} right`, "both right"];
    const range = (index) => [index, index + 1].map((edge) => (data.low * (1 - edge / data.cut)).toFixed(1)).join(" to ").replaceAll("-", MINUS);
    const value = (x) => x.toFixed(2).replace("-", MINUS);
    table.call(svg.getAttribute("aria-label") ?? "ln p of the answers");
    if (data.points) table.draw([`ln p by ${a.key}`, `ln p by ${b.key}`, "outcome", "item"], data.points.map(([x, y, outcome, row]) => [value(x), value(y), outcomes[outcome],
      h("button", { type: "button", "aria-label": `Show the item with ln p ${value(x)} and ${value(y)}`, onclick: () => c.ask("pick", { type: "pick", row }) }, "show")]));
    else table.draw([`ln p by ${a.key}`, `ln p by ${b.key}`, "items"], data.bins.map(([i, j, count]) => [range(i), range(j), number(count)]));
  }
  function tabulate(on) {
    svg.toggleAttribute("hidden", on);
    table.node.hidden = !on;
    if (data?.n) drawTable(...data.two.map((k) => s.models[k]));
  }
  function draw() {
    if (!node.hidden) c.ask("scatter", { type: "scatter" });
  }
  function show(on) {
    node.hidden = !on;
    draw();
  }
  return { node, take, draw, show, tabulate };
}
