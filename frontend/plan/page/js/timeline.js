// The whole step as shares, and a window of it command by command.

/** @type {View} */
const timelineView = {
  id: 'timeline',
  name: 'Timeline',
  title: 'When everything happens',
  height: 480,
  text: page => page.plan.timed ?
      `Predicted for ${page.plan.machine.label}${
          page.plan.trace ? '; what a run took stands below' :
                            '; nothing was measured'}. Drag over the ${page.plan.execution} ` +
          'to look closer; Ctrl and wheel, or + and −, zoom.' :
      `${untimedClause(page.plan)}, so there are no times: commands in their order, each as high ` +
          'as what it computes or sends. Drag over them to look closer; + and − zoom.',
  occurs: related => related.operation.size > 0 || related.collective.size > 0,
  build(page) {
    const {plan} = page;
    const track = page.track;
    const whole = svg('svg.brush', {role: 'img', 'aria-label': 'The whole step'});
    const detail = svg('svg', {'aria-label': 'A window of the step'});
    const stops = new Stops(detail, 'command', (id, key) => {
      const command = commandAt(page, track, id, key);
      if (command && (command.start < page.window[0] || command.start >= page.window[1]))
        page.showPlace(command);
      return command && stops.elements.has(command.id) ? command.id : null;
    });
    const presets = html(
        'span.choice', {},
        presetsOf(page, track)
            .map(
                ({name, from, to}) =>
                    html('button', {type: 'button', onclick: () => setWindow(from, to)}, name)));

    const setWindow = (from, to) => page.setWindow(from, to);
    let frame = null;
    const drawWindow = () => {
      const hadFocus = detail.contains(document.activeElement);
      frame(page.window);
      stops.set(drawDetail(page, track, detail));
      if (hadFocus) stops.focus();
    };
    const draw = () => {
      frame = drawWhole(page, track, whole);
      drawWindow();
    };
    const around = (middle, factor) => {
      const [from, to] = page.window;
      setWindow(middle - (middle - from) * factor, middle + (to - middle) * factor);
    };
    listenToBrush(page, track, whole, setWindow);
    detail.addEventListener('wheel', event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      around(
          new Scale(track, ...page.window, page.width())
              .at(event.clientX - detail.getBoundingClientRect().left),
          event.deltaY > 0 ? 1.25 : 0.8);
    }, {passive: false});
    page.windowListeners.push(drawWindow);
    /** Moves the window to the middle occurrence of what is selected, if none is in it. */
    const follow = () => {
      const [from, to] = page.window;
      const places = occurrencesOf(page, track);
      if (places.length && !places.some(({start, time}) => start + time > from && start < to))
        page.showPlace(places[Math.floor(places.length / 2)]);
      else
        drawWindow();
    };
    draw();
    follow();
    return {
      controls: [presets],
      body: html(
          'div', {}, html('div.timeline', {}, whole, detail, timelineKey(page, track)),
          plan.timed ? roofTable(page) : null, plan.trace ? measuredTable(page) : null),
      select: follow,
      resize: draw,
      zoom: factor => around((page.window[0] + page.window[1]) / 2, factor),
      pan: share => setWindow(
          page.window[0] + share * (page.window[1] - page.window[0]),
          page.window[1] + share * (page.window[1] - page.window[0])),
    };
  },
};

/** @param {Page} page @param {Track} track */
function presetsOf(page, track) {
  const presets = [{name: capital(wholeName(page)), from: 0, to: track.total}];
  const phases = unique(track.loops.map(loop => loop.phase));
  for (const phase of phases) {
    const {name, from, to} = middleLoop(track, phase);
    presets.push({
      name: `${capital(name.replace(/\//g, ' '))} ${phase}`,
      from: from - (to - from) * 0.04,
      to: to + (to - from) * 0.04
    });
  }
  for (const {name, from, to} of track.phases)
    if (!phases.includes(name))
      presets.push(
          {name: capital(name), from: from - track.total * 0.005, to: to + track.total * 0.005});
  return presets;
}

