/* The guessing game. The kernel gives out tasks and saves answers; the page shows one task at a time.
   Text from the data reaches the page through textContent alone, never as HTML. */

const TITLES = { passage: "Which word ends the passage?", sentence: "Which word ends the sentence?", unfolding: "Which word is missing?", candidates: "Which of these words is missing?" };
const MATCHES = { exact: "right", case: "right but for case", number: "singular or plural of the answer", spelling: "one letter from the answer", no: "wrong" };
const BLANK = "\u2581\u2581\u2581\u2581\u2581";
const DIGITS = "1234567890";
const LETTERS = "abcde";

const plural = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;

function render({ model, el }) {
  const uid = `wg${Math.random().toString(36).slice(2, 9)}`;
  const s = { state: null, place: 0, key: "", warned: false, picked: -1, since: 0, pending: new Set(), spent: new Map() };
  const store = `workbench-guess ${model.get("key")}`; // words that are typed and not yet saved, by task
  const longest = model.get("longest");

  // ---- words that are not saved yet outlive the page and the kernel
  function readDrafts() {
    try {
      const all = JSON.parse(localStorage.getItem(store) ?? "{}");
      return all !== null && typeof all === "object" ? all : {};
    } catch { // no storage, or not ours
      return {};
    }
  }
  function keepDraft(key, words) {
    try {
      const all = readDrafts();
      if (words.some(Boolean)) all[key] = words;
      else delete all[key];
      if (Object.keys(all).length) localStorage.setItem(store, JSON.stringify(all));
      else localStorage.removeItem(store);
    } catch { /* no storage: drafts live as long as the page */ }
  }
  const draftOf = (key) => {
    const words = readDrafts()[key];
    return Array.isArray(words) ? words.map((word) => String(word).slice(0, longest)) : [];
  };

  // ---- the frame of the widget
  const title = h("b", { class: "wg-title" });
  const progress = h("span", { class: "wg-progress", role: "status", "aria-live": "polite" }, "…");
  const dots = h("ol", { class: "wg-dots", "aria-label": "Tasks of this page" });
  const { node: alarm, complain } = errorBanner();
  const view = h("div", { class: "wg-view", role: "region", tabindex: 0, "aria-label": "Passage" });
  const fields = h("div", { class: "wg-fields" });
  const hint = h("div", { class: "wg-hint", role: "status", "aria-live": "polite" });
  const back = h("button", { class: "wg-button", type: "button", title: "Back (Shift+Enter)", onclick: () => goBack(0) }, "‹ Back");
  const next = h("button", { class: "wg-button", type: "button", title: "Save, or go on (Enter)", onclick: () => onward() }, "Next ›");
  const submit = h("button", { class: "wg-button wg-submit", type: "button", onclick: () => finish() }, "Submit page");
  const bar = h("div", { class: "wg-bar" }, back, next, hint, submit);
  const root = h("div", { class: "wb-root wg-guess", role: "region", "aria-label": "Guessing game", onkeydown: (e) => onKey(e) },
    h("div", { class: "wg-top" }, h("div", { class: "wg-line" }, title, progress), dots),
    alarm, view, h("div", { class: "wg-bottom" }, fields, bar));
  root.style.setProperty("--wg-height", `${model.get("height")}px`);
  el.append(root);
  const kernel = requestQueue(model, root, complain);
  const request = (name, message) => kernel.ask(name, { from: uid, ...message });

  // ---- where the reader is
  const page = () => s.state?.page ?? null;
  const tasks = () => page()?.tasks ?? [];
  const task = () => tasks()[s.place] ?? null;
  const keyOf = (item) => `${page().id} ${item.place} ${item.shown}`;
  const unfolds = () => page()?.condition === "unfolding";
  /** Key of the draft in the boxes; while an answer is being saved, that of the next guess. */
  const draftKey = (item) => keyOf(unfolds() && s.pending.has(keyOf(item)) ? { ...item, shown: item.shown + 1 } : item);
  const isDone = (item) => item.finished || s.pending.has(keyOf(item));
  const nOpen = () => tasks().filter((item) => !isDone(item)).length;
  function firstOpen(from) {
    const all = tasks();
    for (let k = 0; k < all.length; k++) {
      const index = (from + k) % all.length;
      if (!isDone(all[index])) return index;
    }
    return all.length; // all are answered: the page can be submitted
  }
  function go(index) {
    s.place = Math.max(0, Math.min(index, tasks().length));
    draw();
    focus();
  }
  function goBack(field) {
    complain("");
    const boxes = [...fields.querySelectorAll("input")];
    if (field > 0) boxes[field - 1].focus({ preventScroll: true });
    else if (s.place > 0) go(s.place - 1);
  }
  function focus() {
    const target = fields.querySelector("input, .wg-choices") ?? (s.place >= tasks().length && !submit.hidden && !submit.disabled ? submit : next.hidden ? view : next);
    target.focus({ preventScroll: true });
  }
  function mark() { // time that a task is in view counts
    const time = performance.now();
    if (s.key) s.spent.set(s.key, (s.spent.get(s.key) ?? 0) + time - s.since);
    s.since = time;
  }

  // ---- answering
  const words = () => [...fields.querySelectorAll("input")].map((box) => box.value.trim().replace(/\s+/g, " "));
  function onward() {
    complain("");
    const item = task();
    if (s.state?.stage === "review" || s.state?.stage === "done") return void request("next", { type: "next" });
    if (!item) return void finish();
    if (unfolds() && s.pending.has(keyOf(item))) return; // the next sentence is under way
    if (isDone(item)) return void go(s.place + 1 < tasks().length && nOpen() ? firstOpen(s.place + 1) : firstOpen(0));
    save(item);
  }
  function save(item) {
    const typed = item.candidates && page().candidates ? (s.picked < 0 ? [] : [item.candidates[s.picked]]) : words();
    const guesses = typed.filter(Boolean);
    const room = page().guesses;
    if (guesses.length < (page().candidates ? 1 : room) && !s.warned) {
      s.warned = true;
      return void setHint(guesses.length ? `${plural(room - guesses.length, "guess").replace("guesss", "guesses")} left. Enter again goes on without.` : page().candidates ? "Nothing is chosen. Enter again leaves it without an answer." : "No word is typed. Enter again leaves it without an answer.");
    }
    const key = keyOf(item);
    mark();
    s.pending.add(key);
    request(`answer ${key}`.replace(/[^\x20-\x7e]/g, "?"), {
      type: "answer", page: page().id, task: item.place, guesses: guesses.length ? guesses : [""],
      shown: item.shown, seconds: Math.round(s.spent.get(key) ?? 0) / 1000,
    });
    if (unfolds()) { // the next sentence comes from the kernel; what is typed meanwhile is kept for it
      for (const box of fields.querySelectorAll("input")) box.value = "";
      drawTop();
    } else go(firstOpen(s.place + 1));
  }
  function finish() {
    complain("");
    if (!page() || nOpen() || tasks().some((item) => !item.finished)) return void setHint(nOpen() ? `${plural(nOpen(), "task")} on this page ${nOpen() === 1 ? "has" : "have"} no answer yet.` : "The last answers are being saved.");
    request("submit", { type: "submit", page: page().id });
  }
  function pick(index) {
    if (!task() || isDone(task()) || index >= task().candidates.length) return;
    s.picked = index;
    s.warned = false;
    keepDraft(keyOf(task()), [task().candidates[index]]);
    drawPicked();
    setHint("");
  }
  function setHint(text) { hint.textContent = text; }

  function onKey(e) {
    // a plain key is for the widget alone: outside, "d d" deletes the cell and Shift+Enter runs it
    if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation();
    if (e.isComposing || e.keyCode === 229 || e.ctrlKey || e.metaKey || e.altKey) return; // a word is being composed
    const inside = e.target instanceof Element ? e.target : root;
    const boxes = [...fields.querySelectorAll("input")];
    const field = boxes.indexOf(inside);
    if (e.key === "Enter") {
      if (!e.shiftKey && inside.closest("button") && inside !== next) return; // the button itself is pressed
      e.preventDefault();
      if (e.repeat) return; // a key that is held down answers once
      if (e.shiftKey) return void goBack(field);
      if (field >= 0 && field + 1 < boxes.length && boxes[field].value.trim()) {
        complain("");
        return void boxes[field + 1].focus({ preventScroll: true });
      }
      return void onward();
    }
    if (e.key === "PageDown" || e.key === "PageUp") {
      e.preventDefault();
      return void view.scrollBy({ top: (e.key === "PageDown" ? 0.8 : -0.8) * view.clientHeight });
    }
    if (field >= 0 || !task()?.candidates || isDone(task()) || !page().candidates) return;
    const n = task().candidates.length;
    const index = [DIGITS.indexOf(e.key), n <= LETTERS.length ? LETTERS.indexOf(e.key.toLowerCase()) : -1].find((i) => i >= 0 && i < n);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (index !== undefined) pick(index);
    else if (step && inside !== view) pick(s.picked < 0 ? (step > 0 ? 0 : n - 1) : (s.picked + step + n) % n);
    else return;
    e.preventDefault();
  }

  // ---- drawing
  function draw() {
    const { stage } = s.state;
    root.dataset.stage = stage;
    root.dataset.left = nOpen();
    root.dataset.page = page()?.id ?? "";
    drawTop();
    const item = task();
    const key = !item ? `${stage} ${page()?.id ?? ""}` : keyOf(item);
    const drawn = `${key} ${item && !unfolds() ? isDone(item) : ""} ${item?.finished ?? ""}`;
    root.dataset.task = item?.place ?? "";
    root.dataset.shown = item ? `${item.shown}${item.finished ? " finished" : ""}` : "";
    if (drawn !== s.drawn) { // what is typed, and where, stays while the task is the same
      if (key !== s.key) mark();
      s.key = key;
      s.drawn = drawn;
      s.warned = false;
      setHint("");
      if (stage === "page" && item) drawTask(item);
      else if (stage === "page") drawEnd();
      else if (stage === "review") drawReview();
      else drawDone();
    }
    const working = stage === "page";
    back.hidden = submit.hidden = !working;
    next.hidden = working && !item;
    back.disabled = s.place === 0;
    submit.disabled = !working || nOpen() > 0 || tasks().some((each) => !each.finished);
    next.textContent = stage === "review" ? "Next page ›" : item && isDone(item) ? "Go on ›" : "Next ›";
    if (stage === "done") next.hidden = true;
  }
  function drawTop() {
    const { stage, answered, total } = s.state;
    const n = tasks().length;
    title.textContent = stage === "review" ? "The answers of this page" : stage === "done" ? "All done" : page().candidates ? TITLES.candidates : TITLES[page().condition];
    const unsaved = tasks().filter((item) => !item.finished && s.pending.has(keyOf(item))).length;
    progress.textContent = [stage === "page" && `${n - nOpen()} of ${n} on this page`, `${number(answered + (unfolds() ? 0 : unsaved))} of ${number(total)} answered`, s.state.name].filter(Boolean).join(" · ");
    const rows = stage === "review" ? s.state.review.map((row) => ({ label: row.correct ? "right" : "wrong", kind: row.correct ? "wg-right" : "wg-wrong" })) : tasks().map((item) => ({ label: isDone(item) ? "answered" : "open", kind: isDone(item) ? "wg-answered" : "" }));
    const focused = dots.contains(document.activeElement) ? [...dots.querySelectorAll("button")].indexOf(document.activeElement) : -1;
    fill(dots, ...rows.map((row, index) => h("li", {}, h("button", {
      type: "button", tabindex: -1, class: `wg-dot ${row.kind}`, "aria-label": `Task ${index + 1}, ${row.label}`, "aria-current": stage === "page" && index === s.place ? "step" : null,
      onclick: () => (stage === "page" ? go(index) : view.children[0]?.children[index]?.scrollIntoView({ block: "nearest" })),
    }, index + 1))));
    if (focused >= 0) dots.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
  }
  function query(item, word, cssClass = "wg-blank") {
    return h("div", { class: "wg-query", dir: "auto" }, item.query[0], h("span", { class: cssClass }, word), item.query[1]);
  }
  function drawTask(item) {
    const grows = unfolds();
    const done = grows ? item.finished : isDone(item);
    const ended = item.ended;
    const [first, ...further] = item.sentences;
    const fresh = grows && !done && item.shown > 0;
    const context = item.sentences.length > 0 && h("div", { class: "wg-context", dir: "auto" }, fresh ? h("span", { class: "wg-fresh" }, first) : first, further.length ? ` ${further.join(" ")}` : "");
    fill(view, h("div", { class: "wg-room" }, context || (page().condition === "sentence" || grows) && h("div", { class: "wg-alone wb-hint" }, grows ? "After each wrong guess, one sentence of context more is shown." : "The target sentence alone.")),
      h("div", { class: "wg-target" }, query(item, ended ? ended.answer : BLANK, ended ? "wg-answer" : "wg-blank"),
        grows && h("div", { class: "wb-hint wg-wrongs" }, ended ? `${ended.correct ? "Guessed" : "Not guessed"} with ${plural(item.shown, "sentence")} of context${ended.correct ? "" : `; your last guess: ${item.guesses.filter(Boolean).join(", ") || "none"}`}.` : item.wrong.filter(Boolean).length ? `Wrong: ${item.wrong.filter(Boolean).join(", ")}` : "\u00a0")));
    view.scrollTop = 0;
    if (done && item.finished) return void fill(fields, h("div", { class: "wg-saved" }, item.guesses.filter(Boolean).length ? h("span", {}, "Saved: ", h("bdi", {}, item.guesses.filter(Boolean).join(", "))) : "Saved without a word."));
    if (done) return void fill(fields, h("div", { class: "wg-saved wb-hint" }, "Saving…"));
    if (page().candidates) return void drawChoices(item);
    const draft = draftOf(keyOf(item));
    const n = page().guesses;
    fill(fields, ...Array.from({ length: n }, (_, index) => h("input", {
      type: "text", class: "wg-word", dir: "auto", maxlength: longest, autocomplete: "off", autocapitalize: "off", spellcheck: "false", value: draft[index] ?? "",
      "aria-label": n === 1 ? "Your guess" : `Guess ${index + 1} of ${n}`, placeholder: n === 1 ? "your guess" : `guess ${index + 1}`,
      oninput: () => {
        s.warned = false;
        if (hint.textContent) setHint("");
        keepDraft(draftKey(item), [...fields.querySelectorAll("input")].map((box) => box.value));
      },
    })));
  }
  function drawChoices(item) {
    const draft = draftOf(keyOf(item))[0];
    s.picked = draft === undefined ? -1 : item.candidates.indexOf(draft);
    const few = item.candidates.length <= LETTERS.length;
    fill(fields, h("div", { class: "wg-choices", role: "listbox", tabindex: 0, "aria-label": `Candidates, keys ${few ? "a to e or 1 to 5" : "1 to 9 and 0"}` }, ...item.candidates.map((word, index) => h("div", {
      class: "wg-choice", role: "option", id: `${uid}-${index}`, onclick: () => { pick(index); fields.firstChild.focus({ preventScroll: true }); },
    }, index < DIGITS.length && h("kbd", {}, few ? LETTERS[index] : DIGITS[index]), h("bdi", {}, word)))));
    drawPicked();
  }
  function drawPicked() {
    const box = fields.querySelector(".wg-choices");
    [...box.children].forEach((node, index) => node.setAttribute("aria-selected", String(index === s.picked)));
    if (s.picked < 0) box.removeAttribute("aria-activedescendant");
    else box.setAttribute("aria-activedescendant", `${uid}-${s.picked}`);
  }
  function drawEnd() {
    fill(view, h("div", { class: "wg-empty" }, h("p", {}, `All ${tasks().length} tasks of this page are answered.`), h("p", { class: "wb-hint" }, "Enter submits the page; Shift+Enter goes back.")));
    fill(fields);
  }
  function drawReview() {
    fill(view, h("ol", { class: "wg-review" }, ...s.state.review.map((row) => h("li", {},
      h("div", { class: "wg-verdict" }, h("b", { class: row.correct ? "wg-right" : "wg-wrong" }, row.correct ? "✓" : "✗"), " ", MATCHES[row.match] ?? row.match, row.shown !== null && ` with ${plural(row.shown, "sentence")} of context`, "; you: ", h("bdi", {}, row.guesses.join(", ") || "no guess")),
      query(row, row.answer, "wg-answer"),
      row.sentences.length > 0 && h("details", { class: "wb-hint" }, h("summary", {}, "context"), h("div", { class: "wg-context", dir: "auto" }, row.sentences.join(" "))),
      row.models.length > 0 && h("div", { class: "wg-models" }, ...row.models.map(([name, word, correct, note]) => h("span", { class: "wg-model" }, h("b", { class: correct ? "wg-right" : "wg-wrong" }, correct ? "✓" : "✗"), " ", h("bdi", {}, name), note && ` (${note})`, ": ", h("bdi", {}, word || "none"))))))), scores());
    fill(fields);
    view.scrollTop = 0;
  }
  function scores() {
    return s.state.score.length > 0 && h("table", { class: "wg-score" }, h("caption", {}, "So far"), h("thead", {}, h("tr", {}, ...["who", "what was seen", "right", "share and 95 % interval"].map((text) => h("th", { scope: "col", title: text.startsWith("share") ? "Wilson interval over items" : null }, text)))),
      h("tbody", {}, ...s.state.score.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, h("bdi", {}, cell)))))));
  }
  function drawDone() {
    fill(view, h("div", { class: "wg-empty" }, h("p", {}, `You have answered all ${plural(s.state.total, "item")}.`), scores()));
    fill(fields);
  }

  // ---- what the kernel says
  const handlers = {
    view(m) {
      if (m.from === uid && m.request) kernel.answered(m.request);
      const before = s.state;
      const [oldPage, oldTask] = [page()?.id, task()];
      const focused = root.contains(document.activeElement);
      s.state = m;
      for (const item of tasks()) {
        if (item.finished) {
          s.pending.delete(keyOf(item));
          keepDraft(keyOf(item), []);
        }
      }
      const same = before && m.stage === before.stage && page()?.id === oldPage;
      if (m.from === uid && m.request?.startsWith("answer ")) settle(m.request);
      if (!same) {
        s.place = firstOpen(0);
        s.pending.clear();
        s.drawn = "";
      }
      draw();
      const moved = !same || oldTask && task() && (oldTask.place !== task().place || oldTask.shown !== task().shown || oldTask.finished !== task().finished);
      if (focused && (moved || !root.contains(document.activeElement) || s.place >= tasks().length)) focus();
    },
    error(m) {
      if (m.from === uid && m.request) kernel.answered(m.request);
      if (m.from !== uid && m.from) return; // of another view
      if (m.request?.startsWith("answer ")) {
        const key = settle(m.request);
        const index = tasks().findIndex((item) => keyOf(item) === key);
        if (index >= 0) s.place = index;
        s.drawn = "";
      }
      if (s.state) draw();
      complain(m.message);
      if (s.state && root.contains(document.activeElement)) focus();
    },
  };
  /** An answer is no longer under way; return its key. */
  function settle(request) {
    const key = [...s.pending].find((each) => `answer ${each}`.replace(/[^\x20-\x7e]/g, "?") === request);
    s.pending.delete(key);
    return key;
  }
  const seen = () => { // another browser may have gone on meanwhile
    if (document.visibilityState === "visible" && s.state?.stage === "page") request("open", { type: "open" });
  };
  const end = listenTo(model, kernel, complain, handlers);
  document.addEventListener("visibilitychange", seen);
  request("open", { type: "open" });
  return () => {
    end();
    document.removeEventListener("visibilitychange", seen);
  };
}

export default { render };
