// The palette, the help and every key.

/** @type {Element} */
let veil = null;
/** @type {HTMLElement} */
let before = null;

function closeVeil() {
  if (!veil) return;
  veil.remove();
  veil = null;
  if (before && before.isConnected) before.focus({preventScroll: true});
}

function openVeil(label, ...children) {
  closeVeil();
  before = /** @type {HTMLElement} */ (document.activeElement);
  veil = html(
      'div.veil', {
        onclick: event => {
          if (event.target === veil) closeVeil();
        }
      },
      html('div.palette', {role: 'dialog', 'aria-modal': true, 'aria-label': label}, children));
  document.body.append(veil);
}

/**
 * Everything that can be found: what it is, its name, a number, what happens.
 * @param {Page} page
 * @param {Section[]} sections
 */
function findable(page, sections) {
  const {plan} = page;
  const chosen = (item, view) => () => page.seek(item, view);
  const entries = sections.map(section => ({
                                 kind: 'view',
                                 name: section.view.name,
                                 note: '',
                                 act: () => page.show(section.view.id)
                               }));
  for (const value of plan.values)
    if (!value.inside)
      entries.push({
        kind: 'value',
        name: value.name,
        note: formatBytes(value.bytes),
        act: chosen({kind: 'value', index: value.index}, 'devices')
      });
  for (const one of plan.collectives)
    entries.push({
      kind: 'collective',
      name: `${idsText(one)} ${kindName(one.kind)} of ${one.of}`,
      note: formatBytes(one.sent),
      act: chosen({kind: 'collective', index: one.index}, 'ledger')
    });
  for (const operation of plan.operations)
    entries.push({
      kind: 'operation',
      name: `${operation.name} ${operation.phase}`,
      note: plan.timed ? formatTime(operation.time) : formatFlops(operation.flops),
      act: chosen({kind: 'operation', index: operation.index}, 'timeline')
    });
  for (const part of plan.parts.filter(one => isWorthRow(plan, one)))
    entries.push({
      kind: 'scope',
      name: part.name,
      note: plan.timed ? formatTime(part.whole.computed + part.whole.exposed) :
                         formatFlops(part.whole.flops),
      act: chosen({kind: 'part', index: part.index}, 'parts')
    });
  for (const axis of plan.axes)
    entries.push({
      kind: 'axis',
      name: axis.name,
      note: String(axis.size),
      act: chosen({kind: 'axis', index: axis.index}, 'mesh')
    });
  for (const line of plan.lines)
    if (line.text.trim()) {
      entries.push({
        kind: lineName(plan, line.index),
        name: line.text.trim(),
        note: '',
        act: chosen({kind: 'line', index: line.index}, 'source'),
      });
    }
  return entries;
}

/**
 * Devices, and by their ids members of folds, which have no entries of their own.
 * @param {Page} page
 */
function namedEntries(page, query) {
  const {plan} = page;
  const device = /^dev(?:ice)?\s*(\d+)$/.exec(query);
  if (device && Number(device[1]) < plan.devices) {
    const number = Number(device[1]);
    return [{
      kind: 'device',
      name: `${number} (${coordinatesText(plan, number)})`,
      note: '',
      act: () => {
        page.setDevice(number);
        page.show('devices');
      }
    }];
  }
  if (plan.operationOf.has(query)) {
    const operation = plan.operations[plan.operationOf.get(query)];
    const run = page.track.runs.find(candidate => candidate.id === query);
    return [{
      kind: 'operation',
      name: `${query}: ${run.name} ${operation.phase}`,
      note: plan.timed ? formatTime(run.time) : formatFlops(run.flops),
      act: () => {
        page.seek({kind: 'operation', index: operation.index}, 'timeline');
        page.showPlace(run);
      }
    }];
  }
  if (plan.valueOf.has(query)) {
    const value = plan.values[plan.valueOf.get(query)];
    return [{
      kind: 'value',
      name: `${query}: ${value.name}`,
      note: formatBytes(value.bytes),
      act: () => page.seek({kind: 'value', index: value.index}, 'devices')
    }];
  }
  // A transfer is told of by its largest member.
  const sending = plan.sendings.find(candidate => candidate.id === query);
  const member = sending ? sending.largest : query;
  if (!plan.collectiveOf.has(member)) return [];
  const one = plan.collectives[plan.collectiveOf.get(member)];
  const act = () => page.seek({kind: 'collective', index: one.index}, 'ledger');
  return [{
    kind: 'collective',
    name: `${query}: ${kindName(one.kind)} of ${one.of}`,
    note: formatBytes(one.sent),
    act
  }];
}

