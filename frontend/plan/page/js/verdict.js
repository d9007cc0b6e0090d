// The answer: whether it fits, how long a step takes, what costs most.

/** @type {View} */
const verdictView = {
  id: 'verdict',
  name: 'Verdict',
  title: 'Verdict',
  height: 700,
  text: () => '',
  occurs: () => false,
  build(page) {
    const {plan} = page;
    const costs = [timeCosts(page), memoryCosts(page)];
    if (!fitsMemory(plan)) costs.reverse();
    // The answer stands there since before the plan was read.
    document.querySelectorAll('#verdict button.axis')
        .forEach(
            (button, index) =>
                button.addEventListener('click', () => page.select({kind: 'axis', index})));
    return {
      body: html(
          'div', {},
          html('div.totals', {}, memoryTotal(plan), plan.timed ? stepTotal(plan) : sentTotal(plan)),
          costs, verdictNotes(page))
    };
  },
};

/** @param {Plan} plan */
const fitsMemory = plan => !plan.limit || plan.memory.peak_bytes_per_device <= plan.limit;

/** @param {Plan} plan  as far as `readAnswer` reads it */
function eyebrow(plan) {
  return html(
      'div.eyebrow', {}, html('b', {}, formatCount(plan.devices, 'device')),
      plan.axes.map(
          axis => html(
              'button.axis', {
                type: 'button',
                axes: [axis.index],
                title: `Everything that is split over ${axis.name}`,
              },
              `${axis.name} ${axis.size}`)),
      html(
          'span.faint', {},
          plan.machine ? plan.machine.label : `target ${plan.json.target}, no machine named`));
}

/** @param {Plan} plan */
function headline(plan) {
  const peak = plan.memory.peak_bytes_per_device;
  const soft = (...parts) => html('span.soft', {}, parts);
  if (!fitsMemory(plan))
    return html(
        'h1', {}, html('span.over', {}, 'Does not fit. '),
        `${formatBytes(peak)} where ${formatBytes(plan.limit)} are there`,
        soft(` on each device. If it did, ${anExecution(plan)} would ${costClause(plan, '')}`));
  const cost = `${capital(anExecution(plan))} ${costClause(plan, 's')}${partsClause(plan)}`;
  if (plan.limit)
    return html(
        'h1', {}, `Fits. ${formatBytes(peak)} of ${formatBytes(plan.limit)}`,
        soft(` on each device. ${cost}`));
  if (!plan.timed)
    return html('h1', {}, `${formatBytes(peak)} on each device`, soft(` at the peak. ${cost}`));
  const [time, ...rest] = cost.split(',');
  return html('h1', {}, time, soft(',', rest.join(',')));
}

/**
 * "takes 2 ms, 18 % of it waiting for messages." with this ending of its verbs.
 * @param {Plan} plan
 */
function costClause(plan, ending) {
  const {totals} = plan;
  if (!plan.timed)
    return `compute${ending} ${formatFlops(totals.flops)} there and send${ending} ${
        formatBytes(totals.sent)}. ${untimedClause(plan)}, so there are no times.`;
  const waiting = totals.exposed > 0 ? formatShare(totals.exposed / totals.step) : 'none';
  return `take${ending} ${formatTime(totals.step)}, ${waiting} of it waiting for messages.`;
}

/**
 * What all parts of a step come to, where it has some.
 * @param {Plan} plan
 */
function partsClause(plan) {
  if (!plan.firstParts) return '';
  const {flops, sent, step} = plan.whole;
  return ` All parts ${
      plan.timed ? `take ${formatTime(step)}` :
                   `compute ${formatFlops(flops)} and send ${formatBytes(sent)}`}.`;
}

/**
 * What GPUs refuse, and devices that have nothing to do, or what others do too.
 * @param {Page} page
 */
function verdictNotes(page) {
  const {refused, waste} = page.plan;
  const list = (heading, items) => items.length ?
      html(
          'div.costs.notes', {}, html('h2', {}, html('span', {}, heading)),
          html('ul', {}, items.map(item => html('li', {}, item)))) :
      null;
  return [
    list('What GPUs cannot run', refused),
    list(
        'Where devices are wasted',
        waste.map(
            one =>
                [splitNode(page, one.text, 'span'),
                 one.line >= 0 ? [' ', inParentheses(lineLink(page, one.line))] : null]))
  ];
}

/**
 * A number, a bar of parts to one scale, and their key.
 * @param {{text: any, size: number, properties: any, key: any}[]} parts
 */
