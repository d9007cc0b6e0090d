// The answer: whether it fits and how long a step takes.

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
    put(document.querySelector('#verdict h1'), measuredHeadline(plan));
    const costs = [timeCosts(page), memoryCosts(page)];
    if (!fitsMemory(plan)) costs.reverse();
    // The answer stands there since before the plan was read.
    document.querySelectorAll('#verdict button.axis')
        .forEach(
            (button, index) =>
                button.addEventListener('click', () => page.seek({kind: 'axis', index}, 'mesh')));
    return {
      body: html(
          'div', {},
          html(
              'div.totals', {}, memoryTotal(page),
              plan.timed ? stepTotal(plan) : [sentTotal(plan), measuredTotal(plan)]),
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
 * How fast a step of all parts is, and how near the machine's peak its matmuls come.
 * @param {Plan} plan
 */
function rateLines(plan) {
  const {samples_per_s: samples, tokens_per_s: tokens, peak_share: share} = plan.json.totals;
  const parts = [
    samples != null && `${formatNumber(samples)} samples/s`,
    tokens != null && `${formatNumber(tokens)} tokens/s`,
    share != null && `${formatShare(share)} of the peak (MFU)`
  ].filter(Boolean);
  return parts.map(part => html('div.rate', {}, part));
}

/**
 * The microseconds that a step took in a run; of one that was not traced, if there was any.
 * @param {Plan} plan
 */
const measuredStep = plan => plan.trace.step_us ?? plan.trace.traced_step_us;

/**
 * What the headline says of a run, which is not among the fields that it is made of at first.
 * @param {Plan} plan
 */
function measuredHeadline(plan) {
  if (!plan.trace) return null;
  const took = measuredStep(plan);
  const factor = plan.timed ? `, ${formatFactor(took / plan.whole.step)} × that` : '';
  return html('span.soft', {}, ` Measured: ${formatTime(took)}${factor}.`);
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

/** @param {Page} page */
function memoryTotal(page) {
  const {plan} = page;
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
      `Memory at the peak: ${formatBytes(peak)}`, [...parts, copiedPart(page)], scale, mark);
}

/**
 * What of it others hold too, which is no part of the bar.
 * @param {Page} page
 */
function copiedPart(page) {
  const bytes = sum(copiedGroups(page.plan), group => group.copied);
  const show = () => {
    page.show('memory');
    document.getElementById('copies').scrollIntoView({block: 'start'});
  };
  return {
    text: 'copies',
    size: 0,
    properties: null,
    key: bytes ? html(
                     'button.link', {type: 'button', onclick: show},
                     `${formatBytes(bytes)} of it are copies`) :
                 null
  };
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
    key: html(
        'span', {}, swatch('var(--c1)'), `computing ${formatTime(compute)}`,
        html('span.faint.bounds', {}, `bound by ${boundsText(boundsOfStep(plan))}`))
  };
  const parts = sumsByAxes(plan).map(
      own => ({
        text: axesName(own.axes),
        size: own.exposed,
        properties:
            {axes: own.axes, title: `waiting for ${axesName(own.axes)} ${formatTime(own.exposed)}`},
        key: html(
            'span', {}, html('span.axis', {axes: own.axes}, axesName(own.axes)),
            `${formatBytes(own.sent)} sent, ${formatTime(own.exposed)} ${EXPOSED}`,
            own.time - own.exposed > 0.001 * own.time ?
                html('span.faint', {}, `${formatTime(own.time - own.exposed)} behind computation`) :
                null),
      }));
  const scale = plan.trace ? Math.max(step, measuredStep(plan)) : step;
  return [
    totalRow(
        formatTime(step), [`${anExecution(plan)}, predicted`, rateLines(plan)],
        `${capital(plan.execution)}: ${formatTime(step)}`, [computed, ...parts], scale),
    measuredTotal(plan, scale)
  ];
}

/**
 * The step of a run: what was computed, and the rest.
 * @param {Plan} plan
 */
function measuredTotal(plan, scale = 0) {
  if (!plan.trace) return null;
  const step = measuredStep(plan);
  // Commands were timed in steps that were traced, which take longer.
  const share = Math.min(
      1, sum(plan.operations, operation => operation.measured) / plan.trace.traced_step_us);
  const part = (text, size, color) => ({
    text,
    size,
    properties: {title: `${text} ${formatTime(size)}`, style: {background: color}},
    key: html('span', {}, swatch(color), `${text} ${formatTime(size)}`)
  });
  return totalRow(
      formatTime(step), 'a step, measured', `Measured: ${formatTime(step)}`,
      [
        part('computing', step * share, 'var(--c1)'),
        part('not computing', step * (1 - share), 'var(--c2)')
      ],
      scale || step);
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
