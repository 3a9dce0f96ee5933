/** A table in place of a chart; its region has the focus where it scrolls. `draw(heads, rows)` fills it: the first cell of a row is its heading. */
function chartTable(name, cssClass) {
  const head = h("tr");
  const body = h("tbody");
  const table = h("table", {}, h("thead", {}, head), body);
  const node = h("div", { class: `wb-chart-table ${cssClass}`, tabindex: 0, role: "region", hidden: true }, table);
  const call = (text) => {
    node.setAttribute("aria-label", stripBidi(text));
    table.setAttribute("aria-label", stripBidi(text));
  };
  call(name);
  function draw(heads, rows) {
    fill(head, ...heads.map((text) => h("th", { scope: "col" }, text)));
    fill(body, ...rows.map((cells) => h("tr", {}, ...cells.map((cell, i) => (i ? h("td", {}, cell) : h("th", { scope: "row" }, cell))))));
  }
  return { node, draw, call };
}
