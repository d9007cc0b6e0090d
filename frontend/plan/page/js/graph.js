// What is computed from what: drawn where the plan has places for it, else a list.

/** @type {View} */
const graphView = {
  id: 'graph',
  name: 'Graph',
  title: 'What is computed from what',
  height: 700,
  text: page => page.plan.json.graph ?
      'Values with their shape on a device; coloured numbers are split. A coloured ' +
          'bar is a collective, as long as the bytes it sends in a step.' :
      'Operations in their order, one row for layers that are alike, with what each ' +
          'waits for.',
  occurs: related => related.operation.size > 0 || related.collective.size > 0,
  build(page) {
    const {plan} = page;
    const phases = unique(plan.operations.map(operation => operation.phase));
    const marks = page.makeMarks();
    const body = html('div');
    let phase = phases[0];
    let graph = null;
    const draw = () => {
      marks.clear();
      graph = plan.json.graph ? drawGraph(page, marks, phase) : null;
      const drawn = new Set(graph ? graph.ids : []);
      const operations = plan.operations.filter(row => row.phase === phase && !drawn.has(row.id));
      const sums = plan.collectives.filter(row => row.phase === phase && !drawn.has(row.id));
      put(clear(body), graph ? graph.box : null,
          graph && sums.length ? unreadList(page, marks, phase, sums) : null,
          graph && operations.length ?
              html(
                  'h3.part', {},
                  `Not drawn: parameters alone, or no operation of ${phase} reads it`) :
              null,
          operations.length ? operationList(page, marks, operations) : null);
      page.paint();
      show();
    };
    const show = () => {
      if (!graph) return;
      graph.center();
      graph.select();
    };
    const chosen = choice(phases.map(name => [name, name]), phase, name => {
      phase = name;
      draw();
    });
    /** The phase of what is selected. */
    const select = () => {
      const {item} = page;
      const wanted = item && item.kind === 'collective' ? plan.collectives[item.index].phase :
          item && item.kind === 'operation'             ? plan.operations[item.index].phase :
                                                          phase;
      if (wanted !== phase && phases.includes(wanted)) {
        phase = wanted;
        chosen.set(phase);
        draw();
      } else if (graph) {
        graph.select();
      }
    };
    draw();
    select();
    return {controls: [chosen.element], body, select, shown: show};
  },
};

/**
 * Collectives that nothing of the phase reads, as the sums of gradients: as nodes they would
 * stand side by side.
 * @param {Page} page @param {Marks} marks @param {Collective[]} unread
 */
function unreadList(page, marks, phase, unread) {
  const {plan} = page;
  const most = Math.max(1, largest(plan.collectives, one => one.sent));
  const rowOf = one => {
    const row = html(
        'tr', {},
        html(
            'td', {}, itemLink(page, {kind: 'collective', index: one.index}, idsText(one)),
            ` ${kindName(one.kind)}`),
        html('td', {}, axesChips(one.axes)), html('td.mono', {}, shortName(one.of)),
        html('td.right', {}, formatBytes(one.sent)),
        html('td.bars', {}, bar(one.sent / most, 190, {axes: one.axes})));
    marks.add('collective', one.index, row);
    return row;
  };
  return html(
      'div', {},
      html('h3.part', {}, `Sent for what comes after: no operation of ${phase} reads it`),
      html('div.scroll', {}, html('table.unread', {}, html('tbody', {}, unread.map(rowOf)))));
}

/** @param {Page} page @param {Marks} marks @param {Operation[]} operations */
function operationList(page, marks, operations) {
  const {plan} = page;
  const most = Math.max(
      1e-9, largest(operations, operation => plan.timed ? operation.time : operation.flops));
  const rowOf = operation => {
    const awaited = plan.collectives.filter(one => one.reader === operation.index);
    const values =
        [...operation.outputs].map(index => plan.values[index]).filter(value => !value.inside);
    const row = html(
        'tr', {},
        html(
            'td', {}, nameNode(operation.name), timesNode(operation),
            html('div.small.faint', {}, kindsText(operation.kinds))),
        html('td', {}, values.slice(0, 2).map(value => html('div', {}, shapeNode(page, value)))),
        html(
            'td', {},
            awaited.slice(0, 3).map(
                one => html(
                    'div.small', {},
                    itemLink(page, {kind: 'collective', index: one.index}, idsText(one)),
                    ` ${kindName(one.kind)} `, axesChips(one.axes))),
            awaited.length > 3 ? html('div.small.faint', {}, `and ${awaited.length - 3} more`) :
                                 null),
        html(
            'td.right', {}, plan.timed ? formatTime(operation.time) : formatFlops(operation.flops)),
        html(
            'td.bars', {},
            bar((plan.timed ? operation.time : operation.flops) / most, 84, {},
                [...operation.kinds.keys()].some(isProduct) ? 'computed' : 'bytes')));
    marks.add('operation', operation.index, row);
    return pickable(
        row, operation.index, () => page.select({kind: 'operation', index: operation.index}));
  };
  const table = html(
      'table.operations', {'data-list': 'operation'},
      html(
          'thead', {},
          html(
              'tr', {}, html('th', {}, 'operation'), html('th', {}, 'makes, on each device'),
              html('th', {}, 'waits for'), html('th.right', {}, plan.timed ? 'time' : 'flops'),
              html('th'))),
      html('tbody', {}, operations.map(rowOf)));
  return html('div.scroll', {}, table);
}
