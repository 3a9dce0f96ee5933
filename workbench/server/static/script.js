// Saves each answer at once and moves on by keyboard. Without it the form works the same, a page at a time.
"use strict";

const form = document.getElementById("form");
const drafts = `page-${form.dataset.page}`;
const xsrf = form.elements._xsrf.value;
const PAUSE = 2000; // ms before a request that got no answer is sent again

const sections = [...form.querySelectorAll(".task")];
const fields = (section) => [...section.querySelectorAll("input[type=text], input[type=radio]")];
const words = (section) => fields(section)
  .filter((field) => field.type === "text" || field.checked)
  .map((field) => field.value.trim())
  .filter((word) => word);
const unfolds = (section) => section.querySelector("button[name=save]")?.textContent.startsWith("Try");
const open = (section) => fields(section).length > 0;

function element(tag, content, css = "") {
  const node = document.createElement(tag);
  node.textContent = content;
  node.className = css;
  return node;
}

function say(section, text) {
  section.querySelector(".state").textContent = text;
}

// Words that are typed and not saved outlive a reload, and a server that is started again.
function keepDrafts() {
  const typed = {};
  for (const field of sections.flatMap(fields)) {
    if (field.type === "radio" ? field.checked : field.value) typed[field.name] = field.value;
  }
  try {
    sessionStorage.setItem(drafts, JSON.stringify(typed));
  } catch { /* the browser forbids it */ }
}

function restoreDrafts() {
  let typed = {};
  try {
    typed = JSON.parse(sessionStorage.getItem(drafts)) ?? {};
  } catch { /* nothing to restore */ }
  for (const field of sections.flatMap(fields)) {
    const value = typed[field.name];
    if (typeof value !== "string") continue;
    if (field.type === "radio") field.checked = field.value === value;
    else if (!field.value) field.value = value;
  }
}

// Time counts from when the first field of a task is focused.
const started = new Map();
function stamp(section) {
  const clock = section.querySelector("[name^=seconds]");
  if (clock && started.has(section)) clock.value = ((performance.now() - started.get(section)) / 1000).toFixed(1);
}

function focusOn(section) {
  const choices = fields(section);
  (choices.find((field) => field.checked) ?? choices[0])?.focus();
}

function next(section) {
  const index = sections.indexOf(section);
  const after = [...sections.slice(index + 1), ...sections.slice(0, index)].find(open);
  if (after) focusOn(after);
  else form.querySelector("button.main, a.main").focus();
}

function count() {
  const finished = sections.filter((section) => !open(section)).length;
  document.getElementById("count").textContent = `${finished} of ${sections.length} saved`;
  document.getElementById("progress").value = finished;
}

function finish(section, typed) {
  const saved = element("p", typed.length ? "Saved: " : "Saved without a word", "saved");
  if (typed.length) saved.append(element("b", typed.join(", ")));
  const answer = section.querySelector(".answer");
  const state = answer.querySelector(".state");
  state.textContent = "";
  answer.replaceChildren(saved, state);
  section.classList.add("done");
  count();
}

function unfold(section, typed, sentences) {
  section.querySelector(".context").textContent = sentences.join(" ");
  section.querySelector("[name^=shown]").value = sentences.length;
  const field = fields(section)[0];
  field.value = "";
  section.querySelector(".tried")?.remove();
  const tried = element("p", typed.length ? "It is not " : "No word", "tried");
  tried.append(element("b", typed.join(" ")), ". One sentence more is shown.");
  section.querySelector(".answer").prepend(tried);
  say(section, "");
  started.set(section, performance.now());
  field.focus();
}

async function send(index, typed, section) {
  const body = new URLSearchParams({ place: index });
  for (const word of typed) body.append("guess", word);
  body.set("shown", section.querySelector("[name^=shown]").value);
  body.set("seconds", section.querySelector("[name^=seconds]").value);
  for (;;) {
    try {
      const response = await fetch(`${form.getAttribute("action")}/answer`, {
        method: "POST", body, headers: { "X-Xsrftoken": xsrf }, credentials: "same-origin",
      });
      const result = await response.json();
      if (response.status !== 503) return result;
      say(section, `${result.error} It is sent again.`);
    } catch {
      say(section, "Not saved yet: the server does not answer. It is sent again until it does.");
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

async function save(section) {
  const typed = words(section);
  if (section.dataset.saving) return;
  if (!typed.length && !unfolds(section)) {
    say(section, "There is no word yet.");
    focusOn(section);
    return;
  }
  section.dataset.saving = "yes";
  stamp(section);
  for (const field of fields(section)) field.readOnly = true;
  const waiting = send(section.dataset.place, typed.length ? typed : [""], section);
  if (!unfolds(section)) next(section);
  const result = await waiting;
  delete section.dataset.saving;
  for (const field of fields(section)) field.readOnly = false;
  if (result.error) say(section, result.error);
  else if (result.finished) {
    const focused = section.contains(document.activeElement);
    finish(section, typed);
    if (focused) next(section);
  } else unfold(section, typed, result.sentences);
  keepDrafts();
}

function startClock(target) {
  const section = target?.closest(".task");
  if (section && !started.has(section)) started.set(section, performance.now());
}
form.addEventListener("focusin", (event) => startClock(event.target));
form.addEventListener("input", keepDrafts);

form.addEventListener("keydown", (event) => {
  const section = event.target.closest(".task");
  if (!section || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
  const inputs = fields(section);
  const index = inputs.indexOf(event.target);
  if (index < 0) return;
  if (event.target.type === "radio" && /^[0-9]$/.test(event.key)) {
    const choice = inputs[(Number(event.key) + 9) % 10];
    if (choice) {
      choice.checked = true;
      choice.focus();
      keepDrafts();
    }
  } else if (event.key === "Enter") {
    event.preventDefault();
    const following = event.target.type === "text" && event.target.value.trim() ? inputs[index + 1] : null;
    if (following) following.focus();
    else save(section);
  }
});

// A page is sent only to a server that answers, as what is typed would be lost with the page.
form.addEventListener("submit", async (event) => {
  const button = event.submitter;
  event.preventDefault();
  if (button?.value !== "send") {
    const section = button?.closest(".task");
    if (section) save(section);
    return;
  }
  const sending = document.getElementById("sending");
  if (sections.some((section) => section.dataset.saving)) {
    sending.textContent = "Some answers are not saved yet. They are sent again until they are.";
    return;
  }
  try {
    await fetch("/alive", { cache: "no-store" });
  } catch {
    sending.textContent = "The server does not answer. Your words stay here; try again.";
    return;
  }
  sections.forEach(stamp);
  const hidden = document.createElement("input");
  Object.assign(hidden, { type: "hidden", name: "save", value: "send" });
  form.append(hidden);
  form.submit();
});

restoreDrafts();
startClock(document.activeElement); // focused before this script ran
