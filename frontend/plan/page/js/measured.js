// What a run of the plan took, beside what was predicted: the worst errors first.

const MEASURED_ROWS = 20;

/**
 * The step of a run, as a sentence.
 * @param {Plan} plan
 */
function measuredSentence(plan) {
  const {trace} = plan;
  const traced =
      `${formatTime(trace.traced_step_us)} in ${formatCount(trace.steps, 'traced step')}${
          trace.processes > 1 ? ` of ${formatInteger(trace.processes)} processes` : ''}`;
  const step =
      trace.step_us ? `Measured: a step took ${formatTime(trace.step_us)}, ` : 'Measured: ';
  return `${step}${traced}${plan.timed ? `; predicted: ${formatTime(plan.totals.step)}` : ''}.`;
}

/** @param {Page} page */
function measuredTable(page) {
  const {plan} = page;
  const rows = [
    ...plan.operations.map(row => ({kind: /** @type {Kind} */ ('operation'), row, waited: 0})),
    ...plan.collectives.map(
        row => ({kind: /** @type {Kind} */ ('collective'), row, waited: row.waited}))
  ].filter(({row}) => row.measured > 0 || row.time > 0);
  const errorOf = ({row}) => plan.timed ? Math.abs(row.measured - row.time) : row.measured;
  rows.sort((a, b) => errorOf(b) - errorOf(a));
  const most = Math.max(1e-9, largest(rows, ({row}) => Math.max(row.measured, row.time)));
  const marks = page.makeMarks();
  const nameOf = ({kind, row}) =>
      kind === 'operation' ? [nameNode(row.name), html('span.faint', {}, ` ${row.phase}`)] : [
        html('span', {}, `${idsText(row)} ${kindName(row.kind)} `), axesChips(row.axes),
        html('span.faint.mono', {}, ` ${shortName(row.of)}`)
      ];
  const lineOfRow = entry => {
    const {kind, row, waited} = entry;
    const element = html(
        'tr', {}, html('td', {}, nameOf(entry)),
        plan.timed ? html('td.right', {}, formatTime(row.time)) : null,
        html('td.right', {}, row.measured > 0 ? formatTime(row.measured) : 'not run'),
        html(
            'td.right', {},
            plan.timed && row.time > 0 && row.measured > 0 ?
                `${formatFactor(row.measured / row.time)} ×` :
                ''),
        html('td.right.faint', {}, waited > 0 ? `${formatTime(waited)} waiting` : ''),
        html(
            'td.bars', {},
            plan.timed ? html('div', {}, bar(row.time / most, 110, {}, 'bytes')) : null,
            html('div', {}, bar(row.measured / most, 110, {}, 'computed'))));
    marks.add(kind, row.index, element);
    return pickable(element, row.index, () => page.select({kind, index: row.index}));
  };
  const shown = rows.slice(0, MEASURED_ROWS);
  return html(
      'div', {},
      html('h3.part', {}, plan.timed ? 'Measured beside predicted' : 'Measured in a run'),
      html(
          'p.faint', {}, measuredSentence(plan),
          ' Of rows that stand for several commands these are sums',
          plan.timed ? '; pale is predicted, dark measured.' : '.'),
      html(
          'table.measured', {'data-list': 'measured'},
          html(
              'thead', {},
              html(
                  'tr', {}, html('th', {}, plan.timed ? 'largest error first' : 'longest first'),
                  plan.timed ? html('th.right', {}, 'predicted') : null,
                  html('th.right', {}, 'measured'), html('th', {}), html('th', {}),
                  html('th', {}))),
          html('tbody', {}, shown.map(lineOfRow))),
      rows.length > shown.length ?
          html('p.faint', {}, `and ${formatInteger(rows.length - shown.length)} more`) :
          null);
}
