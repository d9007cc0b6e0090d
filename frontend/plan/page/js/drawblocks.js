// The drawing of a value: blocks, rulers, cuts, copies behind, halos.

const SHEETS = 3;
const SHEET = 5;
const RULER = 6;
const CUT_APART = 5;

/** @param {Page} page @param {Value} value @param {number} room in pixels */
function drawBlocks(page, value, state, room) {
  const {plan} = page;
  const across = value.dims[state.across];
  const down = state.down >= 0 ? value.dims[state.down] : null;
  const used = axesUsed(plan, value);
  const free = plan.axes.filter(
      axis => axis.size > 1 &&
          (!used.has(axis.index) ||
           (value.partial && axesOf(plan, value.partial.axes).includes(axis.index))));
  const sheets = Math.min(SHEETS, product(free.map(axis => axis.size)) - 1);
  const top = 52;
  const columns = blocksOf(plan, across);
  const rows = blocksOf(plan, down);
  const left = down ? rulerRoom(down, rows) : 8;
  const shape = getScale(across, down, Math.min(760, room - left - 12 - sheets * SHEET));
  const padded = dim => dim && !dim.window && dim.axes.length ?
      dim.local_size * blocksOf(plan, dim).length :
      dim ? dim.size :
            1;
  // Room for the rest of a short last block.
  const spareX = Math.max(0, padded(across) - across.size) * shape.perX;
  const scaleX = shape.width / (shape.width + spareX);
  const x = position => left + position * shape.perX * scaleX;
  const y = position => top + position * shape.perY;
  const spareY = down ? Math.max(0, padded(down) - down.size) * shape.perY : 0;
  const bottom = y(down ? down.size : 1);
  const right = x(across.size);
  const picture = svg('svg', {
    width: left + shape.width + 4 + sheets * SHEET,
    height: bottom + spareY + 26 + sheets * SHEET,
    role: 'img',
    'aria-label': `Blocks of ${value.name} on ${plan.devices} devices`
  });
  for (let sheet = sheets; sheet > 0; --sheet)
    picture.append(svg('rect.sheet', {
      x: left + sheet * SHEET,
      y: top + sheet * SHEET,
      width: right - left,
      height: bottom - top
    }));
  picture.append(svg('rect.base', {x: left, y: top, width: right - left, height: bottom - top}));
  if (value.partial)
    picture.append(svg('rect', {
      x: left,
      y: top,
      width: right - left,
      height: bottom - top,
      fill: stripesFill(axesOf(plan, value.partial.axes)[0])
    }));
  drawCells(page, value, state, picture, {columns, rows, across, down, x, y});
  drawCuts(plan, picture, {columns, rows, across, down, x, y, left, top, right, bottom});
  drawHalo(page, value, state, picture, {across, down, x, y});
  drawRuler(plan, picture, across, columns, x, top, false);
  if (down) drawRuler(plan, picture, down, rows, y, left, true);
  // What the last blocks have room for and the value does not have.
  if (spareX > 0)
    picture.append(
        svg('path.rest', {d: `M${right} ${top}H${x(padded(across))}V${bottom}H${right}`}));
  if (spareY > 0)
    picture.append(
        svg('path.rest', {d: `M${left} ${bottom}V${bottom + spareY}H${right}V${bottom}`}));
  const empty = [across, down]
                    .filter(dim => dim && padded(dim) > dim.size)
                    .map(dim => `${dim.name} ${padded(dim) - dim.size}`);
  if (empty.length)
    picture.append(
        svg('text.faint', {x: right, y: bottom + spareY + 18, 'text-anchor': 'end'},
            `positions left empty: ${empty.join(', ')}`));
  return {picture, note: shape.note};
}

/** Pixels in front of the drawing for what stands there: name and size, ranges, axes. */
function rulerRoom(dim, blocks) {
  const lengths = [
    `${dim.name} ${dim.size}`.length * 7.7, `÷ ${dim.axes.join(', ')}`.length * 7.7,
    ...blocks.map(block => `${block.begin}:${block.end}`.length * 7)
  ];
  return Math.min(240, Math.max(64, 22 + Math.max(...lengths)));
}

/**
 * Pixels per position; where the ratio is not kept, a note says how much it is off.
 * @param {Dim} across
 * @param {Dim} down
 */
