// The mesh, with lines as thick as what is sent along them.

const MANY_DEVICES = 36;
const DRAWN_DEVICES = 4096;

/** @type {View} */
const meshView = {
  id: 'mesh',
  name: 'Mesh',
  title: 'Where the bytes go',
  height: 480,
  text: page => 'A line between neighbours is as thick as the bytes that a device sends along ' +
      'the axis in a step.' + exposedNote(page.plan),
  occurs: related => related.axis.size > 0 || related.collective.size > 0,
  build(page) {
    const {plan} = page;
    const picture = html('div.mesh');
    const note = html('p.faint.sum');
    let drawing = null;
    const isDrawn = plan.axes.length > 0 && plan.devices <= DRAWN_DEVICES;
    const draw = () => {
      if (!isDrawn) return;
      drawing = drawMesh(page);
      put(clear(picture), drawing.picture);
      select();
    };
    const select = () => {
      if (isDrawn) markMesh(page, drawing, note);
    };
    draw();
    return {
      body: html(
          'div', {},
          isDrawn ? picture :
                    html(
                        'p.faint', {},
                        plan.axes.length ? 'The mesh has too many devices to be drawn.' :
                                           'One device and no mesh.'),
          note, betweenNote(plan), trafficTable(page, page.makeMarks())),
      select,
      resize: draw
    };
  },
};

/**
 * Of more axes than a grid has, lines along the others are not drawn.
 * @param {Plan} plan
 */
function betweenNote(plan) {
  if (plan.axes.length < 3) return null;
  const {facets} = gridAxes(plan.axes);
  return html(
      'p.faint.sum', {}, 'Each grid is one place along ',
      enumerate(facets.map(axis => axisChip(axis.index))),
      '; what is sent between grids is in the table alone.');
}

/**
 * The axes of a grid: the longer of the last two across; earlier ones are facets.
 * @param {Axis[]} axes
 */
function gridAxes(axes) {
  const last = axes[axes.length - 1];
  const before = axes[axes.length - 2] || null;
  const [across, down] = before && before.size > last.size ? [before, last] : [last, before];
  return {across, down, facets: axes.filter(axis => axis !== across && axis !== down)};
}

/** @param {Page} page */
function drawMesh(page) {
  const {plan} = page;
  const {across, down, facets} = gridAxes(plan.axes);
  const sent = plan.axes.map(
      axis => sum(plan.collectives.filter(one => one.axes.includes(axis.index)), one => one.sent));
  const most = Math.max(1, ...sent);
  const columns = across.size;
  const rows = down ? down.size : 1;
  const count = product(facets.map(axis => axis.size));
  const left = 64;
  const room = (page.width() - left - 4) / columns;
  const gapX = columns > 20 ? Math.min(3, room * 0.4) : columns > 8 ? 8 : 44;
  // Narrow boxes stand as close below each other as beside each other.
  const gapY = rows > 20 ? 3 : rows > 8 ? 8 : columns > 20 ? 12 : 30;
  const width = Math.max(2, Math.min(72, room - gapX));
  const height = Math.min(40, Math.max(10, width));
  const top = 30;
  const one = top + rows * (height + gapY);
  const facetWidth = left + columns * (width + gapX);
  const beside = Math.max(1, Math.min(count, Math.floor(page.width() / facetWidth)));
  const cornerOf = facet => [facet % beside * facetWidth, Math.floor(facet / beside) * one];
  const picture = svg('svg', {
    width: beside * facetWidth,
    height: Math.ceil(count / beside) * one,
    role: 'img',
    'aria-label': `Mesh of ${plan.devices} devices`
  });
  const lines = svg('g');
  const boxes = svg('g');
  picture.append(lines, boxes);
  const devices = [];
  const links = [];
  for (let device = 0; device < Math.min(plan.devices, DRAWN_DEVICES); ++device) {
    const coordinates = coordinatesOf(plan.axes, device);
    const facet = facets.reduce((number, axis) => number * axis.size + coordinates[axis.index], 0);
    const [cornerX, cornerY] = cornerOf(facet);
    const x = cornerX + left + coordinates[across.index] * (width + gapX);
    const y = cornerY + top + (down ? coordinates[down.index] : 0) * (height + gapY);
    const link = (axis, room, ends) => {
      const line = svg('line.wire', {
        axes: [axis.index],
        ...ends,
        style: {'stroke-width': pixels(1 + Math.min(12, 0.6 * room) * sent[axis.index] / most)}
      });
      links.push({line, axis: axis.index, coordinates});
      lines.append(line);
    };
    if (coordinates[across.index] + 1 < columns && sent[across.index])
      link(
          across, height,
          {x1: x + width, x2: x + width + gapX, y1: y + height / 2, y2: y + height / 2});
    if (down && coordinates[down.index] + 1 < rows && sent[down.index])
      link(
          down, width,
          {x1: x + width / 2, x2: x + width / 2, y1: y + height, y2: y + height + gapY});
    const box =
        svg('g.device-box', {onclick: () => page.setDevice(device)},
            svg('rect', {x, y, width, height, rx: Math.min(5, width / 5)}),
            width > 22 ?
                svg('text.mono', {x: x + width / 2, y: y + height / 2 + 4, 'text-anchor': 'middle'},
                    device) :
                null);
    tipOn(box, () => `device ${device} (${coordinatesText(plan, device)})`);
    devices.push({box, coordinates});
    boxes.append(box);
  }
  for (let facet = 0; facet < count; ++facet) {
    const names = facetName(facets, facet);
    const [cornerX, cornerY] = cornerOf(facet);
    picture.append(
        svg('text.axis-text', {axes: [across.index], x: cornerX + left, y: cornerY + 16},
            `${across.name} →`));
    if (names)
      picture.append(svg(
          'text.faint', {x: cornerX + left + 8 * across.name.length + 24, y: cornerY + 16}, names));
    if (down)
      picture.append(
          svg('text.axis-text', {
            axes: [down.index],
            x: cornerX + left - 10,
            y: cornerY + top + height / 2 + 4,
            'text-anchor': 'end'
          },
              `${down.name} ↓`));
  }
  return {picture, devices, links};
}

