// What is computed from what: drawn where the plan has places for it, else a list.

const GRAPH_PAD = 28;

/** @type {View} */
const graphView = {
  id: 'graph',
  name: 'Graph',
  title: 'What is computed from what',
  height: 700,
  text: page => page.plan.json.layout ?
      'Values with their shape on a device; coloured numbers are split. A coloured ' +
          'bar is a collective, as long as the bytes it sends in a step.' :
      'Operations in their order, one row for layers that are alike, with what each ' +
          'waits for.',
  occurs: related => related.operation.size > 0 || related.collective.size > 0,
  build(page) {
    const {plan} = page;
    const phases = unique(plan.operations.map(operation => operation.phase));
    const marks = page.makeMarks();
    const body = html('div.scroll');
    let phase = phases[0];
    const draw = () => {
      marks.clear();
      put(clear(body),
          plan.json.layout ? drawGraph(page, marks, phase) : operationList(page, marks, phase));
      page.paint();
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
      if (wanted === phase || !phases.includes(wanted)) return;
      phase = wanted;
      chosen.set(phase);
      draw();
    };
    draw();
    select();
    return {controls: [chosen.element], body, select};
  },
};

/** @param {Page} page @param {Marks} marks */
function operationList(page, marks, phase) {
  const {plan} = page;
  const operations = plan.operations.filter(operation => operation.phase === phase);
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
            html(
                'div.small.faint', {},
                [...operation.kinds].map(([kind, count]) => `${count} ${kind}`).join(', '))),
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
                operation.kinds.has('matmul') ? 'computed' : 'bytes')));
    marks.add('operation', operation.index, row);
    return pickable(
        row, operation.index, () => page.select({kind: 'operation', index: operation.index}));
  };
  return html(
      'table.operations', {'data-list': 'operation'},
      html(
          'thead', {},
          html(
              'tr', {}, html('th', {}, 'operation'), html('th', {}, 'makes, on each device'),
              html('th', {}, 'waits for'), html('th.right', {}, plan.timed ? 'time' : 'flops'),
              html('th'))),
      html('tbody', {}, operations.map(rowOf)));
}

/** @param {Page} page @param {Marks} marks */
function drawGraph(page, marks, phase) {
  const {plan} = page;
  const {nodes, edges} = plan.json.layout;
  const phaseOf = id => plan.operationOf.has(id) ? plan.operations[plan.operationOf.get(id)].phase :
      plan.collectiveOf.has(id) ? plan.collectives[plan.collectiveOf.get(id)].phase :
                                  null;
  const shown = nodes.filter(node => phaseOf(node.id) === phase);
  if (!shown.length) return html('p.faint', {}, 'Nothing of this phase is drawn.');
  const left = Math.min(...shown.map(node => node.x - node.w / 2)) - GRAPH_PAD;
  const top = Math.min(...shown.map(node => node.y - node.h / 2)) - GRAPH_PAD;
  const right = Math.max(...shown.map(node => node.x + node.w / 2)) + GRAPH_PAD;
  const bottom = Math.max(...shown.map(node => node.y + node.h / 2)) + GRAPH_PAD;
  const ids = new Set(shown.map(node => node.id));
  const most = Math.max(1, largest(plan.collectives, one => one.sent));
  // Shifted, never scaled: text keeps its size.
  const drawing = svg('g', {transform: `translate(${- left} ${- top})`});
  for (const edge of edges)
    if (ids.has(edge.from) && ids.has(edge.to))
      drawing.append(
          svg('polyline.edge', {points: edge.points.map(([x, y]) => `${x},${y}`).join(' ')}));
  for (const node of shown)
    drawing.append(
        plan.operationOf.has(node.id) ? operationNode(page, marks, node) :
                                        collectiveNode(page, marks, node, most));
  return svg(
      'svg.graph',
      {width: right - left, height: bottom - top, role: 'img', 'aria-label': `${phase} graph`},
      drawing);
}

/** @param {Page} page @param {Marks} marks */
function operationNode(page, marks, node) {
  const {plan} = page;
  const index = plan.operationOf.get(node.id);
  const operation = plan.operations[index];
  const value =
      [...operation.outputs].map(output => plan.values[output]).find(output => !output.inside);
  const name = shorten(shortName(operation.name), Math.max(4, Math.floor((node.w - 14) / 7)));
  const shape = value ? value.dims.map(
                            (dim, place) =>
                                [place ? svg('tspan', {}, ' · ') : null,
                                 svg(dim.axes.length ? 'tspan.axis-text' : 'tspan',
                                     {axes: axesOf(plan, dim.axes)}, dim.local_size)]) :
                        null;
  const group = svg(
      'g.node', {onclick: () => page.select({kind: 'operation', index})},
      svg('rect',
          {x: node.x - node.w / 2, y: node.y - node.h / 2, width: node.w, height: node.h, rx: 6}),
      svg('text.mono', {x: node.x, y: node.y + (value ? -3 : 4), 'text-anchor': 'middle'}, name),
      value ? svg('text.mono.shape-text', {x: node.x, y: node.y + 12, 'text-anchor': 'middle'},
                  shape, value.partial ? ' Σ' : '') :
              null);
  tipOn(
      group,
      () =>
          [html('b.mono', {}, operation.name),
           html(
               'div', {}, formatFlops(operation.flops),
               plan.timed ? `, ${formatTime(operation.time)}` : ''),
           value ? value.dims.map(
                       dim => html(
                           'div.mono', {},
                           `${dim.name} ${dim.size}${
                               dim.axes.length ?
                                   ` → ${dim.local_size}, divided by ${dim.axes.join(', ')}` :
                                   ', whole'}`)) :
                   null]);
  marks.add('operation', index, group);
  return group;
}

/** @param {Page} page @param {Marks} marks */
function collectiveNode(page, marks, node, most) {
  const {plan} = page;
  const index = plan.collectiveOf.get(node.id);
  const one = plan.collectives[index];
  const length = Math.max(2, node.w * one.sent / most);
  const group = svg(
      'g.node.sent', {onclick: () => page.select({kind: 'collective', index})},
      svg('rect.back',
          {x: node.x - node.w / 2, y: node.y - node.h / 2, width: node.w, height: node.h, rx: 6}),
      svg('rect', {
        x: node.x - length / 2,
        y: node.y - node.h / 2 + 4,
        width: length,
        height: 10,
        rx: 3,
        fill: axesFill(one.axes)
      }),
      svg('text', {x: node.x, y: node.y + node.h / 2 - 6, 'text-anchor': 'middle'},
          `${kindName(one.kind)}  ${formatBytes(one.wire)}${
              one.count > 1 ? ` × ${one.count}` : ''}`));
  tipOn(
      group,
      () =>
          [html('b', {}, `${idsText(one)} ${kindName(one.kind)} over ${axesName(one.axes)}`),
           html('div', {}, `${formatBytes(one.sent)} sent`)]);
  marks.add('collective', index, group);
  return group;
}
