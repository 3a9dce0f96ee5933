/* The kernel's side of wb.attention, for pages without a kernel: the weights of all rows are in the page. */

class PublishedAttention {
  constructor(data, send) {
    Object.assign(this, { data, send });
    this.state = this.checked(data.state);
  }
  checked(state) {
    const { data } = this;
    const fail = (text) => { throw new filterLanguage.FilterError(text); };
    const checked = { ...data.empty, ...state };
    checked.current ||= data.items[0]?.id ?? "";
    for (const name of Object.keys(checked)) if (!Object.hasOwn(data.empty, name)) fail(`this view has no setting '${name}'`);
    const index = data.items.findIndex(({ id }) => id === checked.current);
    if (index < 0 && (checked.current || data.items.length)) fail(`the item '${checked.current}' is not among those shown`);
    if (!data.models.includes(checked.model)) fail(`there is no model '${checked.model}'; there are ${data.models.join(", ")}`);
    if (data.items.length && !Object.hasOwn(data.items[index].models[checked.model].rows, checked.row)) fail(`there is no '${checked.row}' in this model`);
    return checked;
  }
  isFirst(id) { return id === (this.data.items[0]?.id ?? ""); }
  restore(state) {
    this.state = this.checked(state);
    this.sendView();
  }
  answer(message) {
    if (message.type === "open") this.sendView(message.lane);
    else if (message.type === "show") this.show(message);
    else throw new filterLanguage.FilterError("A published page cannot do this; it needs the workbench.");
  }
  show(message) {
    const { data } = this;
    const item = data.items[Math.min(Math.max(0, message.index), data.items.length - 1)];
    const model = message.model ?? this.state.model;
    let row = message.row ?? this.state.row;
    if (item && !Object.hasOwn(item.models[model]?.rows ?? {}, row)) row = ""; // the other model has other layers
    this.restoreQuietly({ ...this.state, current: item?.id ?? "", model, row });
    this.sendView(message.lane);
  }
  restoreQuietly(state) { this.state = this.checked(state); }
  sendView(lane = null) {
    const { data, state } = this;
    const index = data.items.findIndex(({ id }) => id === state.current);
    this.send({ type: "view", lane, n: data.items.length, index, models: data.models, model: state.model, row: state.row, passage: index >= 0 ? this.passage(data.items[index]) : null });
  }
  passage(item) {
    const { passage, rows, influence } = item.models[this.state.model];
    const { weights, most: largest, sum, parts: strongest, tau } = rows[this.state.row];
    let next = 0;
    const weighed = (pieces) => pieces.map(([text, letters]) => [text, letters, weights[next++]]);
    return { ...passage, context: weighed(passage.context), query: weighed(passage.query), most: largest, sum, parts: strongest, influence: influence ? { ...influence, tau } : null };
  }
}