/**
 * "pod=1, host=0"
 * @param {Axis[]} facets
 */
function facetName(facets, facet) {
  const coordinates = coordinatesOf(facets, facet);
  return facets.map((axis, place) => `${axis.name}=${coordinates[place]}`).join(', ');
}

/**
 * The group of the chosen device along the axes that are selected.
 * @param {Page} page
 */
function markMesh(page, drawing, note) {
  const {plan} = page;
  const selected =
      page.item && page.item.kind === 'collective' ? plan.collectives[page.item.index] : null;
  const names = selected                     ? selected.axisNames :
      page.item && page.item.kind === 'axis' ? [plan.axes[page.item.index].name] :
                                               null;
  const own = coordinatesOf(plan.axes, page.device);
  const axes = names ? axesOf(plan, names) : [];
  const parts = names ? names.map(name => readAxis(plan, name)) : [];
  // Devices of a group differ in the positions of the parts alone.
  const inGroup = coordinates => plan.axes.every(axis => {
    const here = parts.filter(part => part.axis === axis.index);
    if (!here.length) return coordinates[axis.index] === own[axis.index];
    return withoutParts(plan.axes, here, coordinates) === withoutParts(plan.axes, here, own);
  });
  const few = plan.devices <= MANY_DEVICES;
  drawing.devices.forEach(({box, coordinates}, device) => {
    box.classList.toggle('in', !!names && inGroup(coordinates));
    box.classList.toggle('own', page.deviceChosen && device === page.device);
  });
  for (const {line, axis, coordinates} of drawing.links) {
    const lit = names ? axes.includes(axis) && inGroup(coordinates) :
                        few ||
            plan.axes.every(
                other => other.index === axis || coordinates[other.index] === own[other.index]);
    line.classList.toggle('pale', !lit);
  }
  const size = product(parts.map(part => part.size));
  put(clear(note),
      names ? `The group of device ${page.device}: ${formatCount(size, 'device')}. There are ${
                  formatInteger(plan.devices / size)} such groups, all at once.` :
          few ? '' :
                `In full colour: the groups of device ${page.device}.`);
}

/**
 * The coordinate along an axis without what these parts of it say.
 * @param {Axis[]} axes
 * @param {AxisPart[]} parts
 */
function withoutParts(axes, parts, coordinates) {
  let coordinate = coordinates[parts[0].axis];
  for (const part of parts)
    coordinate -=
        positionIn(axes, part, coordinates) * (axes[part.axis].size / (part.before * part.size));
  return coordinate;
}

/** @param {Page} page @param {Marks} marks */
function trafficTable(page, marks) {
  const {plan} = page;
  const sums = sumsByAxes(plan);
  if (!sums.length) return html('p.faint', {}, 'Nothing is sent.');
  const most = Math.max(1, largest(sums, own => own.sent));
  const linked = plan.axes.some(axis => axis.link);
  return html(
      'div.scroll', {},
      html(
          'table', {},
          html(
              'thead', {},
              html(
                  'tr', {}, html('th', {}, 'axes'), linked ? html('th', {}, 'link') : null,
                  html('th', {}, 'sent by a device in a step'), html('th'),
                  html('th.right', {}, 'collectives'),
                  plan.timed ? html('th.right', {}, 'exposed of') : null)),
          html('tbody', {}, sums.map(own => {
            const row = html(
                'tr', {}, html('td', {}, axesChips(own.axes)),
                linked ? html(
                             'td', {},
                             unique(own.axes.map(axis => plan.axes[axis].link || '')).join(', ')) :
                         null,
                html('td', {}, formatBytes(own.sent)),
                html('td.bars', {}, bar(own.sent / most, 160, {axes: own.axes})),
                html('td.right', {}, formatInteger(own.count)),
                plan.timed ?
                    html('td.right', {}, `${formatTime(own.exposed)} of ${formatTime(own.time)}`) :
                    null);
            for (const axis of own.axes) marks.add('axis', axis, row);
            return row;
          }))));
}
