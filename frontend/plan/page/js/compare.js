// Plans beside each other: A is the one that the page shows. Quantities are those of all plans,
// values and messages those of A and one other.

const COMPARED = 12;

/** "A", "B"; a page has no more plans than letters. */
const letterOf = index => String.fromCharCode(65 + index);

/** @type {View} */
const compareView = {
  id: 'compare',
  name: 'Compare',
  title: 'What another plan would do',
  height: 900,
  text: page => page.others.length > 1 ?
      'A is the plan of this page. Below the bars, it beside one of the others: what differs, ' +
          'largest difference first.' + exposedNote(page.plan) :
      'A is the plan of this page, B the other. What differs, largest difference first.' +
          exposedNote(page.plan),
  occurs: () => false,
  exists: page => page.others.length > 0,
  build(page) {
    const {plan, others} = page;
    const plans = [plan, ...others];
    const details = html('div');
    const draw = index =>
        put(clear(details), html('h3.part', {}, 'Layout'), comparedLayouts(page, index),
            html('h3.part', {}, 'Messages'), comparedMessages(page, index));
    draw(1);
    const chosen = choice(
        others.map((_, index) => [index + 1, `A and ${letterOf(index + 1)}`]), 1,
        index => draw(index));
    return {
      body: html(
          'div', {},
          html(
              'ul.labels', {},
              plans.map(
                  (one, index) => html(
                      'li', {}, swatch(colorOf(index)), html('b', {}, letterOf(index)),
                      labelNode(one, plans)))),
          comparedTotals(plans), others.length > 1 ? html('p.sum', {}, chosen.element) : null,
          details)
    };
  },
};

/** A is dark, all others are pale. */
const colorOf = index => index ? 'var(--c2)' : 'var(--c1)';

/** @param {Plan} plan */
const rulesOf = plan =>
    plan.rules.map(rule => rule.text.replace('->', '→')).join(', ') || 'nothing is split';

/**
 * What tells a plan from another: its rules, and of model, mesh and machine what is not alike.
 * @param {Plan} plan @param {Plan[]} plans
 */
function labelNode(plan, plans) {
  const differs = get => plans.some(other => get(other) !== get(plan));
  const meshOf = one => one.axes.map(axis => `${axis.name}=${axis.size}`).join(',');
  const machineOf = one => one.machine ? one.machine.label : 'no machine';
  const mesh = differs(meshOf) ? ` on ${meshOf(plan)}` : '';
  const words = [
    differs(one => one.json.spec.sha256) || mesh ? plan.model + mesh : null,
    differs(machineOf) ? machineOf(plan) : null
  ].filter(Boolean);
  return html('code', {}, words.length ? `${words.join(', ')}: ` : '', rulesOf(plan));
}

/** "2.61 ×" from doubling on, else "+ 12 %". */
function changeText(a, b, format) {
  if (a === b) return 'same';
  if (a > 0 && b >= 2 * a) return `${formatFactor(b / a)} ×`;
  return `${b > a ? '+' : '−'} ${
      a > 0 ? formatShare(Math.abs(b - a) / a) : format(Math.abs(b - a))}`;
}

/**
 * "data+model" of what is sent over both, however each plan orders them.
 * @param {Plan} plan @param {Collective} one
 */
const axesNamed = (plan, one) => one.axes.map(axis => plan.axes[axis].name).sort().join('+');