/** @param {Page} page @param {Section[]} sections */
function openPalette(page, sections) {
  const entries = findable(page, sections);
  const list = html('ul', {role: 'listbox', id: 'found'});
  const input = html('input', {
    placeholder: 'Value, operation (o4), collective (c17), device (dev 5), line, view',
    role: 'combobox',
    'aria-label': 'Find',
    'aria-controls': 'found',
    'aria-expanded': true,
    oninput: () => find()
  });
  let found = [];
  let current = 0;
  const act = entry => {
    closeVeil();
    entry.act();
  };
  function find() {
    const query = input.value.trim().toLowerCase();
    const words = query.split(/\s+/);
    const matching = entries.filter(
        entry => words.every(word => `${entry.kind} ${entry.name}`.toLowerCase().includes(word)));
    found = [...namedEntries(page, query), ...matching].slice(0, 40);
    current = 0;
    put(clear(list),
        found.map(
            (entry, index) => html(
                'li', {role: 'option', id: 'found-' + index, onclick: () => act(entry)},
                html('span.kind', {}, entry.kind), html('span.mono.cut', {}, entry.name),
                html('span.note', {}, entry.note))),
        found.length ? null : html('li.faint', {}, 'Nothing has such a name.'));
    mark();
  }
  function mark() {
    [...list.children].forEach(
        (child, index) =>
            child.setAttribute('aria-selected', String(found.length > 0 && index === current)));
    input.setAttribute('aria-activedescendant', found.length ? 'found-' + current : '');
    list.children[current]?.scrollIntoView({block: 'nearest'});
  }
  input.addEventListener('keydown', event => {
    event.stopPropagation();
    const move = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (move) {
      current = Math.max(0, Math.min(found.length - 1, current + move));
      mark();
    } else if (event.key === 'Enter') {
      if (found[current]) act(found[current]);
    } else if (event.key === 'Escape') {
      closeVeil();
    } else if (event.key !== 'Tab')
      return;
    event.preventDefault();
  });
  openVeil('Find', input, list);
  find();
  input.focus();
}

const HELP = [
  ['/', 'find a value, operation, collective, line, device or view'],
  ['↑ ↓', 'a row of the source or of the view; in the graph, what it is made from, what reads it'],
  ['Enter', 'select it'],
  ['← →', 'previous or next device; in the graph, value; in the timeline, earlier or later'],
  ['+ −', 'zoom the timeline'], ['1 … 9 0', 'a view'], ['t', 'light or dark'],
  ['Esc', 'select nothing'], ['?', 'this']
];

function openHelp() {
  const close = html('button.close', {type: 'button', onclick: closeVeil}, 'close');
  openVeil(
      'Keys', html('h3', {}, 'Keys', close),
      html(
          'div.help', {},
          HELP.map(
              ([keys, what]) =>
                  [html(
                       'span', {},
                       keys.split(' ').map(key => [key === '…' ? key : html('kbd', {}, key), ' '])),
                   html('span', {}, what)])));
  close.focus();
}

function isDark() {
  const {theme} = document.documentElement.dataset;
  return theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

/** @param {Page} page */
function switchTheme(page) {
  setTheme(page, isDark() ? 'light' : 'dark');
  writeHash(page);
}

/**
 * The list whose rows the arrows go through.
 * @type {HTMLElement}
 */
let arrowList = null;

/** The list that the focus is in, or else the first of the view that it is in. */
function listOfFocus(focused) {
  const view = focused.closest('section.view');
  return focused.closest('[data-list]') ||
      (view                                   ? view.querySelector('[data-list]') :
           arrowList && arrowList.isConnected ? arrowList :
                                                document.querySelector('[data-list="line"]'));
}

/** Moves the focus to another row, or into a drawing. */
function moveRow(step) {
  const focused = /** @type {HTMLElement} */ (document.activeElement);
  const list = listOfFocus(focused);
  const rows = list ? [...list.querySelectorAll('[data-index]')] : [];
  if (!rows.length) return;
  arrowList = list;
  let at = rows.indexOf(focused);
  if (at < 0) at = rows.findIndex(row => row.classList.contains('selected'));
  const stop = list.querySelector('[data-index][tabindex="0"]');
  (stop || rows[Math.max(0, Math.min(rows.length - 1, at + step))]).focus();
}

/** Selects the row with the focus, which stays on it when the view is drawn anew. */
function chooseRow() {
  const row = /** @type {HTMLElement} */ (document.activeElement);
  const list = /** @type {HTMLElement} */ (row.closest('[data-list]'));
  if (!list || !row.dataset.index) return false;
  const kind = list.dataset.list;
  row.click();
  const again = /** @type {HTMLElement} */ (
      document.querySelector(`[data-list="${kind}"] [data-index="${row.dataset.index}"]`));
  if (again) again.focus({preventScroll: true});
  return true;
}

/** @param {Page} page @param {Section[]} sections */
function listenToKeys(page, sections, places) {
  const timeline = sections.find(section => section.view.id === 'timeline');
  const timelineSeen = () => {
    if (!timeline) return false;
    const {top, bottom} = timeline.element.getBoundingClientRect();
    return top < innerHeight * 0.6 && bottom > innerHeight * 0.3;
  };
  const sideways = step => {
    if (timelineSeen() && timeline.parts && timeline.parts.pan)
      timeline.parts.pan(step * 0.25);
    else
      page.setDevice(page.device + step);
  };
  const zoom = factor =>
      timeline && timeline.parts && timeline.parts.zoom && timeline.parts.zoom(factor);
  const keys = {
    '/': () => openPalette(page, sections),
    '?': openHelp,
    t: () => switchTheme(page),
    '+': () => zoom(0.5),
    '=': () => zoom(0.5),
    '-': () => zoom(2),
    ArrowLeft: () => sideways(-1),
    ArrowRight: () => sideways(1),
    ArrowDown: () => moveRow(1),
    ArrowUp: () => moveRow(-1),
    Escape: () => veil ? closeVeil() : page.select(null),
  };
  addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (veil && event.key !== 'Escape') return;
    if (target.matches('input:not([type=range]), select')) {
      if (event.key === 'Escape') target.blur();
      return;
    }
    if (target.matches('input[type=range]') && event.key.startsWith('Arrow')) return;
    if (event.key === 'Enter') {
      if (chooseRow()) event.preventDefault();
    } else if (/^\d$/.test(event.key)) {
      const place = places[(Number(event.key) + 9) % 10];
      if (place) page.show(place.id);
    } else if (Object.hasOwn(keys, event.key)) {
      keys[event.key]();
      event.preventDefault();
    }
  });
}
