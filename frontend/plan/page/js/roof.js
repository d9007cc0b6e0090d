// What bounds the time of each operation, and how near it comes to the full rates of the machine.

const BOUNDS = {
  flops: 'arithmetic',
  memory: 'memory',
  launch: 'launches'
};
const ROOF_ROWS = 12;

/**
 * What each operation would take if its arithmetic, or its bytes, went at the full rate: by id;
 * nothing where the machine has no such rates, as processors.
 * @param {Plan} plan
 * @returns {Map<string, number>}
 */
function roofTimes(plan) {
  if (plan.roofs) return plan.roofs;
  plan.roofs = new Map();
  const rates =
      new Map((plan.machine ? plan.machine.constants : []).map(({name, value}) => [name, value]));
  const bytesRate = rates.get('memory rate');
  if (!bytesRate || !plan.timed) return plan.roofs;
  const types = new Map(plan.json.tensors.map(tensor => [tensor.id, tensor.dtype]));
  const typeOf = op => op.inputs.map(id => types.get(id)).find(type => rates.has(`matmul ${type}`));
  const products = plan.json.ops.filter(op => isProduct(op.kind));
  // Where no operand of a product has a name, it is taken for one as most others are.
  const counts = new Map();
  for (const type of products.map(typeOf).filter(Boolean))
    counts.set(type, (counts.get(type) || 0) + 1);
  const [[most] = ['f32']] = [...counts].sort((a, b) => b[1] - a[1]);
  for (const op of plan.json.ops) {
    const rate =
        rates.get(isProduct(op.kind) ? `matmul ${typeOf(op) || most}` : 'other arithmetic');
    const one = Math.max(op.flops_per_device / rate, op.bytes_per_device / bytesRate);
    plan.roofs.set(op.id, op.repeat * one);
  }
  return plan.roofs;
}

/**
 * The share of an operation's time that the roof is, or null.
 * @param {Plan} plan
 * @param {Operation} operation
 */
function roofShare(plan, operation) {
  const roofs = roofTimes(plan);
  return roofs.size && operation.time ? sum(operation.ids, id => roofs.get(id)) / operation.time :
                                        null;
}

/**
 * "bound by memory, at 69 % of the roof"
 * @param {Plan} plan
 * @param {Operation} operation
 */
function boundClause(plan, operation) {
  if (!operation.bounds.size) return null;
  const share = roofShare(plan, operation);
  return `bound by ${boundsText(operation.bounds)}${
      share == null ? '' : `, at ${formatShare(share)} of the roof`}`;
}

/**
 * The same of one command.
 * @param {Plan} plan
 * @param {Run} run
 */
function boundOfRun(plan, run) {
  if (!run.bound || !run.time) return '';
  const roof = roofTimes(plan).get(run.id);
  return `bound by ${BOUNDS[run.bound]}${
      roof == null ? '' : `, at ${formatShare(roof / run.time)} of the roof`}`;
}

/** "memory", or of several each with its share of the time. */
function boundsText(bounds) {
  const total = sum([...bounds.values()], time => time);
  const shown = [...bounds].filter(([, time]) => time >= 0.005 * total).sort((a, b) => b[1] - a[1]);
  if (shown.length === 1) return BOUNDS[shown[0][0]];
  return enumerateWords(
      shown.map(([bound, time]) => `${BOUNDS[bound]} (${formatShare(time / total)})`));
}

/**
 * What bounds all that is computed: microseconds by bound.
 * @param {Plan} plan
 */
function boundsOfStep(plan) {
  const all = new Map();
  for (const {bounds} of plan.operations)
    for (const [bound, time] of bounds) all.set(bound, (all.get(bound) || 0) + time);
  return all;
}

/** @param {Page} page */
function roofTable(page) {
  const {plan} = page;
  const rows = plan.operations.filter(row => row.bounds.size).sort((a, b) => b.time - a.time);
  const marks = page.makeMarks();
  const hasRoof = roofTimes(plan).size > 0;
  const perSecond = (amount, time, format) => `${format(1e6 * amount / time)}/s`;
  const rowOf = row => {
    const share = roofShare(plan, row);
    const element = html(
        'tr', {},
        html(
            'td', {}, nameNode(row.name), timesNode(row),
            html('div.small.faint', {}, `${kindsText(row.kinds)}, ${row.phase}`)),
        html(
            'td.right', {}, formatTime(row.time),
            html('div.small.faint', {}, formatShare(row.time / plan.totals.step))),
        html('td', {}, boundsText(row.bounds)),
        html('td.right.wide', {}, perSecond(row.flops, row.time, formatFlops)),
        html('td.right.wide', {}, perSecond(row.bytes, row.time, formatBytes)),
        hasRoof ?
            [
              html('td.right', {}, formatShare(share)),
              html('td.bars', {}, bar(share, 84, {}, share < 0.5 ? 'bytes' : 'computed'))
            ] :
            null);
    marks.add('operation', row.index, element);
    return pickable(element, row.index, () => page.select({kind: 'operation', index: row.index}));
  };
  const {body, more} = firstRows(rows, ROOF_ROWS, rowOf, () => page.paint());
  return html(
      'div', {}, html('h3.part', {}, 'What bounds each operation'),
      html(
          'p.faint', {}, `Computing takes ${formatTime(plan.totals.compute)}, `,
          html('span.bounds', {}, `bound by ${boundsText(boundsOfStep(plan))}`), '.',
          hasRoof ? ' The roof is what the arithmetic or the bytes of an operation take at the ' +
                  'full rate of the machine, without its launch.' :
                    null),
      html(
          'div.scroll', {},
          html(
              'table.roofs', {'data-list': 'roof'},
              html(
                  'thead', {},
                  html(
                      'tr', {}, html('th', {}, 'longest first'), html('th.right', {}, 'time'),
                      html('th', {}, 'bound by'), html('th.right.wide', {}, 'arithmetic'),
                      html('th.right.wide', {}, 'memory'),
                      hasRoof ? [html('th.right', {}, 'of the roof'), html('th')] : null)),
              body)),
      more);
}
