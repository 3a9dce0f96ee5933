// A click on a heading sorts the rows of each section: ascending, descending, as they came.
for (const results of document.querySelectorAll(".wb-results:not([data-sorts])")) {
  results.dataset.sorts = "";
  const body = results.querySelector("tbody");
  const headings = [...results.querySelectorAll("thead th")];
  const sections = [];
  for (const row of body.rows) {
    if (row.className === "s" || !sections.length) sections.push({ head: row.className === "s" ? row : null, rows: [] });
    if (row.className !== "s") sections.at(-1).rows.push(row);
  }
  const words = new Intl.Collator(undefined, { numeric: true });
  const number = (row, column) => Number(row.cells[column].dataset.number?.replace("inf", "Infinity") ?? NaN);
  const sort = (heading, column, order) => {
    const sign = order === "descending" ? -1 : 1;
    const compare = (a, b) => {
      const [x, y] = [number(a, column), number(b, column)];
      if (isNaN(x) && isNaN(y)) return sign * words.compare(a.cells[column].textContent, b.cells[column].textContent);
      return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
    };
    for (const { head, rows } of sections) {
      if (head) body.append(head);
      body.append(...(order === "none" ? rows : rows.toSorted(compare)));
    }
    for (const each of headings) if (each.ariaSort) each.ariaSort = each === heading ? order : "none";
  };
  let column = 0;
  for (const heading of headings) {
    const [position, button] = [column, document.createElement("button")];
    column += heading.colSpan;
    if (!("sort" in heading.dataset)) continue;
    heading.ariaSort = "none";
    button.type = "button";
    button.dataset.lmSuppressShortcuts = "true"; // in JupyterLab, Enter would edit the cell
    button.append(...heading.childNodes);
    heading.append(button);
    const next = { none: "ascending", ascending: "descending", descending: "none" };
    button.onclick = () => sort(heading, position, next[heading.ariaSort]);
  }
}
