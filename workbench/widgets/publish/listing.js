/* The kernel's side of browser and explorer, for pages without a kernel: the same messages, answered from data in the page.
   It follows widgets/shared/listing.py, list_widget.py, search.py and browser/browser.py. */

const publishedLists = (() => {
  const language = filterLanguage;
  const FIELDS = ["passage", "sentence", "answer"];
  const NULL = "null";
  const LIMIT = 200; // values of a facet that are drawn
  const FIRST_ROWS = 28;
  const SNIPPET = 160;
  const BEFORE_HIT = 40;
  const BLANK = "▁▁▁";
  const TELLING = ["answer", "target_lemma"]; // columns that would give a hidden target away
  const fail = (text) => { throw new language.FilterError(text); };

  // ---- numbers and cells as Python writes them
  /** A number as `%.4g` writes it. */
  function general(value, digits = 4) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value < 0 ? "-inf" : "inf";
    const [mantissa, power] = value.toExponential(digits - 1).split("e").map((text) => text);
    const exponent = Number(power);
    const strip = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (exponent < -4 || exponent >= digits) return `${strip(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
    return strip(value.toFixed(Math.max(0, digits - 1 - exponent)));
  }
  function cellText(value, isWhole) {
    if (value === null || value === undefined) return "";
    if (Array.isArray(value)) return value.map((each) => cellText(each, isWhole)).join(", ");
    if (typeof value === "boolean") return value ? "yes" : "no";
    return typeof value === "number" ? (isWhole ? String(value) : general(value)) : value;
  }
  /** A number as a page writes it; null for one that is infinite. */
  const finite = (value) => (Number.isFinite(value) ? Number(value.toPrecision(12)) : null);
  const numberText = (value) => cellText(value, Number.isInteger(value));
  function spanText(low, high, unit) {
    const ends = [low, high].map((end) => numberText(finite(end)));
    const below = ![high, null].includes(finite(high));
    let text;
    if (low === high) text = ends[0];
    else if (Number.isFinite(low) && Number.isFinite(high)) text = `${ends[0]} to ${below ? "below " : ""}${ends[1]}`;
    else if (Number.isFinite(low)) text = `${ends[0]} or more`;
    else text = Number.isFinite(high) ? `${below ? "below" : "at most"} ${ends[1]}` : "any number of";
    return `${text} ${unit}`.trimEnd();
  }
  /** A value as Python writes it. */
  function literalOf(value) {
    if (value === null) return "None";
    if (typeof value === "boolean") return value ? "True" : "False";
    if (Array.isArray(value)) return `[${value.map(quoted).join(", ")}]`;
    return JSON.stringify(value);
  }
  /** A text in a list as Python writes it. */
  function quoted(text) {
    const sign = text.includes("'") && !text.includes("\"") ? "\"" : "'";
    const escaped = text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t");
    return sign + (sign === "'" ? escaped.replaceAll("'", "\\'") : escaped) + sign;
  }

  // ---- data as the page holds it
  const number_ = language.number;
  /** A filter of a bin; infinite numbers are text in it. */
  const queryFrom = (query, type) => ({ ...query, operands: type === "numbers" ? query.operands.map(number_) : query.operands, parts: query.parts.map((clause) => queryFrom(clause, type)) });

  // ---- the text of an item
  const joinedText = (pieces) => pieces.map(([text]) => text).join("");
  /** Readable text of an item, start of its target sentence, and span of its blank. */
  function readableText({ context, query }) {
    const before = joinedText(context);
    const gap = before && !before.endsWith("\n") ? " " : "";
    const start = before.length + gap.length;
    let offset = start;
    let blank = null;
    for (const [text, letters] of query) {
      if (letters.includes("b")) blank = [offset, offset + text.length];
      offset += text.length;
    }
    return { text: before + gap + joinedText(query), start, blank: blank ?? [offset, offset] };
  }
  /** Cut pieces at search hits and mark these; the blank stays as it is. `shades` has a value a piece. */
  function markHits(pieces, shades, hits, offset) {
    const runs = [];
    const cutShades = [];
    let position = offset;
    pieces.forEach(([text, letters], i) => {
      const end = position + text.length;
      const inside = letters.includes("b") ? [] : hits.flat().filter((edge) => edge > position && edge < end);
      const edges = [position, ...new Set(inside), end];
      for (let k = 0; k + 1 < edges.length; k += 1) {
        const [from, to] = [edges[k], edges[k + 1]];
        const hit = !letters.includes("b") && hits.some(([a, b]) => a <= from && to <= b);
        runs.push([text.slice(from - position, to - position), hit ? [...letters, "h"].sort().join("") : letters]);
        cutShades.push(shades?.[i] ?? null);
      }
      position = end;
    });
    return [runs, shades && cutShades];
  }
  const oneLine = (text) => text.replaceAll("\n", " ");
  /** Text of a list row: before, inside and after the first hit, or the end of the target sentence. */
  function snippet({ text, start, blank }, hit) {
    if (!hit) {
      let before = text.slice(start, blank[0]);
      if (before.length > SNIPPET / 2) {
        const tail = before.slice(-SNIPPET / 2);
        before = `…${tail.includes(" ") ? tail.slice(tail.indexOf(" ") + 1) : ""}`;
      }
      return [oneLine(`${before}${BLANK}${text.slice(blank[1]).slice(0, SNIPPET)}`), "", ""];
    }
    const readable = `${text.slice(0, blank[0])}${BLANK}${text.slice(blank[1])}`;
    const longer = BLANK.length - (blank[1] - blank[0]);
    const from = hit[0] >= blank[1] ? hit[0] + longer : Math.min(hit[0], blank[0]);
    const to = Math.max(from, hit[1] <= blank[0] ? hit[1] : Math.max(hit[1], blank[1]) + longer);
    const first = Math.max(0, from - BEFORE_HIT);
    return [oneLine(`${first ? "…" : ""}${readable.slice(first, from)}`), oneLine(readable.slice(from, to)), oneLine(readable.slice(to, to + SNIPPET))];
  }

  /** Items under a state: which are listed, in which order, and what the choices of columns are. */
  class Listing {
    constructor(data) {
      this.data = data;
      this.n = data.items.length;
      this.table = language.columnsFrom(data.columns);
      this.facets = new Map(data.facets.map((facet) => [facet.name, { ...facet, bins: facet.bins.map((bin) => ({ ...bin, low: number_(bin.low), high: number_(bin.high), query: queryFrom(bin.query, facet.kind) })) }]));
      this.masks = new Map();
      this.texts = new Map();
      this.places = new Map(data.items.map(({ id }, row) => [id, row]));
      this.version = 0;
      this.state = { ...data.empty };
      this.rows = [];
      this.apply(data.empty);
    }
    readable(row) {
      if (!this.texts.has(row)) this.texts.set(row, readableText(this.data.items[row].variants[""]));
      return this.texts.get(row);
    }

    // -- the state
    checked(state) {
      const checked = { ...this.data.empty, ...state };
      for (const name of Object.keys(checked)) if (!Object.hasOwn(this.data.empty, name)) fail(`this view has no setting '${name}'`);
      if (!FIELDS.includes(checked.field)) fail(`there is no field '${checked.field}'; there are ${FIELDS.join(", ")}`);
      for (const name of ["where", "query", "sort", "current"]) checked[name] = String(checked[name] ?? "");
      checked.where = checked.where.trim();
      checked.regex = Boolean(checked.regex);
      this.checkSort(checked.sort);
      if (checked.shade && !this.data.shadings.includes(checked.shade)) fail(`there is no '${checked.shade}' to shade by`);
      return checked;
    }
    checkSort(sort) {
      const column = sort.replace(/^-/, "");
      if (column && !this.data.sortable.includes(column)) fail(`there is no column '${column}' to sort by; there are ${this.data.sortable.join(", ")}`);
    }
    /** Put a state in place of the one before; an error changes nothing. The current item stays while it is listed. */
    apply(state) {
      const checked = this.checked(state);
      const before = this.state;
      const moved = !this.version || Object.keys(checked).some((name) => name !== "current" && JSON.stringify(checked[name]) !== JSON.stringify(before[name]));
      let rows = this.rows;
      if (moved) {
        const mask = this.passing(checked);
        rows = this.order(checked).filter((row) => mask[row]);
      }
      const index = new Map(rows.map((row, i) => [row, i]));
      const listed = index.has(this.places.get(checked.current));
      if (checked.current && !listed && checked.current !== before.current) fail(`the item '${checked.current}' is not among those shown; loosen the filters`);
      if (!listed) checked.current = rows.length ? this.data.items[rows[0]].id : "";
      if (moved) this.version += 1;
      Object.assign(this, { rows, positions: index, state: checked });
      return checked;
    }
    index(id) { return this.positions.get(this.places.get(id)) ?? -1; }

    // -- what passes
    mask(but = []) { return this.passing(this.state, but); }
    passing(state, but = []) {
      let mask = this.searched(state);
      for (const clause of this.clauses(state.where)) {
        if (language.columnsOf(clause).every((name) => but.includes(name))) continue;
        const other = this.clause(clause);
        mask = mask.map((on, row) => on && other[row]);
      }
      return mask;
    }
    clauses(where) { return where.trim() ? language.clausesOf(language.parse(where)) : []; }
    clause(query) {
      const text = language.text(query);
      if (this.masks.size > 2000) this.masks.clear();
      if (!this.masks.has(text)) this.masks.set(text, language.mask(query, this.table, this.n));
      return this.masks.get(text);
    }
    /** Regular expression of the search, or null. */
    expression({ query, regex }) {
      const words = query.trim();
      if (!words) return null;
      if (!regex) return language.literal(words, "giu");
      try {
        return new RegExp(words, "giu");
      } catch (error) {
        return fail(`Invalid regular expression: ${error.message.split(": ").at(-1)}`);
      }
    }
    searched(state) {
      const expression = this.expression(state);
      if (!expression) return Array(this.n).fill(true);
      const key = JSON.stringify([state.query.trim(), state.field, state.regex]);
      if (this.lastSearch?.key === key) return this.lastSearch.mask;
      const once = new RegExp(expression.source, "iu");
      const ids = state.query.includes("/") && !state.regex;
      const mask = this.data.items.map((item, row) => {
        const { text, start } = this.readable(row);
        const field = { passage: text, sentence: text.slice(start), answer: item.answer ?? "" }[state.field];
        return once.test(field) || (ids && item.id.includes(state.query.trim()));
      });
      this.lastSearch = { key, mask };
      return mask;
    }
    hits(row, state = this.state) {
      const expression = this.expression(state);
      if (!expression || state.field === "answer") return [];
      const { text, start } = this.readable(row);
      const offset = state.field === "sentence" ? start : 0;
      return [...text.slice(offset).matchAll(expression)].filter(([hit]) => hit).map((match) => [match.index + offset, match.index + offset + match[0].length]);
    }
    order({ sort }) { return language.sortRows([...Array(this.n).keys()], this.table, sort); }

    // -- the choices of columns
    replaced(where, columns, query) {
      const clauses = this.clauses(where);
      const isOwn = (clause) => language.columnsOf(clause).every((name) => columns.includes(name));
      const first = clauses.findIndex(isOwn);
      if (!query && first < 0) return where;
      const index = first < 0 ? clauses.length : first;
      const merged = [...clauses.slice(0, index).filter((clause) => !isOwn(clause)), ...(query ? [query] : []), ...clauses.slice(index).filter((clause) => !isOwn(clause))];
      return merged.length ? language.text(language.allOf(merged)) : "";
    }
    choose(where, choices) {
      for (const [name, choice] of Object.entries(choices)) {
        const facet = this.facets.get(name) ?? fail(`there is no column '${name}' to filter by`);
        where = this.replaced(where, [name], this.choice(facet, choice));
      }
      return where;
    }
    choice(facet, choice) {
      if (!choice) return null;
      let query;
      if (choice.range) {
        const [low, high = null] = choice.range;
        query = choice.range.length === 1 ? language.query("is missing", facet.name) : language.between(facet.name, low ?? -Infinity, high ?? Infinity);
      } else query = this.binsQuery(facet, choice.keys ?? []);
      return query && choice.exclude ? language.invert(query) : query;
    }
    /** The filter for the rows of some bins, adjoining ranges as one. */
    binsQuery(facet, keys) {
      const valid = new Set(facet.bins.map(({ key }) => key));
      for (const key of keys) if (!valid.has(key)) fail(`the column '${facet.name}' has no bin '${key}'`);
      const chosen = facet.bins.filter(({ key }) => keys.includes(key));
      const isRange = ({ key }) => key.startsWith("from:");
      const values = chosen.filter((bin) => bin.query.op === "=" && !isRange(bin)).map((bin) => bin.query.operands[0]);
      const queries = values.length ? [language.oneOf(facet.name, values)] : [];
      const ranges = facet.bins.filter((bin) => bin.low !== null);
      let run = null;
      const close = () => { if (run) queries.push(rangeQuery(facet, run.low, run.high)); run = null; };
      for (const bin of ranges) {
        if (!(keys.includes(bin.key) && isRange(bin))) close();
        else run = run ? { low: run.low, high: bin.high } : { low: bin.low, high: bin.high };
      }
      close();
      queries.push(...chosen.filter((bin) => !isRange(bin) && bin.query.op !== "=").map((bin) => bin.query));
      return queries.length ? language.anyOf(queries) : null;
    }
    /** The bins that a column's clause lists, whether it excludes them, and its range. */
    chosen(name) {
      const query = this.ownClause(name);
      if (!query) return { keys: [], excluded: false, span: null };
      const excluded = query.op === "not";
      const inner = excluded ? query.parts[0] : query;
      let span = inner.op === "is missing" ? null : language.intervalOf(inner);
      if (span && this.facets.get(name).integers) span = [Math.ceil(span[0]), Math.floor(span[1])];
      return { keys: this.chosenKeys(this.facets.get(name), inner), excluded, span };
    }
    ownClause(name) {
      const clauses = this.clauses(this.state.where).filter((clause) => language.columnsOf(clause).every((each) => each === name));
      return clauses.length ? language.allOf(clauses) : null;
    }
    chosenKeys(facet, query) {
      const alternatives = language.alternativesOf(query);
      const texts = new Set(alternatives.map(language.text));
      if (facet.kind === "labels") return facet.bins.filter((bin) => texts.has(language.text(bin.query))).map(({ key }) => key);
      const present = alternatives.filter((clause) => clause.op !== "is missing");
      const spans = present.map(language.intervalOf);
      if (facet.kind !== "numbers" || spans.includes(null)) {
        const mask = this.clause(query);
        return facet.bins.filter((bin) => this.clause(bin.query).some((on, row) => on && mask[row])).map(({ key }) => key);
      }
      const listed = facet.bins.filter((bin) => bin.low !== null && spans.some(([low, high]) => low <= bin.high && bin.low <= high));
      return [...listed.map(({ key }) => key), ...(present.length < alternatives.length ? facet.bins.filter(({ key }) => key === NULL).map(({ key }) => key) : [])];
    }
    countBin(bin, mask) { return this.clause(bin.query).reduce((sum, on, row) => sum + (on && mask[row] ? 1 : 0), 0); }
    describe(name) {
      const facet = this.facets.get(name);
      const { keys, excluded, span } = this.chosen(name);
      const clause = this.ownClause(name);
      const mask = this.mask(clause ? [name] : []);
      const rows = facet.bins.flatMap((bin, index) => {
        bin.total ??= this.clause(bin.query).filter(Boolean).length;
        return index < LIMIT || keys.includes(bin.key) || bin.key === NULL ? [[bin.key, bin.label, bin.total, this.countBin(bin, mask)]] : [];
      });
      const ranges = facet.bins.filter((bin) => bin.low !== null);
      return {
        label: facet.label, unit: facet.unit, tooltip: facet.tooltip, kind: ranges.length ? "numbers" : "choice",
        bins: rows.filter(([key]) => key !== NULL), more: facet.bins.length - rows.length, null: rows.find(([key]) => key === NULL) ?? null,
        keys, excluded, text: clause ? this.phrase([name], clause) : null,
        ...(ranges.length ? { starts: ranges.map(({ low }) => finite(low)), ends: ranges.map(({ high }) => finite(high)), range: span ? span.map(finite) : null } : {}),
      };
    }
    /** Each search and choice in words, with the change of the state that removes it. */
    words() {
      const { state } = this;
      const terms = [];
      const words = state.query.trim();
      if (words) terms.push([`${state.field} ${state.regex ? "matches the expression" : "contains"} “${words}”`, { query: "" }]);
      const groups = new Map();
      const all = this.clauses(state.where).map((clause) => [JSON.stringify(this.group(clause)), clause]);
      for (const [key, clause] of all) groups.set(key, [...(groups.get(key) ?? []), clause]);
      for (const [key, clauses] of groups) {
        const others = all.filter(([other]) => other !== key).map(([, clause]) => clause);
        terms.push([this.phrase(JSON.parse(key), language.allOf(clauses)), { where: others.length ? language.text(language.allOf(others)) : "" }]);
      }
      return terms;
    }
    group(clause) { return language.columnsOf(clause); }
    phrase(names, query) {
      const facet = this.facets.get(names[0]);
      if (names.length > 1 || !facet) return language.text(query);
      const { keys, excluded, span } = this.chosen(names[0]);
      const inner = excluded ? query.parts[0] : query;
      const texts = (each) => [...new Set(language.alternativesOf(each).map(language.text))].sort().join("\0");
      const chosen = this.binsQuery(facet, keys);
      let text;
      if (facet.bins.some((bin) => bin.low !== null) && span && [span[0], null].includes(finite(span[0]))) text = spanText(...span, facet.unit);
      else if (chosen && texts(chosen) === texts(inner)) text = facet.bins.filter(({ key }) => keys.includes(key)).map(({ label }) => label).join(" or ");
      else return language.text(query);
      return `${facet.label}: ${excluded ? `not ${text}` : text}`;
    }
  }
  function rangeQuery(facet, low, high) {
    if (facet.integers || !Number.isFinite(high)) return language.between(facet.name, low, high);
    const below = language.query("<", facet.name, [language.nextAfter(high, Infinity)]);
    return Number.isFinite(low) ? language.allOf([language.between(facet.name, low, Infinity), below]) : below;
  }

  /** Host of a page that lists items: it answers messages through `send`. */
  class ListHost {
    constructor(data, send) {
      Object.assign(this, { data, send, listing: this.makeListing(data) });
      this.initial = this.listing.apply({ ...data.state });
    }
    makeListing(data) { return new Listing(data); }
    get state() { return this.listing.state; }
    isFirst(id) { return this.listing.index(id) <= 0; }
    /** Put a state in place of the one before, and show it. */
    restore(state) {
      this.listing.apply(state);
      this.sendView();
    }
    answer(message) {
      const answers = {
        open: () => this.sendView(message.lane), query: () => this.query(message), suggest: () => this.suggest(message),
        rows: () => this.sendRows(message), show: () => this.show(message),
      };
      (answers[message.type] ?? (() => fail("A published page cannot do this; it needs the workbench.")))();
    }
    query(message) {
      const changes = { ...message.state };
      changes.where = this.chosenWhere(String(changes.where ?? this.state.where), message);
      this.listing.apply({ ...this.state, ...changes });
      this.sendView(message.lane);
    }
    chosenWhere(where, { choose = {} }) { return this.listing.choose(where, choose); }
    suggest({ text, cursor }) {
      this.send({ type: "suggestions", lane: "suggest", text, start: language.wordStart(text, cursor), choices: language.suggest(text, cursor, this.listing.table) });
    }
    sendRows({ start, end, version }) {
      const from = Math.max(0, start);
      this.send({ type: "rows", version: this.listing.version, start: from, rows: version === this.listing.version ? this.rows(from, end) : [] });
    }
    show({ index, version }) {
      const { listing } = this;
      if (version !== listing.version || !(index >= 0 && index < listing.rows.length)) return this.send({ type: "passage", version: -1, index, passage: null });
      listing.apply({ ...listing.state, current: this.data.items[listing.rows[index]].id });
      return this.sendPassage();
    }
    sendPassage() {
      const index = this.listing.index(this.state.current);
      this.send({ type: "passage", version: this.listing.version, index, passage: index >= 0 ? this.passage(this.listing.rows[index]) : null });
    }
    sendView(lane = null) { this.send({ ...this.view(), lane }); }
    view() {
      const { listing } = this;
      const index = listing.index(this.state.current);
      const start = Math.max(0, index - FIRST_ROWS / 2);
      return {
        type: "view", version: listing.version, n: listing.rows.length, total: this.data.items.length, state: { ...this.state }, words: listing.words(), code: this.code(),
        index, start, rows: this.rows(start, start + FIRST_ROWS), passage: index >= 0 ? this.passage(listing.rows[index]) : null,
      };
    }
    rows(start, end) { return this.listing.rows.slice(start, Math.max(start, end)).map((row) => this.row(row)); }
    /** The line of Python that builds the view again. */
    code() {
      const state = { ...this.state };
      if (this.listing.index(state.current) <= 0) state.current = "";
      const changed = Object.keys(this.data.empty).filter((name) => JSON.stringify(state[name]) !== JSON.stringify(this.data.empty[name]));
      return `wb.${this.data.verb}(${[...this.data.arguments, ...changed.map((name) => `${name}=${literalOf(state[name])}`)].join(", ")})`;
    }
    /** The passage of an item in pieces, with search hits and shades. */
    pieces(row) {
      const item = this.data.items[row];
      const { attention, shade } = this.state;
      const variant = item.variants[`s${shade}`] ?? item.variants[`a${attention}`] ?? item.variants[""];
      const hits = this.listing.hits(row);
      if (!hits.length) return variant;
      const { start } = this.listing.readable(row);
      const [context, contextShades] = markHits(variant.context, variant.shades?.pieces[0], hits, 0);
      const [query, queryShades] = markHits(variant.query, variant.shades?.pieces[1], hits, start);
      return { context, query, shades: variant.shades && { ...variant.shades, pieces: [contextShades, queryShades] } };
    }
  }

  /** Host of browser and explorer pages. */
  class BrowserHost extends ListHost {
    makeListing(data) { return new BrowserListing(data); }
    view() {
      const { data, listing } = this;
      this.columns = this.shownColumns();
      return {
        ...super.view(), facets: Object.fromEntries([...listing.facets.keys()].map((name) => [name, listing.describe(name)])), labels: [], columns: this.columns,
        names: data.names, titles: data.titles, asks: false, annotating: null, published: true, ...(data.charts ? { charts: data.charts } : {}),
      };
    }
    shownColumns() {
      const { table, sort } = this.state;
      const columns = Array.isArray(table) && table.length ? table : this.data.usual;
      const by = sort.replace(/^-/, "");
      return by && by !== "item_id" && !columns.includes(by) ? [...columns, by] : columns;
    }
    cell(row, name) {
      const cells = this.listing.table[name];
      return cells ? cellText(cells.data[row], cells.whole) : "";
    }
    row(row) {
      const item = this.data.items[row];
      const text = snippet(this.listing.readable(row), this.listing.hits(row)[0]);
      const view = { id: item.id, tags: item.tags ?? [], note: Boolean(item.note) };
      if (this.state.table === false) return { ...view, text };
      return { ...view, cells: (this.columns ?? this.shownColumns()).map((name) => (name === "passage" ? text.join("") : TELLING.includes(name) && !this.state.reveal ? BLANK : this.cell(row, name))) };
    }
    passage(row) {
      const { data } = this;
      const item = data.items[row];
      return {
        id: item.id, source: item.source, kind: item.kind, answer: item.answer, candidates: item.candidates, tags: item.tags ?? [], note: item.note ?? "",
        columns: data.beside.map((name) => [name, this.cell(row, name)]), predictions: item.predictions ?? [], attention: item.attention ?? [], shadings: data.shadings, ...this.pieces(row),
      };
    }
  }
  class BrowserListing extends Listing {
    checked(state) {
      const checked = super.checked(state);
      const { table } = checked;
      if (Array.isArray(table)) for (const name of table) if (!Object.hasOwn(this.data.titles, name)) fail(`there is no column '${name}' to show; there are ${Object.keys(this.data.titles).join(", ")}`);
      return { ...checked, table: Array.isArray(table) && !table.length ? true : table, reveal: Boolean(checked.reveal) };
    }
  }
  return { Listing, ListHost, BrowserHost, snippet, numberText, finite, general, fail };
})();
