/* Shared code of all widget pages, joined before each of them.
   Text from the data reaches the page through textContent and attributes alone, never as HTML. */

const PATIENCE = 5000; // ms without an answer of the kernel before the reader sees so
const GIVE_WAY = 2000; // ms without a first answer before the saved page shows in place of an empty view
const SILENCE = "The kernel does not answer. If it is busy, wait; if it was restarted, run this cell again.";
const STILL = "The list is still that of the last valid filter.";
const MINUS = "\u2212";
const DASH = "\u2013";

/** Write a number with commas between thousands. */
const number = (n) => n.toLocaleString("en");
/** Remove the characters that change the direction of the surrounding text. */
const stripBidi = (text) => String(text).replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
/** Error of a filter, whose first line says that the list is unchanged; further ones show the place. */
const refusal = (text) => text.replace(/\.?\s*(\n|$)/, (end) => `. ${STILL}${end.endsWith("\n") ? "\n" : ""}`);
const isNode = (child) => child !== null && child !== undefined && child !== false;

/** Make an element: h("div", {class: "x", onclick: f, "aria-label": "y"}, ...children). */
function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (!isNode(value)) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value; // a textarea has no such attribute
    else node.setAttribute(key, value === true ? "" : key === "title" || key === "aria-label" ? stripBidi(value) : value);
  }
  node.append(...children.filter(isNode));
  return node;
}

/** Replace the children of a node. */
function fill(node, ...children) {
  node.replaceChildren(...children.filter(isNode));
}

/** An alert that is hidden while it is empty. */
function errorBanner() {
  const node = h("div", { class: "wb-alarm", role: "alert", tabindex: 0, hidden: true }); // a long text scrolls
  const complain = (text) => {
    node.textContent = stripBidi(text);
    node.hidden = !text;
  };
  complain.text = () => node.textContent;
  return { node, complain };
}

/** Hide the static page of this widget while the live view is shown.

    A view without answers, such as one restored without its kernel, is hidden until it gets one.
*/
function hideStaticPage(model, root) {
  const page = `.wb-saved-${model.get("saved_key")}`;
  const style = h("style");
  root.append(style);
  const show = (live, confirmed = true) => {
    style.textContent = live ? `${page}, .jp-OutputArea-child:has(${page}) { display: none !important; }` : "";
    root.style.display = live || !document.querySelector(page) ? "" : "none";
    root.dataset.live = confirmed ? live : "";
  };
  show(true, false);
  const clock = setTimeout(() => show(false), GIVE_WAY);
  return () => {
    clearTimeout(clock);
    if (root.dataset.live !== "true") show(true);
  };
}

/** Queue of requests to the kernel: one message per name of a request is under way, and the newest one waits.

    `root` names the requests whose answer is awaited (data-waits). Where no answer comes in time, `complain` is called.
*/
function requestQueue(model, root, complain) {
  const requests = {}; // by name: {next}, while an answer is awaited
  let clock = null;
  const live = hideStaticPage(model, root);
  const draw = () => { root.dataset.waits = Object.keys(requests).join(" "); };
  const send = (message) => {
    clock ??= setTimeout(() => complain(SILENCE), PATIENCE);
    try {
      model.send(message);
    } catch { // the kernel was restarted: it knows nothing of this widget
      complain(SILENCE);
    }
  };
  const ask = (request, message) => {
    if (request in requests) requests[request].next = message;
    else {
      requests[request] = {};
      send({ ...message, request });
    }
    draw();
  };
  /** Handle an answer: send the waiting request; return whether it was the newest. */
  const answered = (request) => {
    const next = requests[request]?.next;
    delete requests[request];
    if (next) ask(request, next);
    draw();
    return !next;
  };
  const onAnyAnswer = () => {
    live();
    clearTimeout(clock);
    clock = null;
  };
  /** Empty the removed view, whose element JupyterLab keeps. */
  const end = () => {
    onAnyAnswer();
    root.remove();
  };
  draw();
  return { send, ask, answered, onAnyAnswer, end, waiting: (request) => requests[request]?.next, busy: (request) => request in requests, drop: (request) => delete requests[request]?.next };
}

/** Copy a text; return whether that worked. `near` is a node of the widget, for pages without a clipboard. */
async function copyText(text, near) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // no permission, or a page without https
    const box = h("textarea", { value: text, style: "position:absolute;left:-9999px" });
    near.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    return done;
  }
}

/** A button that copies what `text()` returns, and says so; `near` is a node of the widget. */
function copier(near, label, text, title, cssClass = "wb-button wb-copier") {
  return h("button", {
    class: cssClass, type: "button", title,
    onclick: async (e) => {
      const button = e.currentTarget;
      button.dataset.done = (await copyText(text(), near)) ? "copied" : "press Ctrl+C";
      setTimeout(() => delete button.dataset.done, 1200);
    },
  }, label);
}

/** Download a file that the kernel sent. */
function download(name, buffer) {
  const link = h("a", { href: URL.createObjectURL(new Blob([buffer])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Whether a key was pressed alone; it is for the widget alone then: outside, "d d" deletes the cell. */
function plainKey(e) {
  const plain = !e.ctrlKey && !e.metaKey && !e.altKey;
  if (plain) e.stopPropagation();
  return plain;
}

/** Handle messages of the kernel by `handlers`, one function per type; return the function that stops it. */
function listenTo(model, line, complain, handlers) {
  const listen = (message, buffers) => {
    line.onAnyAnswer();
    if (complain.text() === SILENCE) complain("");
    handlers[message.type]?.(message, buffers);
  };
  model.on("msg:custom", listen);
  return () => {
    line.end();
    model.off("msg:custom", listen);
  };
}
