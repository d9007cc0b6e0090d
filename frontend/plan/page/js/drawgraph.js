// The drawn graph, at the places that the plan gives.

const GRAPH_PAD = 28;
const LONGEST_BAR = 190;

/**
 * The drawing of a phase, or null if the plan has no places for it.
 * @param {Page} page @param {Marks} marks
 */
function drawGraph(page, marks, phase) {
  const {plan} = page;
  const {nodes, edges, frames} = plan.json.graph;
  const phaseOf = id => plan.operationOf.has(id) ? plan.operations[plan.operationOf.get(id)].phase :
      plan.collectiveOf.has(id) ? plan.collectives[plan.collectiveOf.get(id)].phase :
                                  null;
  const shown = nodes.filter(node => phaseOf(node.id) === phase);
  if (!shown.length) return null;
  const framed = frames.filter(frame => frame.phase === phase);
  const boxes = [
    ...shown.map(node => [node.x - node.w / 2, node.y - node.h / 2, node.w, node.h]),
    ...framed.map(frame => [frame.x, frame.y, frame.w, frame.h])
  ];
  const left = Math.min(...boxes.map(box => box[0])) - GRAPH_PAD;
  const top = Math.min(...boxes.map(box => box[1])) - GRAPH_PAD;
  const right = Math.max(...boxes.map(box => box[0] + box[2])) + GRAPH_PAD;
  const bottom = Math.max(...boxes.map(box => box[1] + box[3])) + GRAPH_PAD;
  const ids = new Set(shown.map(node => node.id));
  const most = Math.max(1, largest(plan.collectives, one => one.sent));
  // Shifted, never scaled: text keeps its size.
  const drawing = svg('g', {transform: `translate(${- left} ${- top})`});
  const lines =
      edges.filter(edge => ids.has(edge.from) && ids.has(edge.to))
          .map(edge => ({
                 edge,
                 line: svg(edge.back ? 'path.edge.back' : 'path.edge', {d: edgePath(edge.points)})
               }));
  for (const frame of framed)
    drawing.append(
        svg('rect.frame', {x: frame.x, y: frame.y, width: frame.w, height: frame.h, rx: 10}));
  drawing.append(
      ...lines.map(({line}) => line),
      ...lines.map(
          ({edge}) => tipOn(
              svg('path.edge-reach', {d: edgePath(edge.points)}), () => edgeTip(page, edge))));
  const drawn = new Map(shown.map(
      node =>
          [node.id,
           plan.operationOf.has(node.id) ? operationNode(page, marks, node) :
                                           collectiveNode(page, marks, node, most)]));
  drawing.append(...drawn.values());
  for (const frame of framed)
    drawing.append(
        svg('text.frame-text', {x: frame.x + 10, y: frame.y - 7},
            `${foldNames(scopesLike(plan, frame.scope))}, × ${frame.count}`));
  const picture =
      svg('svg.graph', {width: right - left, height: bottom - top, 'aria-label': `${phase} graph`},
          drawing);
  const reading = [...shown].sort((a, b) => a.y - b.y || a.x - b.x);
  const stops = new Stops(
      picture, 'node', (id, key) => nodeAt(reading, lines.map(({edge}) => edge), id, key));
  stops.set(new Map(reading.map(node => [node.id, drawn.get(node.id)])));
  const isLit = id => plan.operationOf.has(id) ?
      page.related.operation.has(plan.operationOf.get(id)) :
      page.related.collective.has(plan.collectiveOf.get(id));
  const box = html('div.graph-box', {}, picture);
  return {
    box,
    ids: shown.map(node => node.id),
    /** Dims what is not related, if something related is drawn, and brings that into sight. */
    select() {
      const {item} = page;
      const own = shown.find(
          node => item &&
              (item.kind === 'collective' ?
                   plan.collectiveOf.get(node.id) === item.index :
                   item.kind === 'operation' && plan.operationOf.get(node.id) === item.index));
      const first = own || shown.find(node => isLit(node.id));
      picture.classList.toggle('dims', !!page.item && !!first);
      for (const {edge, line} of lines)
        line.classList.toggle('related', isLit(edge.from) && isLit(edge.to));
      if (!first) return;
      box.scrollLeft = first.x - left - box.clientWidth / 2;
      if (!picture.contains(document.activeElement)) stops.stay(first.id);
    },
    /** Brings the middle of the largest frame into sight, or else of the drawing. */
    center() {
      const frame = framed.reduce(
          (most, one) => one.h > most.h ? one : most,
          framed[0] || {x: left, w: right - left, h: 0});
      box.scrollLeft = frame.x + frame.w / 2 - left - box.clientWidth / 2;
    },
  };
}

/**
 * The node that a key leads to: up and down along the edges, to the nearest across; left and
 * right to the next in the order of reading, which leads to all.
 */
function nodeAt(reading, edges, id, key) {
  const at = reading.findIndex(node => node.id === id);
  const places = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: reading.length - 1};
  if (Object.hasOwn(places, key)) return reading[places[key]]?.id;
  const [near, far] = key === 'ArrowDown' ? ['from', 'to'] : ['to', 'from'];
  const along = edges.filter(edge => edge[near] === id);
  // What the next iteration reads is farthest.
  const wanted = along.some(edge => !edge.back) ? along.filter(edge => !edge.back) : along;
  const apart = node => Math.abs(node.x - reading[at].x);
  return reading.filter(node => wanted.some(edge => edge[far] === node.id))
      .sort((a, b) => apart(a) - apart(b))[0]
      ?.id;
}

/**
 * What goes along an edge: the value, whole and on a device.
 * @param {Page} page
 */
