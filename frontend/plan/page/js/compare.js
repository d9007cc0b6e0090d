// Two plans beside each other: A is the one that the page shows, B the other.

const COMPARED = 12;

/** @type {View} */
const compareView = {
  id: 'compare',
  name: 'Compare',
  title: 'What another plan would do',
  height: 900,
  text: () => 'A is the plan of this page, B the other. What differs, largest difference first.',
  occurs: () => false,
  exists: page => page.others.length > 0,
  build(page) {
    const {plan, others} = page;
    const body = html('div');
    const draw = other => put(
        clear(body),
        html(
            'p.labels', {}, html('span', {}, swatch('var(--c1)'), ' A  ', labelNode(plan)),
            html('span', {}, swatch('var(--c2)'), ' B  ', labelNode(other))),
        comparedTotals(plan, other), html('h3.part', {}, 'Layout'), comparedLayouts(page, other),
        html('h3.part', {}, 'Messages'), comparedMessages(page, other));
    draw(others[0]);
    const chosen = choice(
        others.map((other, index) => [index, rulesOf(other)]), 0, index => draw(others[index]));
    return {controls: others.length > 1 ? [chosen.element] : [], body};
  },
};

/** @param {Plan} plan */
const rulesOf = plan => plan.dims.filter(dim => dim.axes.length)
                            .map(dim => `${dim.name} → ${dim.axes.join(' + ')}`)
                            .join(', ') ||
    'nothing is split';

/**
 * What tells a plan from another: its mesh and rules.
 * @param {Plan} plan
 */
function labelNode(plan) {
  const mesh = plan.axes.map(axis => `${axis.name}=${axis.size}`).join(',');
  return html(
      'code', {},
      `${plan.model} on ${mesh}: ${rulesOf(plan)}${plan.timed ? `, ${plan.machine.label}` : ''}`);
}

/** "2.61 ×" from doubling on, else "+ 12 %". */
function changeText(a, b, format) {
  if (a === b) return 'same';
  if (a > 0 && b >= 2 * a) return `${formatFactor(b / a)} ×`;
  return `${b > a ? '+' : '−'} ${
      a > 0 ? formatShare(Math.abs(b - a) / a) : format(Math.abs(b - a))}`;
}

/** @param {Plan} plan @param {Plan} other */
function comparedTotals(plan, other) {
  const sentOver = (one, name) =>
      sum(one.collectives.filter(
              collective => collective.axes.some(axis => one.axes[axis].name === name)),
          collective => collective.sent);
  const count = one => sum(one.collectives, collective => collective.count);
  const names = unique([...plan.axes, ...other.axes].map(axis => axis.name));
  const rows = [
    [
      'memory at the peak', plan.memory.peak_bytes_per_device, other.memory.peak_bytes_per_device,
      formatBytes
    ],
    ['computed by a device', plan.totals.flops, other.totals.flops, formatFlops]
  ];
  if (plan.timed && other.timed)
    rows.push(
        ['step, predicted', plan.totals.step, other.totals.step, formatTime],
        ['waiting for messages', plan.totals.exposed, other.totals.exposed, formatTime]);
  for (const name of names) {
    const axis = plan.axes.find(candidate => candidate.name === name);
    rows.push([
      html('span', {}, 'sent over ', axis ? axisChip(axis.index) : html('code', {}, name)),
      sentOver(plan, name), sentOver(other, name), formatBytes
    ]);
  }
  rows.push(['collectives', count(plan), count(other), formatInteger]);
  return html('div.compared', {}, rows.map(([name, a, b, format]) => {
    const most = Math.max(a, b) || 1;
    const length = size => ({style: {width: percent(size / most)}});
    return [
      html('div.compared-name', {}, name), html('div.bar.computed', length(a)),
      html('span', {}, format(a)), html('div.bar.bytes', length(b)),
      html('span', {}, format(b), html('span.faint', {}, '  ' + changeText(a, b, format)))
    ];
  }));
}

/** A table of which the first rows are shown. */
function longTable(head, rows, rowOf) {
  const body = html('tbody', {}, rows.slice(0, COMPARED).map(rowOf));
  const more = rows.length > COMPARED ? html(
                                            'button.link.more', {
                                              type: 'button',
                                              onclick: () => {
                                                body.append(...rows.slice(COMPARED).map(rowOf));
                                                more.remove();
                                              },
                                            },
                                            `${rows.length - COMPARED} more`) :
                                        null;
  return html(
      'div', {}, html('div.scroll', {}, html('table.matrix', {}, html('thead', {}, head), body)),
      more);
}

/**
 * How an axis of a name is used by a value.
 * @param {Plan} plan
 * @param {Value} value
 */
function useOf(plan, value, name) {
  const axis = plan.axes.find(candidate => candidate.name === name);
  if (!axis) return '';
  const dim = value.dims.find(candidate => axesOf(plan, candidate.axes).includes(axis.index));
  if (dim) return dim.name;
  return value.partial && axesOf(plan, value.partial.axes).includes(axis.index) ? 'Σ' : '';
}

