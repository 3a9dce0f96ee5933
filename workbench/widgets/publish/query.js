/* The filter language of items/query.py, for pages without a kernel: parse, write, mask, suggest.
   A query is {op, column, operands, parts}, as there. A table maps the name of each column to {kind, missing, data}. */

const filterLanguage = (() => {
  const WORD = "[\\p{L}\\p{N}_]"; // Python's \w
  const NOT_WORD = `(?!${WORD})`;
  const IN_WORD = "[\\p{L}\\p{N}_@.:/'\\-]";
  const RESERVED = `(?!(?:[aA][nN][dD]|[oO][rR]|[nN][oO][tT]|[iI][nN]|[iI][sS]|[mM][iI][sS][sS][iI][nN][gG]|[nN][uU][lL][lL]|[cC][oO][nN][tT][aA][iI][nN][sS]|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE])(?!${IN_WORD}))`;
  const NAME = `${RESERVED}[\\p{L}\\p{Nl}\\p{No}_]${WORD}*(?:\\.${WORD}+)*`;
  const BARE = `${RESERVED}[\\p{L}\\p{N}_@]${IN_WORD}*`;
  const NUMBER = `[+\\-]?(?:\\p{Nd}+(?:\\.\\p{Nd}*)?|\\.\\p{Nd}+)(?:[eE][+\\-]?\\p{Nd}+)?(?!${IN_WORD})`;
  const STRING = "\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'";
  const BACKTICKS = "`(?:[^`]|``)+`";
  const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
  const sticky = (source, flags = "") => new RegExp(source, `uys${flags}`);
  const fullMatch = (source) => new RegExp(`^(?:${source})$`, "us");
  const TOKENS = { // in the order in which they are tried
    number: sticky(NUMBER), truth: sticky(`(?:true|false)(?!${IN_WORD})`, "i"), string: sticky(STRING), bare: sticky(BARE),
    name: sticky(NAME), backticks: sticky(BACKTICKS), and: sticky(`and${NOT_WORD}|&&?`, "i"), or: sticky(`or${NOT_WORD}|\\|\\|?`, "i"),
    not: sticky(`not${NOT_WORD}|!(?!=)`, "i"), in: sticky(`in${NOT_WORD}`, "i"), is: sticky(`is${NOT_WORD}`, "i"), contains: sticky(`contains${NOT_WORD}`, "i"),
    missing: sticky(`(?:missing|null)${NOT_WORD}`, "i"), operator: sticky("==|!=|>=|<=|=|<|>"), open: sticky("\\("), close: sticky("\\)"), comma: sticky(","),
  };
  const PIECE = sticky(`${STRING}|${BACKTICKS}|${SPACE}+|(?<word>[\`"'].*|[\\p{L}\\p{N}_@]${IN_WORD}*)|.`);
  const SPACES = sticky(`${SPACE}*`);
  const BARE_WORD = fullMatch(BARE);
  const NUMBER_WORD = fullMatch(NUMBER);
  const NAME_WORD = fullMatch(NAME);
  const COLUMN = ["name", "backticks"];
  const VALUE = ["number", "truth", "string", "bare"];
  const EXPECTED = { name: "a column", bare: "a value", operator: "an operator such as = or >", and: "'and'", or: "'or'", in: "'in'", is: "'is'", contains: "'contains'", not: "'not'", missing: "'missing'", open: "'('", close: "')'", comma: "a comma", end: "the end" };
  const DEEPEST = 200; // brackets in one filter
  const LISTED = 20; // suggestions
  const EXACT = 2 ** 53; // whole numbers up to this one are exact
  const TRUTH = { true: true, yes: true, false: false, no: false };
  const KINDS = { // what a column is compared with, and the operators
    numbers: ["number", ["=", "!=", ">", ">=", "<", "<=", "in", "not in"]],
    text: ["string", ["=", "!=", "in", "not in", "contains", "not contains"]],
    labels: ["string", ["contains", "not contains", "=", "!=", "in", "not in"]],
    "yes or no": ["boolean", ["=", "!=", "in", "not in"]],
  };

  class FilterError extends Error {}
  class Ended extends Error { // the text ends where one of these tokens was expected
    constructor(accepted) { super(); this.accepted = accepted; }
  }

  // ---- queries
  const query = (op, column = "", operands = [], clauses = []) => ({ op, column, operands, parts: clauses });
  function joined(word, queries) {
    const clauses = queries.flatMap((each) => (each.op === word ? each.parts : [each]));
    return clauses.length > 1 ? query(word, "", [], clauses) : clauses[0];
  }
  const allOf = (queries) => joined("and", queries);
  const anyOf = (queries) => joined("or", queries);
  const invert = (each) => (each.op === "not" ? each.parts[0] : query("not", "", [], [each]));
  function compared(column, sign, values) {
    const single = { "==": "=", in: "=", "not in": "!=" };
    return query(values.length === 1 ? single[sign] ?? sign : sign, column, values);
  }
  const oneOf = (column, values) => compared(column, "in", values);
  function between(column, low, high) {
    if (low === high) return compared(column, "=", [low]);
    const ends = [[">=", low], ["<=", high]].filter(([, end]) => Number.isFinite(end)).map(([sign, end]) => compared(column, sign, [end]));
    return allOf(ends.length ? ends : [invert(query("is missing", column))]);
  }
  const columnsOf = (each) => (each.parts.length ? [...new Set(each.parts.flatMap(columnsOf))] : [each.column]);
  const clausesOf = (each) => (each.op === "and" ? each.parts : [each]);
  function alternativesOf(each) {
    if (each.op === "or") return each.parts.flatMap(alternativesOf);
    if (each.op === "is true") return [query("=", each.column, [true])];
    if (each.op === "in") return each.operands.map((value) => query("=", each.column, [value]));
    return [each];
  }
  function nextAfter(value, towards) {
    if (value === towards) return value;
    if (value === 0) return towards > 0 ? Number.MIN_VALUE : -Number.MIN_VALUE;
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value);
    view.setBigInt64(0, view.getBigInt64(0) + (towards > value === value > 0 ? 1n : -1n));
    return view.getFloat64(0);
  }
  /** The least and the greatest number that pass; null if the filter is not one range of numbers. */
  function intervalOf(each) {
    let [low, high] = [-Infinity, Infinity];
    for (const clause of clausesOf(each)) {
      const present = clause.op === "not" && clause.parts[0].op === "is missing";
      if (!["=", "<", "<=", ">", ">="].includes(clause.op) && !present) return null;
      for (const value of clause.operands) {
        if (typeof value !== "number") return null;
        const beyond = { "<": -Infinity, ">": Infinity }[clause.op];
        const end = beyond === undefined ? value : nextAfter(value, beyond);
        if ("=>=".includes(clause.op)) low = Math.max(low, end);
        if ("=<=".includes(clause.op)) high = Math.min(high, end);
      }
    }
    return [low, high];
  }

  // ---- writing
  /** A number as Python writes it. */
  function writeNumber(value) {
    if (Number.isInteger(value) && Math.abs(value) <= EXACT) return String(value === 0 ? 0 : value);
    const [digits, exponent] = value.toExponential().split("e");
    const power = Number(exponent);
    if (power >= 16 || power < -4) return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
    const text = Number.isInteger(value) ? `${value}.0` : String(value); // above EXACT, so Python keeps the fraction
    return text.includes("e") ? value.toFixed(Math.max(0, -power) + digits.replace(/[-.]/g, "").length - 1) : text;
  }
  function write(value) {
    if (typeof value === "number") return writeNumber(value);
    if (typeof value === "boolean") return String(value);
    return BARE_WORD.test(value) && !NUMBER_WORD.test(value) ? value : `"${value.replace(/(["\\])/g, "\\$1")}"`;
  }
  const writeColumn = (name) => (NAME_WORD.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);
  function text(each) {
    if (each.op === "not" && each.parts[0].op === "is missing") return `${writeColumn(each.parts[0].column)} is not missing`;
    if (each.parts.length) {
      const looser = { and: ["or"], not: ["and", "or"] }[each.op] ?? [];
      const clauses = each.parts.map((clause) => (looser.includes(clause.op) ? `(${text(clause)})` : text(clause)));
      return each.op === "not" ? `not ${clauses[0]}` : clauses.join(` ${each.op} `);
    }
    const name = writeColumn(each.column);
    const values = each.operands.map(write).join(", ");
    return each.op === "is true" ? name : `${name} ${each.op} ${/in$/.test(each.op) ? `(${values})` : values}`.trimEnd();
  }

  // ---- reading
  function unexpected(types, before, found) {
    const words = Object.keys(EXPECTED).filter((type) => types.includes(type)).map((type) => EXPECTED[type]);
    return new FilterError(`the filter, character ${[...before].length + 1}: expected ${words.join(" or ")}, there is ${found ?? "the end"} -- a filter is, for example: target_class = CN and not (n_tokens > 80 or answer = "New York")`);
  }
  function reader(source) {
    let position = 0;
    const last = { column: null };
    const skip = () => { SPACES.lastIndex = position; SPACES.exec(source); position = SPACES.lastIndex; };
    const match = (type) => {
      TOKENS[type].lastIndex = position;
      return TOKENS[type].exec(source)?.[0] ?? null;
    };
    /** The next token, of one of these types. */
    function next(types) {
      skip();
      if (position >= source.length && !types.includes("end")) throw new Ended(types);
      for (const type of types) {
        const token = type === "end" ? (position >= source.length ? "" : null) : match(type);
        if (token === null) continue;
        position += token.length;
        return [type, token];
      }
      return refuse(types);
    }
    function refuse(types) {
      PIECE.lastIndex = position;
      const piece = PIECE.exec(source);
      throw unexpected(types, source.slice(0, position), piece && `'${piece[0]}'`);
    }
    return { next, last, skip };
  }
  function digitValue(char) { // digits of other scripts count, as in Python
    let first = char.codePointAt(0);
    const code = first;
    while (/\p{Nd}/u.test(String.fromCodePoint(first - 1))) first -= 1;
    return String((code - first) % 10);
  }
  function readValue([type, token], plain) {
    if (type === "string") return token.slice(1, -1).replace(/\\([\\"'])/g, "$1");
    if (type === "number" && !plain) {
      const value = Number(token.replace(/\p{Nd}/gu, digitValue));
      return Number.isFinite(value) ? (value === 0 ? 0 : value) : token;
    }
    return type === "truth" && !plain ? TRUTH[token.toLowerCase()] : token;
  }
  const AFTER = ["and", "or", "close", "end"];
  /** Read a filter from a reader; what follows a part is decided by the token after it. */
  function read(input) {
    let token = null; // the one after the part that was read
    const peeked = (depth) => input.next(depth ? ["and", "or", "close"] : ["and", "or", "end"]);
    function either(depth) {
      const clauses = [conjunction(depth)];
      while (token[0] === "or") clauses.push(conjunction(depth));
      return anyOf(clauses);
    }
    function conjunction(depth) {
      const clauses = [single(depth)];
      while (token[0] === "and") clauses.push(single(depth));
      return allOf(clauses);
    }
    function single(depth) {
      let negated = false;
      let first = input.next([...COLUMN, "not", "open"]);
      while (first[0] === "not") {
        negated = !negated;
        first = input.next([...COLUMN, "not", "open"]);
      }
      let result;
      if (first[0] === "open") {
        result = either(depth + 1);
        token = peeked(depth);
      } else result = comparison(first, depth);
      return negated ? invert(result) : result;
    }
    function comparison([type, name], depth) {
      const column = type === "backticks" ? name.slice(1, -1).replaceAll("``", "`") : name;
      input.last.column = column;
      const joints = depth ? ["and", "or", "close"] : ["and", "or", "end"];
      const [sign, written] = input.next(["operator", "in", "is", "contains", "not", ...joints]);
      if (AFTER.includes(sign)) {
        token = [sign, written];
        return query("is true", column);
      }
      const result = condition(column, sign, written);
      token = peeked(depth);
      return result;
    }
    function condition(column, sign, written) {
      if (sign === "operator") return compared(column, written === "==" ? "=" : written, [readValue(input.next(VALUE))]);
      if (sign === "is") {
        const [negation] = input.next(["missing", "not"]);
        if (negation === "not") input.next(["missing"]);
        const result = query("is missing", column);
        return negation === "not" ? invert(result) : result;
      }
      const lacks = sign === "not";
      const word = lacks ? input.next(["in", "contains"])[0] : sign;
      if (word === "contains") return compared(column, lacks ? "not contains" : "contains", [readValue(input.next(VALUE), true)]);
      input.next(["open"]);
      const values = [];
      do values.push(readValue(input.next(VALUE)));
      while (input.next(["comma", "close"])[0] === "comma");
      return compared(column, lacks ? "not in" : "in", values);
    }
    return either(0);
  }
  /** Read a filter; FilterError for an invalid text. */
  function parse(source) {
    if (source.split("(").length - 1 > DEEPEST) throw new FilterError(`the filter has more than ${DEEPEST} brackets`);
    try {
      return read(reader(source));
    } catch (error) {
      throw error instanceof Ended ? unexpected(error.accepted, source) : error;
    }
  }

  // ---- which rows pass
  const fold = (word) => word.toUpperCase().toLowerCase().replaceAll("ς", "σ");
  const counted = (values) => {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]).map(([value]) => value);
  };
  /** Values in the syntax of filters: the most frequent first, numbers in ascending order. */
  function choices(cells) {
    if (cells.kind === "nothing") return [];
    if (cells.kind === "yes or no") return ["true", "false"];
    const present = cells.data.filter((_, row) => !cells.missing[row]);
    if (cells.kind !== "numbers") return counted(cells.kind === "labels" ? present.flat() : present).map(write);
    const sorted = [...present].sort((a, b) => a - b);
    return [...new Set([0, 0.5, 1].map((q) => sorted[Math.floor(q * (sorted.length - 1))]))].map((value) => (Number.isFinite(value) ? writeNumber(value) : value < 0 ? "-inf" : "inf"));
  }
  function cellsOf(table, name) {
    if (!Object.hasOwn(table, name)) throw new FilterError(`there is no column '${name}'; there are ${Object.keys(table).join(", ")}`);
    return table[name];
  }
  function mask(each, table, n) {
    if (each.op === "not") return mask(each.parts[0], table, n).map((on) => !on);
    if (each.parts.length) {
      const masks = each.parts.map((clause) => mask(clause, table, n));
      return masks.reduce((a, b) => a.map((on, row) => (each.op === "or" ? on || b[row] : on && b[row])));
    }
    const cells = cellsOf(table, each.column);
    if (each.op === "is missing") return [...cells.missing];
    const passes = compare(each, cells);
    return cells.missing.map((missing, row) => !missing && passes(cells.data[row]));
  }
  function compare(each, cells) {
    if (cells.kind === "nothing") return () => false;
    const sign = each.op === "is true" ? "=" : each.op;
    let values = each.op === "is true" ? [true] : each.operands;
    if (cells.kind === "yes or no") values = values.map((value) => (typeof value === "string" ? TRUTH[value.toLowerCase()] ?? value : value));
    const [type, operators] = KINDS[cells.kind];
    if (!operators.includes(sign) || !values.every((value) => typeof value === type)) {
      const example = choices(cells)[0];
      const remedy = operators.includes(sign) && type === "string" && each.op !== "is true"
        ? `quote the value: ${text(query(sign, each.column, values.map((value) => (typeof value === "string" ? value : write(value)))))}`
        : `use ${operators.join(", ")}; for example: ${writeColumn(each.column)} ${operators[0]} ${example}`;
      throw new FilterError(`the filter '${text(each)}' does not fit the column ${writeColumn(each.column)}, which holds ${cells.kind}, such as ${example}; ${remedy}`);
    }
    const [value] = values;
    const order = { "<": (x) => x < value, "<=": (x) => x <= value, ">": (x) => x > value, ">=": (x) => x >= value }[sign];
    if (order) return order;
    const negative = sign.startsWith("!") || sign.startsWith("not ");
    let test;
    if (!sign.endsWith("contains")) {
      const accepted = new Set(values);
      test = cells.kind === "labels" ? (labels) => labels.some((label) => accepted.has(label)) : (x) => accepted.has(x);
    } else if (cells.kind === "labels") {
      const folded = fold(value);
      test = (labels) => labels.some((label) => fold(label) === folded);
    } else {
      const pattern = literal(value);
      test = (x) => pattern.test(x);
    }
    return negative ? (x) => !test(x) : test;
  }
  /** Regular expression of a literal text, ignoring case. */
  const literal = (source, flags = "iu") => new RegExp(source.replace(/[\\^$.*+?()[\]{}|/]/g, (sign) => `\\${sign}`), flags);

  // ---- the columns of a page
  const INFINITE = { inf: Infinity, "-inf": -Infinity };
  const number_ = (value) => INFINITE[value] ?? value;
  function columnsFrom(columns) {
    return Object.fromEntries(columns.map(({ name, kind: type, data, whole, rank }) => [name, {
      kind: type, data: type === "numbers" ? data.map(number_) : data, whole, rank, missing: data.map((value) => value === null),
    }]));
  }
  /** Sort rows by a column, in descending order with "-" before its name; missing values come last. */
  function sortRows(rows, table, sort) {
    if (!sort) return rows;
    const { data, rank, missing } = table[sort.replace(/^-/, "")];
    const keys = rank ?? data;
    const way = sort.startsWith("-") ? -1 : 1;
    const compared = (a, b) => (keys[a] < keys[b] ? -way : keys[a] > keys[b] ? way : 0);
    return rows.sort((a, b) => missing[a] - missing[b] || (missing[a] ? 0 : compared(a, b)));
  }

  // ---- completions
  function wordStart(source, cursor) {
    const before = source.slice(0, cursor);
    let piece = null;
    PIECE.lastIndex = 0;
    for (let match = PIECE.exec(before); match; match = PIECE.exec(before)) piece = match;
    return piece?.groups.word !== undefined ? piece.index : cursor;
  }
  /** Completions at the cursor: columns, operators, values of the column before it. */
  function suggest(source, cursor, table) {
    const start = wordStart(source, cursor);
    const written = source.slice(start, cursor);
    const typed = fold(written.replace(/^[`"']+/, ""));
    const input = reader(source.slice(0, start));
    let accepted;
    try {
      const end = read(input);
      accepted = end ? ["and", "or"] : [];
    } catch (error) {
      if (error instanceof FilterError) return [];
      if (!(error instanceof Ended)) throw error;
      accepted = error.accepted;
    }
    const cells = input.last.column !== null && Object.hasOwn(table, input.last.column) ? table[input.last.column] : null;
    const after = operatorsExpected(source.slice(0, start));
    let options;
    if (accepted.includes("name")) options = [...Object.keys(table).map(writeColumn), "not"];
    else if (accepted.includes("bare")) options = cells ? choices(cells) : [];
    else if (accepted.includes("operator") || after) {
      const type = !cells || cells.kind === "nothing" ? "text" : cells.kind;
      options = [...(type === "yes or no" ? ["and", "or"] : []), ...KINDS[type][1], "is missing", "is not missing"];
    } else options = ["and", "or", "in", "is", "contains", "not", "missing", "open", "close"].filter((type) => accepted.includes(type)).map((type) => ({ open: "(", close: ")" }[type] ?? type));
    const fitting = options.filter((option) => fold(option).includes(typed) && option !== written);
    const begins = (option) => fold(option.replace(/^[`"]+/, "")).startsWith(typed);
    return [...fitting.filter(begins), ...fitting.filter((option) => !begins(option))].slice(0, LISTED);
  }
  /** Whether a text that is a filter ends with the name of a column, after which an operator may come. */
  function operatorsExpected(source) {
    const probe = reader(`${source} = `);
    try {
      read(probe);
    } catch (error) {
      return error instanceof Ended && error.accepted.includes("bare");
    }
    return false;
  }
  return { FilterError, parse, text, mask, suggest, wordStart, literal, number: number_, columnsFrom, sortRows, query, allOf, anyOf, invert, oneOf, between, columnsOf, clausesOf, alternativesOf, intervalOf, nextAfter };
})();
