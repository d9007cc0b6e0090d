// The one selection and the one device, and who is told of them.

class Page {
  /** @param {Plan} plan @param {Plan[]} others  that it is compared with */
  constructor(plan, others) {
    this.plan = plan;
    this.others = others;
    this.item = /** @type {Item} */ (null);
    this.related = nothingRelated();
    /** The value that is drawn where one has to be. */
    this.value = chooseValue(plan);
    this.device = firstReader(plan, this.value);
    this.deviceChosen = false;
    this.made = {
      track: /** @type {Track} */ (null),
      window: /** @type {[number, number]} */ (null),
    };
    this.windowListeners = /** @type {(() => void)[]} */ ([]);
    this.view = '';
    this.theme = '';
    /** Elements by kind and index, of every view. */
    this.registries = /** @type {Map<string, Element[]>[]} */ ([]);
    this.lit = /** @type {Element[]} */ ([]);
    this.listeners = /** @type {(() => void)[]} */ ([]);
    this.show = /** @type {(id: string) => void} */ (() => {});
    /** Shows a view, and in it what is selected. */
    this.reveal = /** @type {(id: string) => void} */ (() => {});
    /** Shows a line within the source, wherever that is. */
    this.showLine = /** @type {(line: number) => void} */ (() => {});
    /** The width that a view may draw on. */
    this.width = () => 600;
  }

  /** The step, made when the first view draws it. */
  get track() {
    return this.made.track ??= makeTrack(this.plan);
  }

  /** The part of the step that is seen in the timeline. */
  get window() {
    return this.made.window ??= /** @type {[number, number]} */ (firstWindow(this.track));
  }

  /** @returns {Marks} */
  makeMarks() {
    const registry = new Map();
    this.registries.push(registry);
    return {
      add(kind, index, element) {
        const key = kind + index;
        if (registry.has(key))
          registry.get(key).push(element);
        else
          registry.set(key, [element]);
      },
      clear: () => registry.clear(),
    };
  }

  /**
   * Selects, or clears where the same is selected already, unless `keep`.
   * @param {Item} item
   */
  select(item, keep = false) {
    if (!keep && item && this.isSelected(item.kind, item.index)) item = null;
    this.item = item;
    this.related = findRelated(this.plan, item);
    this.followValue();
    this.tell();
  }

  /**
   * Selects and shows it in a view.
   * @param {Item} item
   */
  seek(item, view) {
    this.select(item, true);
    this.reveal(view);
  }

  /** @param {Kind} kind */
  isSelected(kind, index) {
    return !!this.item && this.item.kind === kind && this.item.index === index;
  }

  /** The value that is drawn follows what is selected. */
  followValue() {
    if (!this.item || this.related.value.has(this.value)) return;
    const {values} = this.plan;
    const candidates =
        [...this.related.value].filter(index => values[index].dims.length && !values[index].inside);
    const best =
        candidates.find(index => values[index].stored && values[index].role !== 'gradient') ??
        candidates[0];
    if (best == null || this.item.kind === 'axis') return;
    this.value = best;
    if (!this.deviceChosen) this.device = firstReader(this.plan, best);
  }

  setDevice(device) {
    this.device = Math.max(0, Math.min(this.plan.devices - 1, device));
    this.deviceChosen = true;
    this.tell();
  }

  /** As long as this, within the step. */
  setWindow(from, to) {
    const {total} = this.track;
    const length = Math.min(total, Math.max(to - from, total * 1e-5));
    const begin = Math.max(0, Math.min(total - length, from));
    this.made.window = [begin, begin + length];
    for (const listener of this.windowListeners) listener();
  }

  /** Moves the window so that this is in the middle of it. */
  showPlace({start, time}) {
    const half = (this.window[1] - this.window[0]) / 2;
    this.setWindow(start + time / 2 - half, start + time / 2 + half);
  }

  tell() {
    this.paint();
    for (const listener of this.listeners) listener();
  }

  /** Puts the classes on the elements; called again after a view was drawn anew. */
  paint() {
    for (const element of this.lit) {
      element.classList.remove('selected', 'related');
      element.removeAttribute('aria-current');
    }
    this.lit = [];
    const light = (kind, index, name) => {
      for (const registry of this.registries)
        for (const element of registry.get(kind + index) || []) {
          element.classList.add(name);
          if (name === 'selected') element.setAttribute('aria-current', 'true');
          this.lit.push(element);
        }
    };
    for (const line of this.related.line.keys()) light('line', line, 'related');
    for (const kind of ['value', 'collective', 'operation', 'axis'])
      for (const index of this.related[kind]) light(kind, index, 'related');
    if (this.item) light(this.item.kind, this.item.index, 'selected');
  }
}

/**
 * The first to be drawn: one with a window, since it has most to show; else the largest parameter.
 * @param {Plan} plan
 */
function chooseValue(plan) {
  const windowed = plan.collectives.find(
      one => one.value >= 0 && one.after && one.after.dims.some(dim => dim.window));
  if (windowed) return windowed.value;
  const candidates = plan.values.filter(value => value.dims.length && value.stored);
  const parameters = candidates.filter(value => value.role === 'param');
  const list = parameters.length ? parameters : candidates;
  return list.length ?
      list.reduce((best, value) => value.globalBytes > best.globalBytes ? value : best).index :
      0;
}
