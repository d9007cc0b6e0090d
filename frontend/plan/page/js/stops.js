// Keys in drawings: one element of a drawing is in the order of Tab, from it the arrows lead on.

/**
 * The elements of a drawing that keys reach, by id; a drawing may be drawn anew.
 */
class Stops {
  /**
   * @param {SVGElement} drawing
   * @param {string} list  its name among the lists that the arrows go through
   * @param {(id: string, key: string) => string} next  where an arrow, Home or End leads, or null
   */
  constructor(drawing, list, next) {
    this.next = next;
    this.elements = /** @type {Map<string, SVGElement>} */ (new Map());
    this.id = /** @type {string} */ (null);
    drawing.dataset.list = list;
    drawing.setAttribute('role', 'group');
    drawing.addEventListener('keydown', event => this.press(event));
    drawing.addEventListener('focusin', event => {
      const stop = /** @type {HTMLElement} */ (event.target).closest('[data-index]');
      if (stop) this.stay(/** @type {SVGElement} */ (stop).dataset.index);
    });
  }

  /** @param {Map<string, SVGElement>} elements in the order of reading */
  set(elements) {
    this.elements = elements;
    for (const [id, element] of elements) {
      element.dataset.index = id;
      element.setAttribute('tabindex', '-1');
      element.setAttribute('role', 'button');
    }
    this.stay(elements.has(this.id) ? this.id : elements.keys().next().value ?? null);
  }

  /** Tab leads to this one. */
  stay(id) {
    this.elements.get(this.id)?.setAttribute('tabindex', '-1');
    this.id = id;
    this.elements.get(id)?.setAttribute('tabindex', '0');
  }

  focus() {
    this.elements.get(this.id)?.focus();
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const {key} = event;
    if (event.ctrlKey || event.metaKey || event.altKey || !this.elements.has(this.id)) return;
    if (key === 'Enter' || key === ' ') {
      this.elements.get(this.id).dispatchEvent(new MouseEvent('click', {bubbles: true}));
      // The click may have drawn it anew.
      this.elements.get(this.id)?.focus({preventScroll: true});
    } else if (/^(Arrow|Home$|End$)/.test(key)) {
      const id = this.next(this.id, key);
      if (id != null) {
        this.stay(id);
        this.focus();
      }
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