/**
 * The middle iteration, the same of every phase.
 * @param {Track} track
 */
function middleLoop(track, phase) {
  const names = unique(track.loops.map(loop => loop.name));
  const middle = names[Math.floor(names.length / 2)];
  const loops = track.loops.filter(loop => loop.phase === phase);
  return loops.find(loop => loop.name === middle) || loops[0];
}

/**
 * The window that the timeline opens on: one layer backward, else everything.
 * @param {Track} track
 */
function firstWindow(track) {
  const loop = middleLoop(track, 'backward');
  if (!loop) return [0, track.total];
  const {from, to} = loop;
  return [Math.max(0, from - (to - from) * 0.04), Math.min(track.total, to + (to - from) * 0.04)];
}

/** @param {Page} page @param {Track} track */
function occurrencesOf(page, track) {
  const {item, related} = page;
  if (!item || item.kind === 'axis') return [];
  const runs = track.runs.filter(run => related.operation.has(run.operation));
  const sendings =
      track.lanes.flatMap(lane => lane.sendings)
          .filter(sending => sending.collectives.some(one => related.collective.has(one)));
  const own = item.kind === 'collective' ? sendings :
      item.kind === 'operation'          ? runs :
                                           [...runs, ...sendings];
  return [...own].sort((a, b) => a.start - b.start);
}

/**
 * The command that a key leads to: left and right in its lane, beyond the window too; up and down
 * to the nearest in another lane that has any there.
 * @param {Page} page @param {Track} track
 */
function commandAt(page, track, id, key) {
  const lanes = /** @type {{id: string, start: number, time: number}[][]} */ (
      [track.runs, ...track.lanes.map(lane => lane.sendings)]);
  const level = lanes.findIndex(lane => lane.some(command => command.id === id));
  const lane = lanes[level];
  const at = lane.findIndex(command => command.id === id);
  const places = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: lane.length - 1};
  if (Object.hasOwn(places, key)) return lane[places[key]];
  const [from, to] = page.window;
  const apart = command => Math.abs(command.start - lane[at].start);
  const others = key === 'ArrowDown' ? lanes.slice(level + 1) : lanes.slice(0, level).reverse();
  for (const other of others) {
    const seen = other.filter(({start, time}) => start + time > from && start < to);
    if (seen.length) return seen.reduce((near, one) => apart(one) < apart(near) ? one : near);
  }
  return null;
}

const wholeName = page => page.plan.execution === 'step' ? 'whole step' : 'everything';

/**
 * Draws it, and returns what shows a window on it: that moves more often.
 * @param {Page} page @param {Track} track
 */
function drawWhole(page, track, picture) {
  const scale = new Scale(track, 0, track.total, page.width());
  clear(picture);
  picture.setAttribute('width', String(scale.width));
  picture.setAttribute('height', '88');
  for (const {name, from, to} of track.phases) {
    const width = scale.x(to) - scale.x(from);
    if (width > 7 * name.length)
      picture.append(
          svg('text.faint', {x: scale.x(from) + 3, y: 10},
              track.timed && width > 150 ? `${name}  ${formatTime(to - from)}` : name));
    picture.append(svg('line.tick', {x1: scale.x(from), x2: scale.x(from), y1: 2, y2: 64}));
  }
  picture.append(
      svg('text', {x: 0, y: 38}, wholeName(page)),
      svg('text.faint', {x: 0, y: 53}, track.timed ? 'share of time' : 'flops'));
  // Without times a slice is a whole number of commands or a command one of slices.
  const slices = !track.timed && track.total <= 240 ? track.total * Math.floor(240 / track.total) :
      track.runs.length > 600                       ? 110 :
                                                      240;
  drawShares(track, picture, scale, 16, 46, slices);
  drawTicks(track, picture, scale, 70);
  const frame = svg('rect.window', {y: 13, height: 52, rx: 2});
  picture.append(frame);
  return ([from, to]) => {
    frame.classList.toggle('hidden', to - from >= track.total * 0.999);
    frame.setAttribute('x', String(scale.x(from)));
    frame.setAttribute('width', String(Math.max(2, scale.x(to) - scale.x(from))));
  };
}

