// Drawings of a stretch of the step: shares of slices, or every command.

const COMPUTE = 40;
const LANE = 26;
const LANE_APART = 14;
const DRAWN_COMMANDS = 420;

// Below a lane that was measured: bars, and times where there is room.
const MEASURED_BARS = 12;
const MEASURED = 26;

/** A stretch of the track on so many pixels. */
class Scale {
  /** @param {Track} track */
  constructor(track, from, to, width) {
    this.from = from;
    this.to = to;
    this.left = track.left;
    this.width = width;
  }

  /** Pixels of a place, kept within the drawing. */
  x(at) {
    const share = (at - this.from) / (this.to - this.from);
    return this.left + Math.max(0, Math.min(1, share)) * (this.width - this.left);
  }

  at(x) {
    return this.from + (x - this.left) / (this.width - this.left) * (this.to - this.from);
  }

  sees(from, to) {
    return to > this.from && from < this.to;
  }
}

/**
 * Slices stacked by share: products, other computation, waiting by axes.
 * @param {Track} track
 * @param {Scale} scale
 */
function drawShares(track, picture, scale, top, height, count) {
  const slice = (scale.to - scale.from) / count;
  const slices = Array.from({length: count}, () => ({products: 0, other: 0, waits: new Map()}));
  const spread = (from, to, add) => {
    const last = Math.min(count - 1, Math.floor((to - scale.from) / slice));
    for (let index = Math.max(0, Math.floor((from - scale.from) / slice)); index <= last; ++index) {
      const begin = scale.from + index * slice;
      const share = (Math.min(to, begin + slice) - Math.max(from, begin)) / slice;
      if (share > 0) add(slices[index], share);
    }
  };
  for (const run of track.runs)
    if (scale.sees(run.start, run.start + run.time))
      spread(run.start, run.start + run.time, (into, share) => {
        into[isProduct(run.kind) ? 'products' : 'other'] += share * run.height;
      });
  for (const wait of track.waits)
    if (scale.sees(wait.from, wait.to)) {
      const key = wait.sending.axes.join();
      spread(
          wait.from, wait.to,
          (into, share) => into.waits.set(key, (into.waits.get(key) || 0) + share));
    }
  const base = new Array(count).fill(0);
  const width = (scale.width - scale.left) / count;
  const layer = (get, properties) => {
    let path = '';
    slices.forEach((into, index) => {
      const share = get(into);
      if (share > 0.002)
        path += `M${(scale.left + index * width).toFixed(2)} ${
            (top + height * (1 - base[index])).toFixed(2)}h${(width + 0.15).toFixed(2)}v${
            (-height * share).toFixed(2)}h${(-width - 0.15).toFixed(2)}z`;
      base[index] += share;
    });
    if (path) picture.append(svg('path', {d: path, ...properties}));
  };
  layer(into => into.products, {class: 'products'});
  layer(into => into.other, {class: 'other'});
  for (const lane of track.lanes)
    layer(into => into.waits.get(lane.axes.join()) || 0, {fill: axesFill(lane.axes)});
}

/**
 * Marks below a drawing.
 * @param {Track} track
 * @param {Scale} scale
 */
function drawTicks(track, picture, scale, top) {
  // Between two commands there is no place.
  const places = ticksOf(
      scale.from, scale.to, Math.max(2, Math.floor((scale.width - scale.left) / 110)),
      track.timed ? 0 : 1);
  const names =
      track.formatMarks(places, places.length > 1 ? places[1] - places[0] : scale.to - scale.from);
  places.forEach((at, index) => {
    const x = scale.x(at);
    picture.append(
        svg('line.tick', {x1: x, x2: x, y1: top - 4, y2: top}),
        svg('text.faint.mark', {
          x: Math.min(x, scale.width - 2),
          y: top + 12,
          'text-anchor': at === 0  ? 'start' :
              x > scale.width - 24 ? 'end' :
                                     'middle'
        },
            names[index]));
  });
}

/**
 * Draws the commands of a window, or their shares where there are many. `drawn` gets those that can
 * be selected.
 * @param {Page} page @param {Track} track @param {Scale} scale
 * @param {Map<string, SVGElement>} drawn
 */