function edgeTip(page, edge) {
  const {plan} = page;
  const operation = plan.operations[plan.operationOf.get(edge.from)];
  const one = plan.collectives[plan.collectiveOf.get(edge.from)];
  const value = operation ? madeBy(plan, operation) : plan.values[one.value];
  const dims = operation ? value && value.dims : one.after && one.after.dims;
  return [
    html('b.mono', {}, operation ? (value || operation).name : one.of),
    dims ? dimsText(dims) : null, edge.back ? html('div', {}, 'read by the next iteration') : null
  ];
}

/**
 * The value that an operation is drawn with: that of its name, or else what it makes.
 * @param {Plan} plan
 * @param {Operation} operation
 */
function madeBy(plan, operation) {
  const named = plan.values[plan.valueNamed.get(operation.first)];
  return named ||
      [...operation.outputs].map(output => plan.values[output]).find(output => !output.inside);
}

/**
 * "heads 96 → 12, divided by model", a line for each.
 * @param {Dim[]} dims
 */
const dimsText = dims => dims.map(
    dim => html(
        'div.mono', {},
        `${dim.name} ${dim.size}${
            dim.axes.length ? ` → ${dim.local_size}, divided by ${dim.axes.join(', ')}` :
                              ', whole'}`));

/** Names of the scopes that are drawn as one. */
const scopesLike = (plan, id) =>
    plan.json.scopes.filter(scope => scope.like === id).map(scope => scope.name);

/**
 * The name without what the frame around it says.
 * @param {Plan} plan
 * @param {Operation} operation
 */
function nameInFrame(plan, operation) {
  const {scope} = plan.runs.find(run => run.id === operation.id);
  const model = (plan.json.scopes.find(other => other.id === scope) || {like: null}).like;
  const frame =
      plan.json.graph.frames.find(one => one.scope === model && one.phase === operation.phase);
  const [mark, path] = nameParts(operation.name);
  const prefix = frame ? foldNames(scopesLike(plan, frame.scope)) + '/' : '';
  return mark + (path.startsWith(prefix) ? path.slice(prefix.length) : path);
}

/** @param {Page} page @param {Marks} marks */
function operationNode(page, marks, node) {
  const {plan} = page;
  const index = plan.operationOf.get(node.id);
  const operation = plan.operations[index];
  const value = madeBy(plan, operation);
  const name =
      shortenPath(nameInFrame(plan, operation), Math.max(4, Math.floor((node.w - 14) / 7)));
  const shape = value ? value.dims.map(
                            (dim, place) =>
                                [place ? svg('tspan', {}, ' · ') : null,
                                 svg(dim.axes.length ? 'tspan.axis-text' : 'tspan',
                                     {axes: axesOf(plan, dim.axes)}, dim.local_size)]) :
                        null;
  const group = svg(
      'g.node', {
        'aria-label': `${operation.name}, ${kindsText(operation.kinds)}, ${
            value ? value.dims.map(dim => `${dim.name} ${dim.local_size}`).join(', ') : ''}`,
        onclick: () => page.select({kind: 'operation', index})
      },
      svg('rect.back',
          {x: node.x - node.w / 2, y: node.y - node.h / 2, width: node.w, height: node.h, rx: 6}),
      svg('text.mono', {x: node.x, y: node.y + (value ? -3 : 4), 'text-anchor': 'middle'}, name),
      value ? svg('text.mono.shape-text', {x: node.x, y: node.y + 12, 'text-anchor': 'middle'},
                  shape.length ? shape : svg('tspan.faint', {}, 'one number'),
                  value.partial ? ' Σ' : '') :
              null);
  tipOn(
      group,
      () =>
          [html('b.mono', {}, operation.name), html('div', {}, kindsText(operation.kinds)),
           html(
               'div', {}, formatFlops(operation.flops),
               plan.timed ? `, ${formatTime(operation.time)}` : ''),
           value ? dimsText(value.dims) : null]);
  marks.add('operation', index, group);
  return group;
}

/** @param {Page} page @param {Marks} marks */
function collectiveNode(page, marks, node, most) {
  const {plan} = page;
  const index = plan.collectiveOf.get(node.id);
  const one = plan.collectives[index];
  const length = Math.max(2, LONGEST_BAR * one.sent / most);
  const group = svg(
      'g.node.sent', {
        'aria-label':
            `${idsText(one)} ${kindName(one.kind)} over ${axesName(one.axes)} of ${one.of}`,
        onclick: () => page.select({kind: 'collective', index})
      },
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
      svg(one.axes.length > 1 ? 'text.strong' : 'text.axis-text',
          {axes: one.axes, x: node.x, y: node.y + node.h / 2 - 6, 'text-anchor': 'middle'},
          `${kindName(one.kind)}  ${formatBytes(one.wire)}${
              one.count > 1 ? ` × ${one.count}` : ''}`));
  tipOn(
      group,
      () =>
          [html('b', {}, `${idsText(one)} ${kindName(one.kind)} over ${axesName(one.axes)}`),
           html('div.mono', {}, one.of),
           html(
               'div', {}, `${formatBytes(one.sent)} sent`,
               plan.timed ? `, ${formatTime(one.time)}, ${exposureText(one)}` : '')]);
  marks.add('collective', index, group);
  return group;
}

/**
 * A path of cubic curves, as Graphviz has them: a start, then two controls and an end each; what
 * is left are straight lines.
 */
function edgePath(points) {
  const text = ([x, y]) => `${x} ${y}`;
  let path = 'M' + text(points[0]);
  let at = 1;
  for (; at + 2 < points.length; at += 3)
    path += `C${points.slice(at, at + 3).map(text).join(' ')}`;
  for (; at < points.length; ++at) path += 'L' + text(points[at]);
  return path;
}

/** The end of a name, which tells it from others of its layer. */
const shortenPath = (name, length) => name.length > length ? '…' + name.slice(1 - length) : name;