/**
 * Draws the window, and returns the commands in it that can be selected, by id.
 * @param {Page} page @param {Track} track
 */
function drawDetail(page, track, picture) {
  const drawn = /** @type {Map<string, SVGElement>} */ (new Map());
  const [from, to] = page.window;
  const scale = new Scale(track, from, to, page.width());
  clear(picture);
  let top = 26;
  const measured = page.plan.trace ? MEASURED : 0;
  const height = top + COMPUTE + LANE_APART + measured +
      track.lanes.length * (LANE + LANE_APART + measured) + 20;
  picture.setAttribute('width', String(scale.width));
  picture.setAttribute('height', String(height));
  for (const loop of track.loops)
    if (scale.sees(loop.from, loop.to)) {
      const x = scale.x(loop.from);
      const width = scale.x(loop.to) - x;
      if (width > 7 * loop.name.length)
        picture.append(
            svg('line.tick', {x1: x, x2: x + width - 2, y1: 17, y2: 17}),
            svg('text.faint', {x, y: 12},
                width > 7 * (loop.name.length + loop.phase.length + 1) ?
                    `${loop.name.replace(/\//g, ' ')} ${loop.phase}` :
                    loop.name.replace(/\//g, ' ')));
    }
  picture.append(
      svg('text', {x: 0, y: top + 18}, 'compute'),
      svg('text.faint', {x: 0, y: top + 32}, 'one device'));
  drawCommands(page, track, picture, scale, top, drawn);
  if (measured) drawMeasured(track, picture, scale, top + COMPUTE + 2, track.runs);
  top += COMPUTE + LANE_APART + measured;
  for (const lane of track.lanes) {
    drawLane(page, track, picture, scale, lane, top, drawn);
    if (measured) drawMeasured(track, picture, scale, top + LANE + 2, lane.sendings);
    top += LANE + LANE_APART + measured;
  }
  drawTicks(track, picture, scale, top - 4);
  return drawn;
}

/**
 * Dragging over the whole step chooses a window; a click moves it.
 * @param {Page} page
 * @param {Track} track
 */
function listenToBrush(page, track, picture, setWindow) {
  let origin = null;
  const at = event => Math.max(
      0,
      Math.min(
          track.total,
          new Scale(track, 0, track.total, page.width())
              .at(event.clientX - picture.getBoundingClientRect().left)));
  const small = track.total * 0.002;
  picture.addEventListener('pointerdown', event => {
    origin = at(event);
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener('pointermove', event => {
    if (origin != null && Math.abs(at(event) - origin) > small)
      setWindow(Math.min(at(event), origin), Math.max(at(event), origin));
  });
  picture.addEventListener('pointerup', event => {
    const length = page.window[1] - page.window[0];
    if (origin != null && Math.abs(at(event) - origin) <= small && length < track.total * 0.999)
      setWindow(origin - length / 2, origin + length / 2);
    origin = null;
  });
}

/** @param {Page} page @param {Track} track */
function timelineKey(page, track) {
  const products = unique(track.runs.map(run => run.kind)).filter(isProduct).sort().reverse();
  return html(
      'div.key', {},
      products.length ?
          html('span', {}, swatch('var(--c1)'), products.map(kind => KINDS[kind][0]).join(' or ')) :
          null,
      html('span', {}, swatch('var(--c2)'), 'other computation'),
      track.timed ?
          [
            html('span', {}, 'stripes: waiting, in the colour of the axis'),
            html('span', {}, `full colour: ${EXPOSED}`),
            html('span', {}, 'pale: sent behind computation')
          ] :
          null,
      page.plan.trace ? html(
                            'span', {}, swatch('var(--m3)'),
                            track.timed ? 'measured: at the line as predicted, above it slower' :
                                          'measured: as high as it took') :
                        null);
}
