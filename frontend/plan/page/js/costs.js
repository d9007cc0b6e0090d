// What costs most of the time and of the memory, in words.

/**
 * Three costs under a heading.
 * @param {{number: string, share: number, size: number, item: Item, properties: any, text: any}[]} items
 * @param {Page} page
 */
function costColumns(page, heading, rest, items) {
  const most = Math.max(1e-9, largest(items, item => item.size));
  return html(
      'div.costs', {}, html('h2', {}, html('span', {}, heading), html('span', {}, rest)),
      items.map(
          cost => html(
              'div', {},
              html(
                  'div.cost', {},
                  html(
                      'button', {type: 'button', onclick: () => showCost(page, cost)}, cost.number),
                  html('span.share', {}, formatShare(cost.share))),
              html('div.length', {
                ...cost.properties,
                style: {
                  width: percent(Math.max(0.01, cost.size / most)),
                  ...(cost.properties || {}).style
                }
              }),
              html('p', {}, cost.text))));
}

/** Where what costs is seen; what is no value is among what is alive. */
const COST_VIEWS = {
  collective: 'ledger',
  line: 'source',
  value: 'memory'
};

/** @param {Page} page @param {{item: Item}} cost */
const showCost = (page, {item}) =>
    item ? page.seek(item, COST_VIEWS[item.kind]) : page.show('memory');

/**
 * What takes longest; without times, what sends most.
 * @param {Page} page
 */
function timeCosts(page) {
  const {plan} = page;
  const {step, sent} = plan.totals;
  const waits =
      plan.collectives.map(one => ({
                             size: plan.timed ? one.exposed : one.sent,
                             item: {kind: /** @type {Kind} */ ('collective'), index: one.index}
                           }));
  const lines = plan.timed ?
      costOfLines(plan).map(
          (cost, index) =>
              ({size: cost.computed, item: {kind: /** @type {Kind} */ ('line'), index}})) :
      [];
  const whole = plan.timed ? step : sent;
  const top = [...waits, ...lines]
                  .filter(cost => cost.size > 0)
                  .sort((a, b) => b.size - a.size)
                  .slice(0, 3);
  const items =
      top.map(({size, item}) => ({
                number: plan.timed ? formatTime(size) : formatBytes(size),
                share: size / whole,
                size,
                item,
                properties: item.kind === 'line' ? {style: {background: 'var(--c1)'}} :
                                                   {axes: plan.collectives[item.index].axes},
                text: item.kind === 'line' ? computeSentence(page, item.index) :
                                             waitSentence(page, plan.collectives[item.index]),
              }));
  const rest = items.length ? `together ${formatShare(sum(top, cost => cost.size) / whole)} of ${
                                  plan.timed ? `the ${plan.execution}` : 'what is sent'}` :
                                               'nothing is sent';
  return costColumns(page, plan.timed ? 'Where the time goes' : 'What is sent', rest, items);
}

/** @param {Page} page @param {Collective} one */
function waitSentence(page, one) {
  const {plan} = page;
  const sent = plan.timed ? `, ${formatBytes(one.wire)} sent` : '';
  return [
    html(
        'b', {},
        plan.timed ? `Waiting for the ${kindName(one.kind)}` : `The ${kindName(one.kind)}`),
    ' of ', html('code', {}, one.of), sent, one.count > 1 ? ` × ${one.count}` : '',
    becauseClause(page, one)
  ];
}

/** @param {Page} page */
function computeSentence(page, line) {
  const operations = page.plan.operations.filter(operation => operation.line === line)
                         .sort((a, b) => b.time - a.time);
  const phases = unique(page.plan.operations.map(operation => operation.phase))
                     .filter(phase => operations.some(operation => operation.phase === phase));
  const flops = sum(operations, operation => operation.flops);
  return [
    html('b', {}, 'Computing '), lineLink(page, line),
    `: ${formatFlops(flops)} in ${enumerateWords(phases)}, most of it in `,
    html('code', {}, operations[0].name), '.'
  ];
}

const enumerateWords = words => words.length < 2 ?
    words.join('') :
    `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`;

/** @param {Page} page */
function memoryCosts(page) {
  const {plan} = page;
  const peak = plan.memory.peak_bytes_per_device;
  const top = peakGroups(plan).slice(0, 3);
  const items = top.map(
      group => ({
        number: formatBytes(group.bytes),
        share: group.bytes / peak,
        size: group.bytes,
        item: group.value ? {kind: /** @type {Kind} */ ('value'), index: group.value.index} : null,
        properties: {style: {background: `var(--m${CATEGORIES.indexOf(group.category)})`}},
        text: memorySentence(page, group),
      }));
  return costColumns(
      page, 'Where the memory goes',
      `together ${formatShare(sum(top, group => group.bytes) / peak)} of the peak`, items);
}

/** @param {Page} page */
function memorySentence(page, group) {
  const {plan} = page;
  const {value} = group;
  const name = html('b', {}, html('code', {}, group.name));
  const line = value && value.line >= 0 ? [' ', inParentheses(lineLink(page, value.line))] : '';
  if (!LASTING.includes(group.category)) {
    const why = {
      activations: ' that wait to be read',
      workspace: ' of workspace',
      gradients: ' of gradients',
      communication: ' of what is sent'
    }[group.category] ||
        '';
    const many = group.count > 1 ? `, ${group.count} buffers${why}` :
        group.category === 'workspace' ? ', workspace and no value of the program' :
                                         '';
    return [name, many, line, '.'];
  }
  const used = value ? axesUsed(plan, value) : new Set();
  const rest = value ? plan.axes.filter(axis => !used.has(axis.index) && axis.size > 1) : [];
  const copies = product(rest.map(axis => axis.size));
  return [
    name,
    group.states ? ` and its state, ${formatCount(group.count, 'tensor')}` :
        group.count > 1 ? `, ${group.count} tensors` :
                          '',
    line,
    copies > 1 ?
        [
          copies === 2 ? '. Both devices along ' : `. All ${formatInteger(copies)} devices along `,
          enumerate(rest.map(axis => axisChip(axis.index))), ' hold the same.'
        ] :
        '.'
  ];
}