/** @param {Plan[]} plans */
function comparedTotals(plans) {
  const sentOver = names => plan =>
      sum(plan.collectives.filter(one => axesNamed(plan, one) === names), one => one.sent);
  // What is sent over two axes at once is a row of its own, so that the rows add up.
  const sets = unique([
                 ...plans[0].axes.map(axis => axis.name),
                 ...plans.flatMap(plan => plan.collectives.map(one => axesNamed(plan, one)))
               ]).filter(names => plans.some(plan => sentOver(names)(plan) > 0));
  const timed = plans.every(plan => plan.timed);
  const rows = [
    [
      'memory at the peak', plan => plan.memory.peak_bytes_per_device, formatBytes,
      plan => plan.limit && plan.memory.peak_bytes_per_device > plan.limit
    ],
    ...timed ?
        [
          [`${plans[0].execution}, predicted`, plan => plan.totals.step, formatTime],
          ['waiting for messages', plan => plan.totals.exposed, formatTime]
        ] :
        [],
    ['computed by a device', plan => plan.totals.flops, formatFlops],
    ...sets.map(
        names =>
            [html('span', {}, 'sent over ', names.split('+').map((name, place) => {
               const axis = plans[0].axes.find(candidate => candidate.name === name);
               return [place ? ' + ' : null, axis ? axisChip(axis.index) : html('code', {}, name)];
             })),
             sentOver(names), formatBytes]),
    ['collectives', plan => sum(plan.collectives, one => one.count), formatInteger]
  ];
  return html('div.compared', {}, rows.map(([name, get, format, isOver]) => {
    const numbers = plans.map(get);
    const most = Math.max(...numbers) || 1;
    return [
      html('div.compared-name', {style: {'grid-row': `span ${plans.length}`}}, name),
      numbers.map(
          (number, index) =>
              [html('span', {class: index ? 'faint' : 'faint first'}, letterOf(index)),
               html(
                   'div', {},
                   number > 0 ? html('div.bar', {
                     style: {width: percent(number / most), background: colorOf(index)}
                   }) :
                                null),
               html(
                   'span', {},
                   html(
                       'span', {class: isOver && isOver(plans[index]) ? 'over' : null},
                       format(number)),
                   index ? html('span.faint', {}, '  ' + changeText(numbers[0], number, format)) :
                           null)])
    ];
  }));
}

/** A table of which the first rows are shown. */
function longTable(name, head, rows, rowOf) {
  const {body, more} = firstRows(rows, COMPARED, rowOf);
  return html(
      'div', {},
      html(
          'div.scroll', {},
          html('table.matrix', {'data-list': name}, html('thead', {}, head), body)),
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

/** @param {Page} page @param {number} index of the other plan */
function comparedLayouts(page, index) {
  const {plan} = page;
  const other = page.others[index - 1];
  const letter = letterOf(index);
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
    const axis = plan.axes.find(candidate => candidate.name === name);
    return html(
        'th', {}, axis ? html('span.axis', {axes: [axis.index]}, which) : `${name} ${which}`);
  });
  const head = html(
      'tr', {},
      html(
          'th', {},
          pairs.length === 1 ? '1 value is split otherwise' :
                               `${formatInteger(pairs.length)} values are split otherwise`),
      heads('A'), heads(letter), html('th.right', {}, 'bytes, A'), html('th.right', {}, letter));
  return longTable(
      'compared value', head, pairs,
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

/** @param {Page} page @param {number} index of the other plan */
function comparedMessages(page, index) {
  const {plan} = page;
  const other = page.others[index - 1];
  const letter = letterOf(index);
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
      html('th', {}, 'of'), html('th.right', {}, 'count, A'), html('th.right', {}, letter),
      html('th.right', {}, 'sent, A'), html('th.right', {}, letter),
      timed ? [html('th.right', {}, 'exposed, A'), html('th.right', {}, letter)] : null);
  return longTable('compared message', head, rows, row => {
    const {one, names} = row.a || row.b;
    const element = html(
        'tr', {}, html('td', {}, html('b', {}, row.sign)),
        html('td', {}, `${kindName(one.kind)} `, html('span.small.faint', {}, names)),
        html('td', {}, nameNode(one.of), html('div.small.faint', {}, one.phase)),
        pair(row, own => own.count), pair(row, own => formatBytes(own.sent)),
        timed ? pair(row, own => formatTime(own.exposed)) : null);
    return row.a ? pickable(
                       element, row.a.one.index,
                       () => page.select({kind: 'collective', index: row.a.one.index})) :
                   element;
  });
}