function drawCommands(page, track, picture, scale, top, drawn) {
  const {related} = page;
  const visible = track.runs.slice(Math.max(0, lowerBound(track.runs, scale.from) - 1))
                      .filter(run => scale.sees(run.start, run.start + run.time));
  picture.append(
      svg('rect.lane', {x: scale.left, y: top, width: scale.width - scale.left, height: COMPUTE}));
  if (visible.length > DRAWN_COMMANDS) {
    drawShares(track, picture, scale, top, COMPUTE, 110);
    return;
  }
  for (const wait of track.waits)
    if (scale.sees(wait.from, wait.to)) drawWait(page, track, picture, scale, wait, top);
  const dims = !!page.item && visible.some(run => related.operation.has(run.operation));
  for (const run of visible) {
    const x = scale.x(run.start);
    const width = Math.max(0.4, scale.x(run.start + run.time) - x);
    const lit = !!page.item && related.operation.has(run.operation);
    const height = Math.max(1, COMPUTE * run.height);
    const classes = [isProduct(run.kind) ? 'products' : 'other', lit ? 'lit' : dims ? 'dim' : ''];
    const shape = svg('rect', {
      class: 'command ' + classes.join(' '),
      x,
      y: top + COMPUTE - height,
      width: Math.max(0.4, width - (width > 3 ? 1 : 0)),
      height,
      rx: width > 8 ? 2 : 0,
      'aria-label': `${run.name}, ${KINDS[run.kind][0]}`,
      onclick: () => page.select({kind: 'operation', index: run.operation})
    });
    drawn.set(run.id, shape);
    tipOn(
        shape,
        () =>
            [html('b.mono', {}, run.name),
             html(
                 'div', {},
                 track.timed ? `${formatTime(run.time)} from ${formatTime(run.start)}` :
                               `${formatFlops(run.flops)}, command ${run.start}`),
             html('div', {}, `${KINDS[run.kind][0]}, ${run.phase}`),
             html('div', {}, capital(boundOfRun(page.plan, run))), measuredClause(track, run)]);
    picture.append(shape);
    const name = tailOf(run.name);
    if (track.timed && width > name.length * 6.2 + 10)
      picture.append(svg('text.inside', {x: x + 5, y: top + 24}, name));
  }
}

/**
 * What commands of a lane took in a run, below them: half of the height is what was predicted;
 * without times all of it is what took longest.
 * @param {Track} track @param {Scale} scale
 * @param {{start: number, time: number, measured: number | null}[]} commands
 */
function drawMeasured(track, picture, scale, top, commands) {
  const most = track.timed ? 0 : largest(commands, one => one.measured || 0);
  let path = '';
  picture.append(
      svg('text.faint', {x: scale.left - 8, y: top + 10, 'text-anchor': 'end'}, 'measured'),
      svg('rect.lane',
          {x: scale.left, y: top, width: scale.width - scale.left, height: MEASURED_BARS}));
  for (const {start, time, measured} of commands) {
    if (measured == null || !scale.sees(start, start + time)) continue;
    const x = scale.x(start);
    const width = scale.x(start + time) - x;
    const share = track.timed ? measured / time / 2 : measured / most;
    const height = MEASURED_BARS * Math.max(0, Math.min(1, share || 0));
    path += `M${x.toFixed(2)} ${top + MEASURED_BARS}h${
        Math.max(0.4, width - (width > 3 ? 1 : 0)).toFixed(2)}v${(-height).toFixed(2)}H${
        x.toFixed(2)}z`;
    const text = formatTime(measured);
    if (width > 6.4 * text.length + 4)
      picture.append(svg('text.took', {x: x + 1, y: top + MEASURED - 3}, text));
  }
  picture.append(svg('path.ran', {d: path}));
  const middle = top + MEASURED_BARS / 2;
  if (track.timed)
    picture.append(
        svg('line.predicted', {x1: scale.left, x2: scale.width, y1: middle, y2: middle}));
}

/**
 * "measured 15 µs, 1.3 × predicted", or nothing.
 * @param {Track} track
 * @param {{time: number, measured: number | null, waited?: number}} command
 */
function measuredClause(track, {time, measured, waited}) {
  if (measured == null) return null;
  const factor = track.timed && time > 0 ? `, ${formatFactor(measured / time)} × predicted` : '';
  const wait = waited > 0 ? `, and ${formatTime(waited)} waiting for other devices` : '';
  return html('div', {}, `measured ${formatTime(measured)}${factor}${wait}`);
}

/** "c4 + 2", a transfer by its largest member. */
const sendingText = ({ids, largest}) => ids.length > 1 ? `${largest} + ${ids.length - 1}` : largest;

/**
 * A wait, by the largest collective of the transfer that is waited for.
 * @param {Page} page @param {Track} track @param {Scale} scale
 */
