/* A published page: the script of a widget runs, and what the kernel would answer is computed here.
   The state of the view is the address's fragment, so that a link shows the same view. */

const publishedPage = (() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const notice = document.getElementById("wp-notice");
  const NAMES = { // of the parts of a state in the fragment
    where: "filter", query: "search", field: "in", regex: "regex", sort: "sort", current: "item", table: "columns", reveal: "targets", attention: "attention",
    shade: "shade", column: "by", pair: "pair", hidden: "hidden", baseline: "baseline", model: "model", row: "row", scale: "scale",
  };
  const encode = (text) => encodeURIComponent(text).replaceAll("%20", "+").replaceAll("%2F", "/").replaceAll("%3A", ":");
  const decode = (text) => decodeURIComponent(text.replaceAll("+", " "));
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

  /** Write the parts of a state that differ from the published one; `current` is "" for the first item of the list. */
  function toFragment(state, initial, models) {
    const fields = [];
    for (const [name, value] of Object.entries(state)) {
      if (name === "current" || same(value, initial[name])) continue;
      if (name === "hidden") fields.push(["models", models.filter((label) => !value.includes(label)).map(encode).join(",")]);
      else if (Array.isArray(value)) fields.push([NAMES[name], value.map(encode).join(",")]);
      else if (typeof value === "boolean") fields.push([NAMES[name], value ? "yes" : "no"]);
      else fields.push([NAMES[name], value === null ? "" : encode(value)]);
    }
    if (fields.length ? state.current : state.current !== initial.current) fields.push([NAMES.current, encode(state.current)]);
    return fields.map(([name, value]) => `${name}=${value}`).join("&");
  }
  /** Read a fragment as a state; an error says what is not valid. */
  function fromFragment(fragment, initial, models) {
    const state = { ...initial, current: "" };
    const states = Object.fromEntries(Object.entries(NAMES).map(([name, written]) => [written, name]));
    for (const field of fragment.split("&").filter(Boolean)) {
      const equals = field.indexOf("=");
      const written = equals < 0 ? field : field.slice(0, equals);
      const value = equals < 0 ? "" : field.slice(equals + 1);
      const name = written === "models" ? "hidden" : Object.hasOwn(states, written) ? states[written] : "";
      if (!Object.hasOwn(initial, name)) throw new filterLanguage.FilterError(`this view has no setting '${decode(written)}'`);
      const list = value.split(",").filter(Boolean).map(decode);
      if (written === "models") {
        const unknown = list.find((label) => !models.includes(label));
        if (unknown !== undefined) throw new filterLanguage.FilterError(`there is no model '${unknown}'; there are ${models.join(", ")}`);
        state.hidden = models.filter((label) => !list.includes(label));
      } else if (name === "table") state.table = value === "yes" ? true : value === "no" ? false : list;
      else if (typeof initial[name] === "boolean") state[name] = value === "yes";
      else if (Array.isArray(initial[name]) || name === "pair") state[name] = list.length ? list : name === "pair" ? null : [];
      else state[name] = decode(value);
    }
    return state;
  }
  function complain(text) {
    notice.textContent = text;
    notice.hidden = !text;
  }

  /** Synchronise the state of a `host` with the fragment; return functions to write and read the fragment. */
  function followAddress(host, models) {
    const canonical = (state) => ({ ...state, current: host.isFirst(state.current) ? "" : state.current });
    const published = { ...host.state };
    const initial = canonical(published);
    let written = null;
    let before = initial;
    function write() {
      const state = canonical(host.state);
      const fragment = toFragment(state, initial, models);
      if (fragment === written) return;
      const isStep = written !== null && Object.keys(state).some((name) => name !== "current" && !same(state[name], before[name]));
      written = fragment;
      before = state;
      const address = fragment ? `#${fragment}` : location.pathname + location.search;
      if (isStep) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    }
    function restore() {
      const fragment = location.hash.slice(1);
      if (fragment === written) return;
      complain("");
      written = null; // what follows is no step of the reader
      try {
        host.restore(fragment ? fromFragment(fragment, initial, models) : { ...published });
      } catch (error) {
        complain(`The link does not fit this view: ${error.message.replace(/\.$/, "")}. The view is shown as it was published.`);
        host.restore({ ...published });
      }
    }
    addEventListener("hashchange", restore);
    addEventListener("popstate", restore);
    return { write, restore };
  }
  function linkButton() {
    const button = document.getElementById("wp-link");
    if (!button) return;
    button.addEventListener("click", async () => {
      button.dataset.done = (await copyText(location.href, button.parentElement)) ? "copied" : "press Ctrl+C";
      setTimeout(() => delete button.dataset.done, 1500);
    });
  }

  /** Run the script of a widget (`draw`) on the data of the page; `Host` answers it. */
  function start(Host, draw) {
    const data = read("wp-data");
    const root = document.getElementById("wp-view");
    const listeners = new Map();
    const traits = { ...data.traits, published: true };
    let address = null;
    const tell = (name, ...values) => (listeners.get(name) ?? []).forEach((act) => act(...values));
    const send = (message) => {
      tell("msg:custom", message, []);
      if (message.type === "view" || message.type === "passage") address?.write();
    };
    const host = new Host(data, send);
    address = followAddress(host, (data.models ?? []).map((model) => model.label ?? model));
    const model = {
      get: (name) => traits[name],
      set: (name, value) => {
        if (traits[name] === value) return;
        traits[name] = value;
        if (Object.hasOwn(host.state, name)) host.state[name] = value;
        tell(`change:${name}`);
        address.write();
      },
      save_changes: () => {},
      on: (name, act) => listeners.set(name, [...(listeners.get(name) ?? []), act]),
      off: (name, act) => listeners.set(name, (listeners.get(name) ?? []).filter((each) => each !== act)),
      send: (message) => queueMicrotask(() => {
        try {
          host.answer(message);
        } catch (error) {
          if (!(error instanceof filterLanguage.FilterError)) console.error(error);
          send({ type: "error", lane: message.lane ?? null, from: message.from ?? null, message: error.message });
        }
      }),
    };
    const restored = host.restore.bind(host);
    host.restore = (state) => { // traits that the script reads follow the state
      restored(state);
      for (const name of Object.keys(traits)) if (Object.hasOwn(host.state, name) && traits[name] !== host.state[name]) { traits[name] = host.state[name]; tell(`change:${name}`); }
    };
    if (location.hash.length > 1) address.restore();
    draw({ model, el: root });
    linkButton();
    root.dataset.ready = "true";
  }
  return { start, followAddress, linkButton, toFragment, fromFragment, read, complain };
})();