function getScale(across, down, width) {
  if (!down) return {width, perX: width / across.size, perY: 84, note: ''};
  const ratio = down.size / across.size;
  const kept = Math.max(0.24, Math.min(0.62, ratio));
  const note = Math.abs(kept - ratio) < 0.001 ? '' :
      kept > ratio ? `${down.name} is drawn ${formatFactor(kept / ratio)} × taller than to scale.` :
                     `${across.name} is drawn ${formatFactor(ratio / kept)} × wider than to scale.`;
  return {width, perX: width / across.size, perY: width * kept / down.size, note};
}

/** Devices by the block they have; only those at the positions of the sliders. */
function devicesByBlock(page, value, state, across, down) {
  const {plan} = page;
  const fixed =
      value.dims.map((dim, place) => ({dim, place}))
          .filter(
              ({dim, place}) => dim.axes.length && place !== state.across && place !== state.down)
          .map(({dim, place}) => {
            const blocks = blocksOf(plan, dim);
            return {
              dim,
              key: blocks[sliderPosition(plan, state, dim, place, blocks, page.device)].key
            };
          });
  const holders = new Map();
  for (let device = 0; device < plan.devices; ++device) {
    if (fixed.some(({dim, key}) => blockOfDevice(plan, dim, device) !== key)) continue;
    const key = blockOfDevice(plan, across, device) + '|' + blockOfDevice(plan, down, device);
    if (holders.has(key))
      holders.get(key).push(device);
    else
      holders.set(key, [device]);
  }
  return holders;
}

/** @param {Page} page */
function drawCells(page, value, state, picture, {columns, rows, across, down, x, y}) {
  const holders = devicesByBlock(page, value, state, across, down);
  for (const row of rows)
    for (const column of columns) {
      const devices = holders.get(column.key + '|' + row.key) || [];
      const width = x(column.end) - x(column.begin);
      const height = y(row.end) - y(row.begin);
      if (!devices.length || width <= 0 || height <= 0) continue;
      const own = page.deviceChosen && devices.includes(page.device);
      const cell = svg(
          'g.block',
          {onclick: () => page.setDevice(devices.includes(page.device) ? page.device : devices[0])},
          svg('rect',
              {class: own ? 'own' : null, x: x(column.begin), y: y(row.begin), width, height}));
      const lead = own ? page.device : devices[0];
      const rest = devices.length > 1 ? `+ ${devices.length - 1}` : '';
      const fits = text => height >= 14 && width >= 7 * text.length + 6;
      const label =
          svg('text', {
            x: x(column.begin) + width / 2,
            y: y(row.begin) + height / 2 + 4,
            'text-anchor': 'middle'
          },
              svg('tspan.strong', {}, lead));
      if (rest && fits(`${lead}   ${rest}`)) label.append(svg('tspan', {dx: 8}, rest));
      if (fits(String(lead))) cell.append(label);
      tipOn(
          cell,
          () =>
              [html(
                   'b', {},
                   devices.length > 1 ?
                       `${formatInteger(devices.length)} devices: ${
                           devices.slice(0, 12).join(', ')}${devices.length > 12 ? ' …' : ''}` :
                       `device ${lead} (${coordinatesText(page.plan, lead)})`),
               html('div.mono', {}, rangesText(page.plan, value.dims, devices[0]))]);
      picture.append(cell);
    }
}

/**
 * Cuts of one dim: of the axis that makes it, the most major that changes there; not under 5 px
 * apart.
 * @param {Plan} plan
 * @param {Dim} dim
 */
function cutsOf(plan, dim, blocks, place) {
  if (!dim || !dim.axes.length) return [];
  const cuts = [];
  let last = -Infinity;
  for (let index = 1; index < blocks.length; ++index) {
    const before = blocks[index - 1].key.split(',');
    const now = blocks[index].key.split(',');
    const level = now.findIndex((position, part) => position !== before[part]);
    const at = place(blocks[index].begin);
    if (blocks[index].begin >= dim.size || at - last < CUT_APART) continue;
    last = at;
    cuts.push({at, axis: readAxis(plan, dim.axes[level]).axis});
  }
  return cuts;
}