function totalRow(number, caption, label, parts, scale, limit = null) {
  const segments =
      parts.filter(part => part.size > 0)
          .map(part => html('i', {
                 ...part.properties,
                 style: {width: percent(part.size / scale), ...(part.properties || {}).style}
               }));
  return [
    html('div', {}, html('div.big', {}, number), html('div.caption', {}, caption)),
    html(
        'div', {}, html('div.whole', {role: 'img', 'aria-label': label}, segments, limit),
        html('div.key', {}, parts.map(part => part.key)))
  ];
}

const swatch = color => html('span.swatch', {style: {background: color}});

/** @param {Plan} plan */
function memoryTotal(plan) {
  const {limit} = plan;
  const peak = plan.memory.peak_bytes_per_device;
  const fits = fitsMemory(plan);
  const alone = !limit || peak < 0.4 * limit;
  const scale = alone ? peak : Math.max(peak, limit);
  const parts =
      CATEGORIES
          .map(
              (category, index) =>
                  ({category, color: `var(--m${index})`, size: plan.memory[category] || 0}))
          .filter(part => part.size > 0)
          .map(part => ({
                 text: part.category,
                 size: part.size,
                 properties: {
                   title: `${part.category} ${formatBytes(part.size)}`,
                   style: {background: part.color}
                 },
                 key: html(
                     'span', {}, swatch(part.color), `${part.category} ${formatBytes(part.size)}`),
               }));
  const mark = alone ? null :
                       html(
                           'span.limit', {style: {left: percent(limit / scale)}},
                           html(
                               'b', {class: limit / scale > 0.8 ? 'before' : null},
                               `${formatBytes(limit)} on a device`));
  const caption = !limit ? 'at the peak' :
      fits               ? `at the peak, ${formatShare(peak / limit)} of the device` :
                           `at the peak, ${formatFactor(peak / limit)} × the device`;
  return totalRow(
      html('span', {class: fits ? null : 'over'}, formatBytes(peak)), caption,
      `Memory at the peak: ${formatBytes(peak)}`, parts, scale, mark);
}

/**
 * Sums over the collectives of each set of axes, most sent first.
 * @param {Plan} plan
 */
function sumsByAxes(plan) {
  const sums = new Map();
  for (const one of plan.collectives) {
    const key = one.axes.join();
    const own = sums.get(key) || {axes: one.axes, sent: 0, time: 0, exposed: 0, count: 0};
    own.sent += one.sent;
    own.time += one.time;
    own.exposed += one.exposed;
    own.count += one.count;
    sums.set(key, own);
  }
  return [...sums.values()].sort((a, b) => b.sent - a.sent);
}

/** @param {Plan} plan */
function stepTotal(plan) {
  const {step, compute} = plan.totals;
  const computed = {
    text: 'compute',
    size: compute,
    properties: {title: `computing ${formatTime(compute)}`, style: {background: 'var(--c1)'}},
    key: html('span', {}, swatch('var(--c1)'), `computing ${formatTime(compute)}`)
  };
  const parts = sumsByAxes(plan).map(
      own => ({
        text: axesName(own.axes),
        size: own.exposed,
        properties:
            {axes: own.axes, title: `waiting for ${axesName(own.axes)} ${formatTime(own.exposed)}`},
        key: html(
            'span', {}, html('span.axis', {axes: own.axes}, axesName(own.axes)),
            `${formatBytes(own.sent)} sent, ${formatTime(own.exposed)} exposed`,
            own.time - own.exposed > 0.001 * own.time ?
                html('span.faint', {}, `${formatTime(own.time - own.exposed)} behind computation`) :
                null),
      }));
  return totalRow(
      formatTime(step), `${anExecution(plan)}, predicted`,
      `${capital(plan.execution)}: ${formatTime(step)}`, [computed, ...parts], step);
}

/** @param {Plan} plan */
function sentTotal(plan) {
  const parts = sumsByAxes(plan).map(
      own => ({
        text: axesName(own.axes),
        size: own.sent,
        properties:
            {axes: own.axes, title: `sent over ${axesName(own.axes)}: ${formatBytes(own.sent)}`},
        key: html(
            'span', {}, html('span.axis', {axes: own.axes}, axesName(own.axes)),
            `${formatBytes(own.sent)} in ${formatCount(own.count, 'collective')}`),
      }));
  if (!parts.length)
    return totalRow(
        formatBytes(0), `sent by a device in ${anExecution(plan)}`, 'Nothing is sent', [], 1);
  return totalRow(
      formatBytes(plan.totals.sent), `sent by a device in ${anExecution(plan)}`,
      `Sent: ${formatBytes(plan.totals.sent)}`, parts, sum(parts, part => part.size));
}

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
                  cost.item ?
                      html(
                          'button', {type: 'button', onclick: () => page.select(cost.item, true)},
                          cost.number) :
                      cost.number,
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