function drawWait(page, track, picture, scale, wait, top) {
  const {axes, largest} = wait.sending;
  const one = page.plan.collectives[page.plan.collectiveOf.get(largest)];
  const x = scale.x(wait.from);
  const width = scale.x(wait.to) - x;
  if (width < 0.4) return;
  const shape = svg('rect.wait', {
    x,
    y: top,
    width,
    height: COMPUTE,
    fill: axes.length > 1 ? axesFill(axes) : stripesFill(axes[0]),
    opacity: axes.length > 1 ? 0.34 : 1
  });
  picture.append(tipOn(
      shape,
      () => `waiting ${track.format(wait.to - wait.from)} for ${sendingText(wait.sending)}, ${
          kindName(one.kind)} over ${axesName(axes)} of ${one.of}`));
  if (width > 56)
    picture.append(svg(
        'text.axis-text.through', {axes, x: x + width / 2, y: top + 24, 'text-anchor': 'middle'},
        width > 116 ? `waiting ${track.format(wait.to - wait.from)}` : 'waiting'));
}

/**
 * The same of what is sent.
 * @param {Page} page @param {Track} track @param {Scale} scale
 * @param {Map<string, SVGElement>} drawn
 */
function drawLane(page, track, picture, scale, lane, top, drawn) {
  const {related} = page;
  picture.append(
      svg('rect', {x: 0, y: top + 8, width: 10, height: 10, rx: 2, fill: axesFill(lane.axes)}),
      svg('text', {x: 16, y: top + 17}, shorten(axesName(lane.axes), LANE_NAME)),
      svg('rect.lane', {x: scale.left, y: top, width: scale.width - scale.left, height: LANE}));
  const visible =
      lane.sendings.filter(sending => scale.sees(sending.start, sending.start + sending.time));
  const dims = !!page.item &&
      visible.some(sending => sending.collectives.some(one => related.collective.has(one)));
  let plain = '';
  for (const sending of visible) {
    const x = scale.x(sending.start);
    const width = Math.max(0.5, scale.x(sending.start + sending.time) - x);
    const lit = !!page.item && sending.collectives.some(one => related.collective.has(one));
    const height = Math.max(1, LANE * sending.height);
    if (visible.length > DRAWN_COMMANDS && width < 4 && !lit) {
      plain += `M${x.toFixed(1)} ${top}h${Math.max(0.4, width - 0.3).toFixed(2)}v${LANE}h${
          (-Math.max(0.4, width - 0.3)).toFixed(2)}z`;
      continue;
    }
    const hidden = sending.time > 0 ? Math.max(0, 1 - sending.exposed / sending.time) : 0;
    const inner = Math.max(0.5, width - (width > 3 ? 1 : 0));
    const group =
        svg('g', {
          class: 'command ' +
              (lit      ? 'lit' :
                   dims ? 'dim' :
                          ''),
          'aria-label': `${enumerateWords(sending.ids)} over ${axesName(sending.axes)}`,
          onclick: () =>
              page.select({kind: 'collective', index: page.plan.collectiveOf.get(sending.largest)})
        },
            svg('rect.exposed', {
              x: x + inner * hidden,
              y: top + LANE - height,
              width: inner * (1 - hidden),
              height,
              fill: axesFill(sending.axes)
            }),
            hidden > 0 ? svg('rect.behind', {
              x,
              y: top + LANE - height,
              width: inner * hidden,
              height,
              fill: axesFill(sending.axes)
            }) :
                         null,
            lit ? svg('rect.outline', {
              x: x + 0.75,
              y: top + 0.75,
              width: Math.max(0.5, inner - 1.5),
              height: LANE - 1.5
            }) :
                  null);
    drawn.set(sending.id, group);
    const shown = sendingText(sending);
    if (width > 7 * shown.length + 10 && hidden > 0.98)
      group.append(svg('text.on-pale', {x: x + 5, y: top + 17}, shown));
    tipOn(
        group,
        () =>
            [html('b', {}, `${enumerateWords(sending.ids)} over ${axesName(sending.axes)}`),
             html('div', {}, `${formatBytes(sending.sent)} sent`),
             track.timed ? html(
                               'div', {},
                               `${formatTime(sending.time)} from ${formatTime(sending.start)}, ${
                                   formatTime(sending.exposed)} ${EXPOSED}`) :
                           null,
             html('div', {}, capital(queuedClause(page.plan, sending))),
             measuredClause(track, sending)]);
    picture.append(group);
  }
  if (plain) picture.append(svg('path', {d: plain, fill: axesFill(lane.axes)}));
}

/** "∂ ff/h" of the gradient of layer/3/ff/h: the last two parts, and whether it is a gradient. */
function tailOf(name) {
  const [mark, path] = nameParts(name);
  return mark + path.split('/').slice(-2).join('/');
}

const shorten = (text, length) => text.length > length ? text.slice(0, length - 1) + '…' : text;