function drawCuts(plan, picture, {columns, rows, across, down, x, y, left, top, right, bottom}) {
  const upright = cutsOf(plan, across, columns, x);
  const flat = cutsOf(plan, down, rows, y);
  // Many cuts are thin, or they hide what lies between them.
  const width = cuts => pixels(cuts.length > 12 ? 1 : 2);
  for (const {at, axis} of upright)
    picture.append(svg('line.cut', {
      axes: [axis],
      x1: at,
      x2: at,
      y1: top,
      y2: bottom,
      style: {'stroke-width': width(upright)}
    }));
  for (const {at, axis} of flat)
    picture.append(svg(
        'line.cut',
        {axes: [axis], x1: left, x2: right, y1: at, y2: at, style: {'stroke-width': width(flat)}}));
  picture.append(svg('rect.frame', {x: left, y: top, width: right - left, height: bottom - top}));
}

/**
 * The band that the chosen device reads beyond its block.
 * @param {Page} page
 */
function drawHalo(page, value, state, picture, {across, down, x, y}) {
  const {plan} = page;
  const one = halosOf(plan, value)[0];
  if (!one) return;
  const own = heldRanges(plan, value.dims, page.device);
  const read = heldRanges(plan, one.after.dims, page.device);
  const place = index => index >= 0 ? [own[index], read[index]] : [[0, 1], [0, 1]];
  const [ownX, readX] = place(state.across);
  const [ownY, readY] = place(down ? state.down : -1);
  const axis = one.axes[0];
  const band = (x0, x1, y0, y1) => {
    if (x1 > x0 && y1 > y0)
      picture.append(svg('rect.halo-band', {
        axes: [axis],
        x: x(x0),
        y: y(y0),
        width: x(x1) - x(x0),
        height: Math.max(2, y(y1) - y(y0)),
        fill: stripesFill(axis)
      }));
  };
  band(readX[0], readX[1], readY[0], ownY[0]);
  band(readX[0], readX[1], ownY[1], readY[1]);
  band(readX[0], ownX[0], ownY[0], ownY[1]);
  band(ownX[1], readX[1], ownY[0], ownY[1]);
}

/**
 * The name of a dim, its ranges and a band in the colour of its axes.
 * @param {Plan} plan
 * @param {Dim} dim
 */
function drawRuler(plan, picture, dim, blocks, place, edge, upright) {
  const axes = axesOf(plan, dim.axes);
  const title = `${dim.name} ${dim.size}`;
  const divided = axes.length ? ` ÷ ${dim.axes.join(', ')}` : '';
  if (upright)
    picture.append(
        svg('text.strong', {x: edge - 16, y: place(0) - 8, 'text-anchor': 'end'}, title));
  else
    picture.append(
        svg('text', {x: edge === 0 ? 0 : place(0), y: 12}, svg('tspan.strong', {}, title),
            axes.length ? svg('tspan.axis-text', {axes}, divided) : ''));
  // Of many blocks every second, third … has its range, as there is room for.
  const longest = largest(blocks, block => `${block.begin}:${block.end}`.length);
  const size = upright ? 13 : 6.6 * longest + 6;
  const most = largest(blocks, block => place(block.end) - place(block.begin));
  const step = Math.max(1, Math.ceil(size / Math.max(1e-9, most)));
  let free = -Infinity;
  blocks.forEach((block, index) => {
    const from = place(block.begin);
    const length = place(block.end) - from;
    if (length <= 0) return;
    const gap = length > 4 ? 0.5 : 0;
    if (axes.length) {
      const band = upright ?
          {x: edge - RULER - 4, y: from + gap, width: RULER, height: length - 2 * gap} :
          {x: from + gap, y: edge - RULER - 4, width: length - 2 * gap, height: RULER};
      picture.append(svg('rect', {...band, fill: axesFill(axes), opacity: index % 2 ? 0.6 : 1}));
    }
    const text = `${block.begin}:${block.end}`;
    const middle = from + length / 2;
    if (index % step || middle - size / 2 < free) return;
    free = middle + size / 2;
    picture.append(
        upright ? svg('text.faint', {x: edge - 16, y: middle + 4, 'text-anchor': 'end'}, text) :
                  svg('text.faint', {x: middle, y: edge - 16, 'text-anchor': 'middle'}, text));
  });
  if (upright && axes.length)
    picture.append(
        svg('text.axis-text', {axes, x: edge - 16, y: place(dim.size) + 16, 'text-anchor': 'end'},
            `÷ ${dim.axes.join(', ')}`));
}
