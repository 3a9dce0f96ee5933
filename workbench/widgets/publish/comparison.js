/* The kernel's side of wb.compare, for pages without a kernel; it follows widgets/compare/selection.py and view.py.
   What is resampled was computed when the page was made; of listed items the page has accuracies and McNemar's test. */

const publishedComparison = (() => {
  const language = filterLanguage;
  const { Listing, ListHost, snippet, numberText, fail } = publishedLists;
  const MINUS_SIGN = "\u2212";
  const EN_DASH = "\u2013";
  const SORTS = ["", "disagreement", "difference", "all wrong", "only one right", "all right"];
  const RIGHT = { "only first": [true, false], "only second": [false, true], "both right": [true, true], "both wrong": [false, false] };
  const TOPS = [0.02, 0.05, 0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.8, 1.0];
  const MOST_POINTS = 2000;
  const SQUARES = 40;

  // ---- numbers as render/numbers.py writes them
  function fixed(value, digits, sign = false) {
    if (Number.isNaN(value)) return "-";
    const text = Math.abs(value).toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
    if (!/[1-9]/.test(text)) return text;
    return `${value < 0 ? MINUS_SIGN : sign ? "+" : ""}${text}`;
  }
  const share = (value) => fixed(100 * value, 1);
  const percent = (value) => `${share(value)} %`;
  const points = (value) => fixed(100 * value, 1, true);
  const pValue = (p) => (p < 0.0001 ? "< 0.0001" : String(Number(p.toPrecision(2))));
  /** Wilson's interval of a share of n; `z` is the normal quantile of the level. */
  function wilson(count, n, z) {
    const proportion = count / n;
    const centre = (proportion + (z * z) / (2 * n)) / (1 + (z * z) / n);
    const half = (z / (1 + (z * z) / n)) * Math.sqrt((proportion * (1 - proportion)) / n + (z * z) / (4 * n * n));
    const clip = (value) => Math.min(1, Math.max(0, value));
    return [count === 0 ? 0 : clip(centre - half), count === n ? 1 : clip(centre + half)];
  }
  /** The p of McNemar's exact test, two-sided. */
  function mcnemar(onlyA, onlyB) {
    const n = onlyA + onlyB;
    let log = -n * Math.LN2; // of the probability of k of n
    let sum = Math.exp(log);
    for (let k = 1; k <= Math.min(onlyA, onlyB); k += 1) {
      log += Math.log((n - k + 1) / k);
      sum += Math.exp(log);
    }
    return Math.min(1, 2 * sum);
  }

  class ComparedListing extends Listing {
    constructor(data) {
      super(data);
      this.cut = null;
    }
    get models() { return this.data.models; }
    get correct() { this.rights ??= this.models.map(({ label }) => this.table[`${label}: correct`].data); return this.rights; }
    get logProb() { this.scores ??= this.models.map(({ label }) => this.table[`${label}: log_prob`].data.map((value) => value ?? NaN)); return this.scores; }
    share(k, row) { return this.data.shares[k]?.[row] ?? Number(this.correct[k][row]); }
    modelIndex(label) {
      const k = this.models.findIndex((model) => model.label === label);
      return k >= 0 ? k : fail(`there is no model '${label}'; there are ${this.models.map((model) => model.label).join(", ")}`);
    }
    checkSort(sort) {
      if (!SORTS.includes(sort)) fail(`there is no order '${sort}'; there are ${SORTS.slice(1).join(", ")}`);
    }
    checked(state) {
      const checked = super.checked(state);
      for (const label of checked.hidden) this.modelIndex(label);
      for (const name of ["attention", "baseline"]) if (checked[name]) this.modelIndex(checked[name]);
      if (checked.pair?.length) {
        if (checked.pair.length !== 2 || checked.pair[0] === checked.pair[1]) fail("the pair is not one of two different models");
        checked.pair.forEach((label) => this.modelIndex(label));
      } else checked.pair = null;
      if (checked.column && !this.data.slices.includes(checked.column)) fail(`there is no column '${checked.column}' to slice by; there are ${this.data.slices.join(", ")}`);
      checked.column ||= this.data.empty.column;
      checked.hidden = this.models.map(({ label }) => label).filter((label) => checked.hidden.includes(label));
      return checked;
    }

    // -- the cell of two models
    outcome(state = this.state) {
      const chosen = new Map();
      for (const clause of this.clauses(state.where)) {
        const names = language.columnsOf(clause);
        const k = names.length === 1 ? this.models.findIndex(({ label }) => `${label}: correct` === names[0]) : -1;
        if (k < 0) continue;
        const mask = this.clause(clause);
        const right = mask.every((on, row) => on === this.correct[k][row]);
        if (!right && !mask.every((on, row) => on !== this.correct[k][row])) return null;
        chosen.set(k, [...(chosen.get(k) ?? []), right]);
      }
      const entries = [...chosen];
      if (entries.length !== 2 || entries.some(([, rights]) => rights.length !== 1)) return null;
      const rights = entries.map(([, [right]]) => right);
      return [...entries.map(([k]) => k), Object.keys(RIGHT).find((name) => RIGHT[name].join() === rights.join())];
    }
    withOutcome(where, outcome) {
      let query = null;
      if (outcome) {
        const [a, b, name] = outcome;
        if (!Object.hasOwn(RIGHT, name)) fail(`there is no outcome '${name}'`);
        query = language.allOf([a, b].map((label, i) => {
          const right = language.query("is true", `${this.models[this.modelIndex(label)].label}: correct`);
          return RIGHT[name][i] ? right : language.invert(right);
        }));
      }
      return this.replaced(where, this.models.map(({ label }) => `${label}: correct`), query);
    }
    cellColumns() {
      const cell = this.outcome();
      return cell ? cell.slice(0, 2).map((k) => `${this.models[k].label}: correct`) : [];
    }
    group(clause) {
      const names = language.columnsOf(clause);
      const cell = this.cellColumns();
      return names.length === 1 && cell.includes(names[0]) ? cell : names;
    }
    phrase(names, query) {
      return names.length && names.join("\0") === this.cellColumns().join("\0") ? this.cellText() : super.phrase(names, query);
    }
    cellText() {
      const cell = this.outcome();
      if (!cell) return "";
      const [a, b] = cell.map((k) => this.models[k]?.label);
      return { "only first": `${a} right, ${b} wrong`, "only second": `${a} wrong, ${b} right`, "both right": `${a} and ${b} both right`, "both wrong": `${a} and ${b} both wrong` }[cell[2]];
    }

    // -- the models
    visibleModels(state = this.state) {
      const all = this.models.map((_, k) => k);
      const visible = all.filter((k) => !state.hidden.includes(this.models[k].label));
      return visible.length ? visible : all;
    }
    chosenPair(state = this.state) { return state.pair?.map((label) => this.modelIndex(label)) ?? null; }
    cellPair(state = this.state) { return this.outcome(state)?.slice(0, 2) ?? null; }
    two() { return this.cellPair() ?? this.chosenPair() ?? this.data.best; }
    scattered() { return this.cellPair() ?? this.chosenPair() ?? this.data.best_probable; }
    subtracted(state = this.state) { return this.chosenPair(state) ?? this.cellPair(state) ?? this.data.best_probable; }

    // -- the order of the list
    nRight(row, state = this.state) { return this.visibleModels(state).reduce((sum, k) => sum + Number(this.correct[k][row]), 0); }
    counts() {
      const n = this.visibleModels().length;
      const right = this.rows.map((row) => this.nRight(row));
      const count = (value) => right.filter((each) => each === value).length;
      return { "all wrong": count(0), "only one right": count(1), "all right": count(n) };
    }
    order(state) {
      const rows = Array.from({ length: this.n }, (_, row) => row);
      const pair = this.subtracted(state);
      const n = this.visibleModels(state).length;
      const weigh = {
        difference: pair && ((row) => this.logProb[pair[1]][row] - this.logProb[pair[0]][row]), disagreement: (row) => -this.nRight(row, state) * (n - this.nRight(row, state)),
        "all wrong": (row) => this.nRight(row, state), "only one right": (row) => this.nRight(row, state) || Infinity, "all right": (row) => -this.nRight(row, state),
      }[state.sort];
      if (!weigh) return rows;
      const weights = rows.map(weigh);
      const last = (row) => Number(Number.isNaN(weights[row]));
      return rows.sort((a, b) => last(a) - last(b) || (weights[a] < weights[b] ? -1 : weights[a] > weights[b] ? 1 : 0));
    }
  }

  /** Host of a comparison page. */
  class ComparisonHost extends ListHost {
    makeListing(data) { return new ComparedListing(data); }
    answer(message) {
      const answers = {
        open: () => { this.send(this.data.overview); super.answer(message); }, scatter: () => this.send(this.scatter()), measure: () => this.send({ type: "note", text: "" }),
        pick: () => { this.send({ type: "picked" }); this.listing.apply({ ...this.state, current: this.data.items[message.row].id }); this.sendPassage(); },
      };
      (answers[message.type] ?? (() => super.answer(message)))();
    }
    query(message) {
      const state = { ...message.state };
      if ("outcome" in message || Object.keys(message.choose ?? {}).length || ["where", "query", "sort"].some((name) => name in state)) state.current ??= "";
      super.query({ ...message, state });
    }
    chosenWhere(where, message) {
      return super.chosenWhere("outcome" in message ? this.listing.withOutcome(where, message.outcome) : where, message);
    }
    view() {
      const { listing, data } = this;
      const { column } = listing.state;
      const { keys, excluded, span } = column ? listing.chosen(column) : {};
      return {
        ...super.view(), shown: listing.visibleModels(), subtracted: listing.subtracted(), counts: listing.counts(), cell: listing.outcome(), cell_text: listing.cellText(),
        selected: this.selected(), slices: this.slices(), baseline: data.baselines[listing.state.baseline] ?? null, columns: data.columns_to_slice,
        facets: { [column]: column ? { keys, excluded, range: span } : {} },
      };
    }
    accuracies(rows) {
      const { listing, data } = this;
      return listing.models.map((_, k) => {
        if (!rows.length) return [EN_DASH, ""];
        const right = rows.reduce((sum, row) => sum + listing.share(k, row), 0);
        const [low, high] = wilson(right, rows.length, data.z);
        return [percent(right / rows.length), `Wilson interval ${share(low)} to ${percent(high)}`];
      });
    }
    selected() {
      const { listing, data } = this;
      const { rows } = listing;
      const two = listing.two();
      const isAll = rows.length === data.n_compared;
      const chosen = rows.length < data.items.length;
      const cell = listing.outcome();
      const listed = this.accuracies(rows);
      const models = two ?? [0];
      let differences = [null, null];
      if (two) {
        const [a, b] = two;
        const cached = data.overview.pairs[a][b];
        const numbers = [cached.difference, cached.p, cached.test, cached.mde];
        differences = [numbers, isAll ? numbers : this.difference(a, b, rows, Boolean(cell), cached.test)];
      }
      const row = (name, n, values, remark, i) => ({ name, n, shares: models.map((k) => values[k]), remark, difference: differences[i] });
      return {
        two, whole: isAll, n: rows.length, rows: [row("all", data.n_compared, data.accuracies, "", 0), row("selected", rows.length, isAll ? data.accuracies : listed, chosen ? (cell ? "by outcome" : "exploratory") : "", 1)],
        accuracy: listed.map((pair) => (isAll || !rows.length ? null : pair)), cells: two && this.cellCounts(two),
      };
    }
    difference(a, b, rows, inCell, test) {
      const { listing } = this;
      if (!rows.length) return [EN_DASH, EN_DASH, test, [EN_DASH, ""]];
      const only = (k, other) => rows.filter((row) => listing.correct[k][row] && !listing.correct[other][row]).length;
      const total = (k) => rows.reduce((sum, row) => sum + listing.share(k, row), 0) / rows.length;
      const exact = !inCell && /McNemar/.test(test);
      return [points(total(a) - total(b)), exact ? pValue(mcnemar(only(a, b), only(b, a))) : EN_DASH, test, [EN_DASH, "The workbench computes intervals and MDE of listed items: copy this view."]];
    }
    cellCounts([a, b]) {
      const { listing } = this;
      const mask = listing.mask(listing.outcome() ? listing.cellColumns() : []);
      const counts = { any: 0, "only first": 0, "only second": 0, "both right": 0, "both wrong": 0 };
      mask.forEach((on, row) => {
        if (!on) return;
        counts.any += 1;
        counts[Object.keys(RIGHT).find((name) => RIGHT[name][0] === listing.correct[a][row] && RIGHT[name][1] === listing.correct[b][row])] += 1;
      });
      return counts;
    }
    slices() {
      const { listing, data } = this;
      const { column } = listing.state;
      const mask = listing.mask([column, ...listing.cellColumns()]);
      const visible = listing.visibleModels();
      const n = mask.filter(Boolean).length;
      const groups = (listing.facets.get(column)?.bins ?? []).map((bin) => {
        const rows = listing.clause(bin.query).flatMap((on, row) => (on && mask[row] ? [row] : []));
        return { key: bin.key, label: bin.label, n: rows.length, shares: listing.models.map((_, k) => rows.reduce((sum, row) => sum + listing.share(k, row), 0)) };
      });
      const intervals = groups.map((group) => group.shares.map((right) => (group.n ? [right / group.n, ...wilson(right, group.n, data.z)] : null)));
      const largest = Math.max(0, ...intervals.flat().map((values) => values?.[2] ?? 0));
      const top = TOPS.find((end) => end >= Math.min(largest, 1));
      const length = (value) => Math.round(1e4 * Math.min(1, value / top)) / 1e4;
      return {
        groups: groups.map(({ key, label, n: size }, i) => ({
          key, label, n: size, bars: visible.map((k) => intervals[i][k] && [...intervals[i][k].map(length), percent(intervals[i][k][0]), `[${share(intervals[i][k][1])}, ${share(intervals[i][k][2])}]`]),
        })),
        ticks: [0, 0.5, 1].map((fraction) => `${numberText(Number((100 * top * fraction).toPrecision(3)))} %`), n,
      };
    }
    scatter() {
      const { listing } = this;
      const two = listing.scattered();
      const labels = two?.map((k) => `${listing.models[k].label}: log_prob`) ?? [];
      const base = { type: "scatter", names: labels, two, brush: [] };
      if (!two) return { ...base, n: 0 };
      const mask = listing.mask([...labels, ...listing.cellColumns()]);
      const [first, second] = two.map((k) => listing.logProb[k]);
      const all = mask.flatMap((on, row) => (on ? [row] : []));
      const rows = all.filter((row) => Number.isFinite(first[row]) && Number.isFinite(second[row]));
      const low = rows.reduce((least, row) => Math.min(least, Math.floor(Math.min(first[row], second[row]))), -1);
      const spans = labels.map((name) => listing.chosen(name).span);
      const brush = spans.filter(Boolean).flatMap((span) => span.map((end) => Math.min(0, Math.max(end, low))));
      const head = { ...base, n: rows.length, left_out: all.length - rows.length, low, cut: SQUARES, ticks: [low, low / 2, 0].map((value) => numberText(value).replace("-", MINUS_SIGN)), brush };
      if (rows.length <= MOST_POINTS) return { ...head, points: rows.map((row) => [first[row], second[row], Number(listing.correct[two[0]][row]) + 2 * Number(listing.correct[two[1]][row]), row]) };
      const squares = new Map();
      const square = (value) => Math.min(SQUARES - 1, Math.floor((SQUARES * (value - low)) / -low));
      for (const row of rows) {
        const key = square(first[row]) * SQUARES + square(second[row]);
        squares.set(key, (squares.get(key) ?? 0) + 1);
      }
      return { ...head, bins: [...squares].map(([key, count]) => [Math.floor(key / SQUARES), key % SQUARES, count]) };
    }
    row(row) {
      const { listing, data } = this;
      const item = data.items[row];
      const hits = listing.hits(row);
      let text = snippet(listing.readable(row), hits[0]);
      if (!hits.length) {
        const [before, after] = text[0].split("▁▁▁");
        text = [before, item.answer || "?", after ?? ""];
      }
      return { id: item.id, text, hit: hits.length > 0, marks: listing.visibleModels().map((k) => [listing.correct[k][row], ...item.marks[k]]) };
    }
    passage(row) {
      const { listing, data } = this;
      const item = data.items[row];
      const cell = listing.outcome();
      const visible = listing.visibleModels();
      const first = cell ? cell.slice(0, 2).filter((k) => visible.includes(k)) : [];
      const order = [...first, ...visible.filter((k) => !first.includes(k))];
      return {
        id: item.id, kind: item.kind, answer: item.answer, candidates: item.candidates, facts: item.facts, attention: (item.attention ?? []).filter((label) => order.includes(listing.modelIndex(label))),
        shadings: data.shadings, ...this.answers(order.map((k) => item.models[k])), ...this.pieces(row),
      };
    }
    /** Best words of some models, with bars on a common scale. */
    answers(models) {
      const bars = models.flatMap(({ scores, words }) => (scores ? [] : words));
      const longest = bars.reduce((a, b) => (a && a[1] >= b[1] ? a : b), null);
      if (!longest?.[1]) return { models, scale: "" };
      const scaled = (lines) => lines.map(([word, length, ...further]) => [word, Math.min(1, length / longest[1]), ...further]);
      return { scale: `0${EN_DASH}${longest[4]}`, models: models.map((model) => (model.scores ? { ...model, last: scaled(model.last) } : { ...model, words: scaled(model.words), last: scaled(model.last) })) };
    }
  }
  return { ComparisonHost, wilson, mcnemar, fixed };
})();
