// Elements. All text goes into text nodes; sizes are set through the CSSOM, as the policy of the
// page wants it.

const SVG = 'http://www.w3.org/2000/svg';

/** Appends nodes and texts, of nested lists too; null, false and undefined are nothing. */
function put(parent, ...children) {
  for (const child of children.flat(Infinity))
    if (child != null && child !== false)
      parent.append(child.nodeType ? child : document.createTextNode(showControls(child)));
  return parent;
}

function setProperties(element, properties) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value == null) continue;
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else if (name === 'style')
      for (const [key, style] of Object.entries(value)) element.style.setProperty(key, style);
    else if (name === 'axes')
      paintAxes(element, value);
    else if (name.startsWith('aria-'))
      element.setAttribute(name, showControls(value));
    else if (value !== false)
      element.setAttribute(name, value === true ? '' : showControls(value));
  }
}

/**
 * An element: `html('span.name', {title: 'x'}, child, 'text')`.
 * @param {string} tag with classes
 * @param {Object<string, any>} [properties] attributes, `onevent` listeners, `style`, `axes`
 * @returns {any}
 */
function html(tag, properties, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name || 'div');
  if (classes.length) element.className = classes.join(' ');
  setProperties(element, properties);
  return put(element, children);
}

/**
 * The same for SVG.
 * @param {string} tag
 * @param {Object<string, any>} [properties]
 * @returns {any}
 */
function svg(tag, properties, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElementNS(SVG, name);
  if (classes.length) element.setAttribute('class', classes.join(' '));
  setProperties(element, properties);
  return put(element, children);
}

function clear(element) {
  element.replaceChildren();
  return element;
}

const percent = share => 100 * share + '%';
const pixels = length => length + 'px';

/** "a, b and c" of nodes. */
function enumerate(nodes, word = 'and') {
  return nodes.map(
      (node, index) =>
          [index === 0                    ? null :
               index === nodes.length - 1 ? ` ${word} ` :
                                            ', ',
           node]);
}

/** A name that may break at its slashes. */
function nameNode(name) {
  return html(
      'span.name', {},
      shortName(name).split(/(?<=\/)/).map((part, index) => [index ? html('wbr') : null, part]));
}

/**
 * A button that stays pressed.
 * @returns {any}
 */
function toggle(label, pressed, act) {
  const button = html(
      'button.tool', {
        type: 'button',
        'aria-pressed': pressed,
        onclick: () => {
          const now = button.getAttribute('aria-pressed') !== 'true';
          button.setAttribute('aria-pressed', String(now));
          act(now);
        },
      },
      label);
  return button;
}

/** Buttons of which one is pressed, or none where `none` is true. */
function choice(labels, chosen, act, none = false) {
  // Of one there is nothing to choose.
  const buttons = labels.length < 2 ? [] :
                                      labels.map(
                                          ([key, label]) => html(
                                              'button', {
                                                type: 'button',
                                                'aria-pressed': key === chosen,
                                                onclick: () => {
                                                  chosen = none && chosen === key ? null : key;
                                                  show();
                                                  act(chosen);
                                                },
                                              },
                                              label));
  const show = () => buttons.forEach(
      (button, index) => button.setAttribute('aria-pressed', String(labels[index][0] === chosen)));
  const element = html('span.choice', {role: 'group'}, buttons);
  return {
    element,
    set(key) {
      chosen = key;
      show();
    }
  };
}

/**
 * The body of a table with the first rows of a list, and a button that adds the others, or null.
 * @param {(row: any) => Element} rowOf
 * @param {() => void} shown is called when they are there
 */
function firstRows(rows, count, rowOf, shown = () => {}) {
  const body = html('tbody', {}, rows.slice(0, count).map(rowOf));
  if (rows.length <= count) return {body, more: null};
  const onclick = () => {
    put(body, rows.slice(count).map(rowOf));
    more.remove();
    shown();
  };
  const more = html(
      'button.link.more', {type: 'button', onclick}, `${formatInteger(rows.length - count)} more`);
  return {body, more};
}

/** A bar as long as `share` of `length` pixels. */
function bar(share, length, properties = {}, ...classes) {
  return html(
      ['span.bar', ...classes].join('.'),
      {...properties, style: {width: pixels(Math.max(1, share * length)), ...properties.style}});
}

/** Bars behind each other, of shares of the room in a cell. */
const track = (...parts) => html(
    'span.track', {},
    parts.filter(([share]) => share > 0)
        .map(
            ([share, axes, kind]) => html(
                kind ? `span.bar.${kind}` : 'span.bar', {axes, style: {width: percent(share)}})));

/** A row that can be chosen with the pointer and, by the keys of the page, without. */
function pickable(element, index, act) {
  element.classList.add('pick');
  element.tabIndex = -1;
  element.dataset.index = String(index);
  element.addEventListener('click', act);
  return element;
}

// The one tip of the page, beside the pointer.
const tip = html('div.tip.hidden', {role: 'status'});

function showTip(event, children) {
  put(clear(tip), children);
  tip.classList.remove('hidden');
  moveTip(event);
}

/** @param {{clientX: number, clientY: number}} event */
function moveTip(event) {
  const {offsetWidth: width, offsetHeight: height} = tip;
  const below = event.clientY + height + 24 <= innerHeight;
  tip.style.setProperty(
      'left', pixels(Math.max(8, Math.min(innerWidth - width - 12, event.clientX + 14))));
  tip.style.setProperty('top', pixels(below ? event.clientY + 16 : event.clientY - height - 12));
}

const hideTip = () => tip.classList.add('hidden');

function tipOn(element, children) {
  // What listens to the focus would be a stop of Tab, each of a thousand devices too.
  if (element instanceof SVGElement && !element.hasAttribute('tabindex'))
    element.setAttribute('tabindex', '-1');
  element.addEventListener('pointerenter', event => showTip(event, children()));
  element.addEventListener('pointermove', moveTip);
  element.addEventListener('pointerleave', hideTip);
  // Without a pointer it stands beside what has the focus.
  element.addEventListener('focus', () => {
    if (!element.matches(':focus-visible')) return;
    const {right, bottom} = element.getBoundingClientRect();
    showTip({clientX: right - 8, clientY: bottom - 8}, children());
  });
  element.addEventListener('blur', hideTip);
  return element;
}
