/* A table that is filtered and sorted in the page. Cells are text, as they were written when the page was made. */

const publishedTable = (() => {
  const language = filterLanguage;

  class TableHost {
    constructor(data, draw) {
      this.data = data;
      this.table = language.columnsFrom(data.columns);
      this.state = { where: "", sort: "" };
      this.draw = draw;
      this.rows = data.texts.map((_, row) => row);
    }
    isFirst() { return true; }
    restore(state) {
      const { where, sort } = state;
      const name = sort.replace(/^-/, "");
      if (name && !Object.hasOwn(this.table, name)) throw new language.FilterError(`there is no column '${name}' to sort by`);
      let rows = this.data.texts.map((_, row) => row);
      if (where.trim()) {
        const mask = language.mask(language.parse(where), this.table, rows.length);
        rows = rows.filter((row) => mask[row]);
      }
      this.state = { where: where.trim(), sort };
      this.rows = language.sortRows(rows, this.table, sort);
      this.draw();
    }
  }

  function start() {
    const data = publishedPage.read("wp-data");
    const root = document.getElementById("wp-view");
    const count = h("span", { role: "status", "aria-live": "polite" });
    const names = data.columns.map(({ name }) => name);
    const line = h("input", { type: "text", spellcheck: "false", autocomplete: "off", list: "wp-completions", placeholder: `Filter by a condition on columns: ${names.slice(0, 3).join(", ")} ...`, title: "A condition on columns; Enter applies it" });
    const completions = h("datalist", { id: "wp-completions" });
    const head = h("tr");
    const body = h("tbody");
    let address = null;
    const host = new TableHost(data, draw);
    function draw() {
      line.value = host.state.where;
      line.setAttribute("aria-invalid", "false");
      count.textContent = `${number(host.rows.length)} of ${number(data.texts.length)} rows`;
      const by = host.state.sort.replace(/^-/, "");
      const focus = document.activeElement?.dataset?.name;
      head.replaceChildren(...data.columns.map(({ name, label, tooltip, kind: type }) => {
        const on = by === name;
        const down = on && host.state.sort.startsWith("-");
        return h("th", { scope: "col", class: type === "numbers" ? "wp-right" : null, "aria-sort": on ? (down ? "descending" : "ascending") : null },
          h("button", { type: "button", "data-name": name, title: [name, tooltip].filter(Boolean).join(": "), onclick: () => change({ sort: on ? (down ? "" : `-${name}`) : name }) }, label, on && h("span", { "aria-hidden": "true" }, down ? " \u25bc" : " \u25b2")));
      }));
      body.replaceChildren(...host.rows.map((row) => h("tr", {}, ...data.texts[row].map((text, i) => h("td", { class: data.columns[i].kind === "numbers" ? "wp-right" : null, dir: "auto" }, text)))));
      if (focus) head.querySelector(`[data-name="${CSS.escape(focus)}"]`)?.focus();
      address?.write();
    }
    function change(changes) {
      try {
        publishedPage.complain("");
        host.restore({ ...host.state, ...changes });
      } catch (error) {
        line.setAttribute("aria-invalid", "true");
        publishedPage.complain(error.message);
      }
    }
    line.addEventListener("change", () => change({ where: line.value }));
    line.addEventListener("input", () => {
      const cursor = line.selectionStart;
      const start_ = language.wordStart(line.value, cursor);
      fill(completions, ...language.suggest(line.value, cursor, host.table).map((word) => h("option", { value: `${line.value.slice(0, start_)}${word} ` })));
    });
    root.append(h("div", { class: "wp-bar" }, h("label", {}, "Filter ", line), completions, count,
      h("button", { class: "wp-button", type: "button", onclick: () => change({ where: "", sort: "" }) }, "Clear")),
    h("div", { class: "wp-scroll", tabindex: 0, role: "region", "aria-label": "Table" }, h("table", { class: "wp-table" }, h("thead", {}, head), body)));
    address = publishedPage.followAddress(host, []);
    if (location.hash.length > 1) address.restore();
    else draw();
    publishedPage.linkButton();
    root.dataset.ready = "true";
  }
  return { start };
})();