/** @param {Page} page @param {Plan} other */
function comparedLayouts(page, other) {
  const {plan} = page;
  const names = unique([...plan.axes, ...other.axes].map(axis => axis.name));
  const pairs = [];
  const seen = new Set();
  for (const value of plan.values) {
    const index = other.valueNamed.get(value.names[0]);
    if (value.inside || value.role === 'state' || index == null || seen.has(value.name)) continue;
    seen.add(value.name);
    const twin = other.values[index];
    if (names.some(name => useOf(plan, value, name) !== useOf(other, twin, name)))
      pairs.push({value, twin});
  }
  pairs.sort(
      (a, b) => Math.abs(b.twin.bytes - b.value.bytes) - Math.abs(a.twin.bytes - a.value.bytes));
  if (!pairs.length) return html('p.faint', {}, 'Every value is split alike.');
  const cell = (own, value, name, same) => {
    const axis = own.axes.find(candidate => candidate.name === name);
    if (!axis) return html('td.along', {}, '');
    const shown = page.plan.axes.findIndex(candidate => candidate.name === name);
    const use = useOf(own, value, name);
    const node = use === 'Σ' ? html('span.cell.term', {axes: shown >= 0 ? [shown] : []}, 'Σ') :
        use                  ? html('span.cell', {axes: shown >= 0 ? [shown] : []}, use) :
                               html('span.cell.copies', {}, `× ${axis.size}`);
    return html('td.along', {class: same ? 'along same' : 'along'}, node);
  };
  const heads = which => names.map(name => {
    const index = plan.axes.findIndex(axis => axis.name === name);
    return html(
        'th', {}, index >= 0 ? html('span.axis', {axes: [index]}, which) : `${name} ${which}`);
  });
  const head = html(
      'tr', {},
      html(
          'th', {},
          pairs.length === 1 ? '1 value is split otherwise' :
                               `${formatInteger(pairs.length)} values are split otherwise`),
      heads('A'), heads('B'), html('th.right', {}, 'bytes, A'), html('th.right', {}, 'B'));
  return longTable(
      head, pairs,
      ({value, twin}) => pickable(
          html(
              'tr', {}, html('td', {}, nameNode(value.name), timesNode(value)),
              names.map(
                  name => cell(
                      plan, value, name, useOf(plan, value, name) === useOf(other, twin, name))),
              names.map(
                  name => cell(
                      other, twin, name, useOf(plan, value, name) === useOf(other, twin, name))),
              html('td.right', {}, formatBytes(value.bytes)),
              html('td.right', {}, formatBytes(twin.bytes))),
          value.index, () => page.select({kind: 'value', index: value.index})));
}

/** @param {Page} page @param {Plan} other */
function comparedMessages(page, other) {
  const {plan} = page;
  /** @param {Plan} own */
  const sumsOf = own => {
    const sums = new Map();
    for (const one of own.collectives) {
      const names = one.axisNames.join(' + ');
      const key = [one.kind, names, one.phase, one.cause.operand].join('\n');
      const row = sums.get(key) || {one, names, count: 0, sent: 0, exposed: 0};
      row.count += one.count;
      row.sent += one.sent;
      row.exposed += one.exposed;
      sums.set(key, row);
    }
    return sums;
  };
  const ours = sumsOf(plan);
  const theirs = sumsOf(other);
  const rows = [];
  for (const key of new Set([...ours.keys(), ...theirs.keys()])) {
    const a = ours.get(key);
    const b = theirs.get(key);
    if (!a || !b || a.sent !== b.sent || a.count !== b.count)
      rows.push({a, b, sign: !b ? '−' : !a ? '+' : '±'});
  }
  const size = row => Math.abs((row.b ? row.b.sent : 0) - (row.a ? row.a.sent : 0));
  rows.sort((a, b) => size(b) - size(a));
  if (!rows.length) return html('p.faint', {}, 'The same messages are sent.');
  const timed = plan.timed && other.timed;
  const pair =
      ({a, b},
       get) => [html('td.right', {}, a ? get(a) : '–'), html('td.right', {}, b ? get(b) : '–')];
  const head = html(
      'tr', {}, html('th'),
      html('th', {}, `${formatCount(rows.length, 'kind')} of messages differ`),
      html('th', {}, 'of'), html('th.right', {}, 'count, A'), html('th.right', {}, 'B'),
      html('th.right', {}, 'sent, A'), html('th.right', {}, 'B'),
      timed ? [html('th.right', {}, 'exposed, A'), html('th.right', {}, 'B')] : null);
  return longTable(head, rows, row => {
    const {one, names} = row.a || row.b;
    const element = html(
        'tr', {}, html('td', {}, html('b', {}, row.sign)),
        html('td', {}, `${kindName(one.kind)} `, html('span.small.faint', {}, names)),
        html('td', {}, nameNode(one.cause.operand), html('span.small.faint', {}, ` ${one.phase}`)),
        pair(row, own => own.count), pair(row, own => formatBytes(own.sent)),
        timed ? pair(row, own => formatTime(own.exposed)) : null);
    return row.a ? pickable(
                       element, row.a.one.index,
                       () => page.select({kind: 'collective', index: row.a.one.index})) :
                   element;
  });
}
