// What calls and loops take, each below the one that it is in.

/**
 * @typedef {{id: string, title: string, get: (of: PartAmounts) => number, show: (amount: number) => string}} PartColumn
 */

/** @param {Plan} plan @returns {PartColumn[]} */
function partColumns(plan) {
  const column = (id, title, get, show) => ({id, title, get, show});
  return [
    ...plan.timed ?
        [
          column('computed', 'computing', of => of.computed, formatTime),
          column('exposed', 'waiting', of => of.exposed, formatTime)
        ] :
        [],
    column('flops', 'flops', of => of.flops, formatFlops),
    column('sent', 'sent per step', of => of.sent, formatBytes),
    column('bytes', 'at the peak', of => of.bytes, formatBytes),
  ];
}

/**
 * Whether a part takes anything that is worth a row: a share that does not round to nothing.
 * @param {Plan} plan @param {Part} part
 */
function isWorthRow(plan, part) {
  const [model] = plan.parts;
  const shareOf = get => get(model.whole) > 0 ? get(part.whole) / get(model.whole) : 0;
  return part.parent >= 0 && [
    of => of.computed + of.exposed, of => of.flops, of => of.sent, of => of.bytes
  ].some(get => shareOf(get) >= 0.005);
}

/** @type {View} */
const partsView = {
  id: 'parts',
  name: 'Scopes',
  title: 'What calls and loops take',
  height: 500,
  exists: page => page.plan.parts.some(part => isWorthRow(page.plan, part)),
  text: page => 'All iterations of a loop are one row, and so are calls that are alike. What is ' +
      'in a row and in no row below it is counted in it alone, so that rows add up.' +
      (page.plan.timed ? '' : ` ${untimedClause(page.plan)}, so there are no times.`),
  occurs: related => related.part.size > 0,
  build(page) {
    const {plan} = page;
    const columns = partColumns(plan);
    const marks = page.makeMarks();
    const body = html('div.scroll');
    const [model] = plan.parts;
    const parts = plan.parts.filter(part => isWorthRow(plan, part));
    let sorted = columns[0];

    /** @param {PartColumn} column */
    function heading(column) {
      const button = html(
          'button', {
            type: 'button',
            'data-column': column.id,
            onclick: () => {
              sorted = column;
              draw();
              body.querySelector(`[data-column="${column.id}"]`).focus();
            },
          },
          column.title);
      return html('th', {'aria-sort': column === sorted ? 'descending' : null}, button);
    }

    /** @param {PartAmounts} of @param {PartColumn} column */
    function cell(of, column) {
      const whole = column.get(model.whole);
      const amount = column.get(of);
      if (!amount) return html('td', {}, html('span.faint', {}, 'none'));
      const bars = column.id === 'bytes' ?
          CATEGORIES.map(
              (category, index) => html('span.bar', {
                title: `${category} ${formatBytes(of.atPeak[category])}`,
                style: {width: percent(of.atPeak[category] / whole), background: `var(--m${index})`}
              })) :
          html('span.bar.computed', {style: {width: percent(amount / whole)}});
      return html(
          'td', {},
          html(
              'div', {}, column.show(amount),
              html('span.faint', {}, `  ${formatShare(amount / whole)}`)),
          html('span.track', {}, bars));
    }

    /** @param {Part} part */
    function rowOf(part) {
      const times = part.count / plan.parts[part.parent].count;
      const row = html(
          'tr', {},
          html(
              'td', {style: {'padding-left': pixels(8 + 16 * part.depth)}},
              nameNode(part.depth ? part.name.split('/').pop() : part.name),
              times > 1 ? html('span.faint', {}, ` × ${formatInteger(times)}`) : null),
          columns.map(column => cell(part.whole, column)));
      marks.add('part', part.index, row);
      return pickable(row, part.index, () => page.select({kind: 'part', index: part.index}));
    }

    /** @param {Part} outer */
    const rowsIn = outer => parts.filter(part => part.parent === outer.index)
                                .sort((a, b) => sorted.get(b.whole) - sorted.get(a.whole))
                                .flatMap(part => [rowOf(part), ...rowsIn(part)]);

    function draw() {
      marks.clear();
      put(clear(body),
          html(
              'table.parts', {'data-list': 'part'},
              html('thead', {}, html('tr', {}, html('th', {}, 'scope'), columns.map(heading))),
              html(
                  'tbody', {}, rowsIn(model),
                  html(
                      'tr', {}, html('td.faint', {}, 'in none'),
                      columns.map(column => cell(model.own, column))))));
      page.paint();
    }
    draw();
    return {body};
  },
};
