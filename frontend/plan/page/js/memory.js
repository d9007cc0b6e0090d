// What a device holds over the step.

const CURVE = 220;
const CURVE_TOP = 24;

/** @type {View} */
const memoryView = {
  id: 'memory',
  name: 'Memory',
  title: 'What is alive when',
  height: 760,
  text: page => page.plan.timed ?
      `Bytes of one device over the same ${page.plan.execution} as above.` :
      'Bytes of one device over the same commands as above.',
  occurs: related => related.value.size > 0,
  build(page) {
    const {plan} = page;
    const curve = makeCurve(plan);
    const picture = svg('svg', {
      role: 'img',
      'aria-label':
          `Memory over the step, ${formatBytes(plan.memory.peak_bytes_per_device)} at the peak`
    });
    const table = html('div.scroll');
    const marks = page.makeMarks();
    const state = {all: false};
    let scale = null;
    const tick = svg('rect.window-tick', {height: 4});
    const drawWindow = () => {
      const [from, to] = page.window;
      tick.classList.toggle('hidden', to - from >= page.track.total * 0.999);
      tick.setAttribute('x', String(scale.x(from)));
      tick.setAttribute('width', String(Math.max(3, scale.x(to) - scale.x(from))));
    };
    const draw = () => {
      scale = drawCurve(page, curve, picture);
      tick.setAttribute('y', String(CURVE_TOP + CURVE + 1));
      picture.append(tick);
      drawWindow();
    };
    const drawTable = () => {
      marks.clear();
      put(clear(table), aliveTable(page, marks, state.all, () => {
            state.all = true;
            drawTable();
          }));
      page.paint();
    };
    picture.addEventListener('pointermove', event => {
      const at = scale.at(event.clientX - picture.getBoundingClientRect().left);
      if (at < 0 || at > page.track.total) return hideTip();
      const place = Math.max(0, upperBound(page.track.at, at) - 1);
      showTip(event, [
        html('b', {}, formatBytes(sum(curve.sums[place], bytes => bytes))),
        ` at ${page.track.timed ? page.track.format(at) : 'command ' + place}`,
        CATEGORIES.map(
            (category, index) => curve.sums[place][index] ?
                html('div', {}, `${category} ${formatBytes(curve.sums[place][index])}`) :
                null)
      ]);
    });
    picture.addEventListener('pointerleave', hideTip);
    page.windowListeners.push(drawWindow);
    draw();
    drawTable();
    const keys = CATEGORIES.map(
        (category, index) => plan.memory[category] ?
            html(
                'span', {}, swatch(`var(--m${index})`),
                `${category} ${formatBytes(plan.memory[category])}`) :
            null);
    return {
      body: html(
          'div', {}, picture, html('div.key', {}, html('span.faint', {}, 'at the peak:'), keys),
          table, copiedTable(page)),
      resize: draw,
      reveal: () => {
        if (state.all || !page.item || table.querySelector('.selected')) return;
        state.all = true;
        drawTable();
      }
    };
  },
};

function upperBound(places, at) {
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle] <= at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/**
 * Bytes of each category at each place of the command list. What is beside the arena, and its
 * gaps, are there all the time.
 * @param {Plan} plan
 */
function makeCurve(plan) {
  const {memory, buffers, schedule} = plan;
  const changes =
      Array.from({length: schedule.length + 1}, () => new Array(CATEGORIES.length).fill(0));
  for (const buffer of buffers) {
    const category = CATEGORIES.indexOf(buffer.category);
    changes[buffer.first][category] += buffer.bytes;
    changes[Math.min(buffer.last, schedule.length - 1) + 1][category] -= buffer.bytes;
  }
  const running = new Array(CATEGORIES.length).fill(0);
  const sums = schedule.map((_, place) => {
    changes[place].forEach((bytes, category) => {
      running[category] += bytes;
    });
    return running.slice();
  });
  const peak = peakPlace(plan);
  const rest = memory.peak_bytes_per_device - sum(sums[peak] || [], bytes => bytes);
  for (const at of sums) at[CATEGORIES.indexOf('workspace')] += rest;
  return {sums, peak};
}

/**
 * The place of the command list at which most is alive: an op, or a collective's transfer.
 * @param {Plan} plan
 */
function peakPlace(plan) {
  const id = plan.memory.peak_at;
  const sending = plan.sendings.find(candidate => candidate.ids.includes(id));
  return plan.position.get(sending ? sending.id : id) ?? 0;
}

/** @param {Page} page */
function drawCurve(page, curve, picture) {
  const {plan, track} = page;
  const height = CURVE;
  const top = CURVE_TOP;
  const peak = plan.memory.peak_bytes_per_device;
  const limited = plan.limit && plan.limit < 2.5 * peak;
  const most = Math.max(peak, limited ? plan.limit : 0) * 1.02;
  const scale = new Scale(track, 0, track.total, page.width());
  const y = bytes => top + height * (1 - bytes / most);
  clear(picture);
  picture.setAttribute('width', String(scale.width));
  picture.setAttribute('height', String(top + height + 34));
  for (const bytes of byteTicks(most)) {
    picture.append(svg('line.grid', {x1: scale.left, x2: scale.width, y1: y(bytes), y2: y(bytes)}));
    if (!limited || Math.abs(y(bytes) - y(plan.limit)) > 12)
      picture.append(
          svg('text.faint.mark', {x: scale.left - 8, y: y(bytes) + 4, 'text-anchor': 'end'},
              formatBytes(bytes)));
  }
  const places = drawnPlaces(track, scale, curve.sums.map(at => sum(at, bytes => bytes)));
  const base = new Array(places.length).fill(0);
  for (const [category] of CATEGORIES.entries()) {
    if (!curve.sums.some(at => at[category] > 0)) continue;
    const above = places.map((place, index) => base[index] + curve.sums[place][category]);
    picture.append(svg(
        'path', {d: stepsPath(track, scale, places, base, above, y), fill: `var(--m${category})`}));
    above.forEach((bytes, place) => {
      base[place] = bytes;
    });
  }
  for (const {name, from} of track.phases) {
    picture.append(
        svg('line.tick', {x1: scale.x(from), x2: scale.x(from), y1: top, y2: top + height}));
    if (scale.x(from) + 7 * name.length < scale.width)
      picture.append(svg('text.faint', {x: scale.x(from) + 3, y: top + height + 14}, name));
  }
  if (limited)
    picture.append(
        svg('line.limit-line',
            {x1: scale.left, x2: scale.width, y1: y(plan.limit), y2: y(plan.limit)}),
        svg('text.over-text', {x: scale.left - 8, y: y(plan.limit) + 4, 'text-anchor': 'end'},
            formatBytes(plan.limit)));
  const x = scale.x(track.at[curve.peak] || 0);
  const over = plan.limit && peak > plan.limit;
  picture.append(
      svg('line.peak-line', {x1: x, x2: x, y1: y(peak), y2: top + height}),
      svg('circle', {class: over ? 'peak over' : 'peak', cx: x, cy: y(peak), r: 3.5}),
      svg('text', {
        class: over ? 'over-text' : 'strong',
        x: x > scale.width - 110 ? x - 8 : x + 8,
        y: y(peak) - 7,
        'text-anchor': x > scale.width - 110 ? 'end' : 'start'
      },
          `peak ${formatBytes(peak)}`));
  return scale;
}

/**
 * Of places of the command list that share a pixel the one at which most is alive.
 * @param {Track} track
 * @param {Scale} scale
 */
function drawnPlaces(track, scale, totals) {
  const places = [];
  let column = -1;
  for (let place = 0; place < totals.length; ++place) {
    const now = Math.floor(scale.x(track.at[place]));
    if (now !== column)
      places.push(place);
    else if (totals[place] > totals[places[places.length - 1]])
      places[places.length - 1] = place;
    column = now;
  }
  return places;
}

/**
 * Steps from one sum to another, from left to right and back.
 * @param {Track} track
 * @param {Scale} scale
 */
function stepsPath(track, scale, places, base, above, y) {
  const count = places.length;
  const x = place => scale.x(place < count ? track.at[places[place]] : track.total).toFixed(2);
  let path = `M${x(0)} ${y(base[0]).toFixed(2)}`;
  for (let place = 0; place < count; ++place)
    path += `V${y(above[place]).toFixed(2)}H${x(place + 1)}`;
  for (let place = count - 1; place >= 0; --place)
    path += `V${y(base[place]).toFixed(2)}H${x(place)}`;
  return path + 'z';
}

/** Round amounts in the largest unit. */
function byteTicks(most) {
  const unit = 1024 ** Math.floor(Math.log(most) / Math.log(1024));
  return ticksOf(0, most / unit, 4).map(tick => tick * unit);
}

/**
 * What is alive at the peak; a parameter counts with its optimizer state, layers are added up.
 * @param {Plan} plan
 */
function peakGroups(plan) {
  const groups = new Map();
  for (const entry of plan.memory.at_peak) {
    const index = valueOfBuffer(plan, entry);
    const value = index >= 0 ? plan.values[index] : null;
    const lasting = LASTING.includes(entry.category);
    const base = value && lasting ? value.stateOf || value : value;
    const key = (base ? base.index + entry.form : entry.name) + (lasting ? '' : entry.category);
    const group = groups.get(key) || {
      names: [],
      form: entry.form,
      value: base,
      category: entry.category,
      bytes: 0,
      count: 0,
      states: 0
    };
    group.names.push(entry.name);
    group.bytes += entry.bytes;
    group.count += 1;
    if (lasting && value && value.stateOf) group.states += 1;
    if (entry.category === 'params') group.category = 'params';
    groups.set(key, group);
  }
  return [...groups.values()]
      .map(group => ({...group, name: formName(group.value, group.form, group.names)}))
      .sort((a, b) => b.bytes - a.bytes);
}

/** @param {Page} page @param {Marks} marks */
function aliveTable(page, marks, all, showAll) {
  const {plan} = page;
  const groups = new Map();
  for (const entry of plan.memory.at_peak) {
    const index = valueOfBuffer(plan, entry);
    const key = (index >= 0 ? index + entry.form : entry.name) + entry.category;
    const group = groups.get(key) ||
        {index, names: [], form: entry.form, category: entry.category, bytes: 0, count: 0};
    group.names.push(entry.name);
    group.bytes += entry.bytes;
    group.count += 1;
    groups.set(key, group);
  }
  const rows = [...groups.values()].sort((a, b) => b.bytes - a.bytes);
  const shown = all ? rows : rows.slice(0, 16);
  const most = Math.max(1, largest(rows, row => row.bytes));
  const rowOf = group => {
    const value = group.index >= 0 ? plan.values[group.index] : null;
    const name = formName(value, group.form, group.names);
    const row = html(
        'tr', {}, html('td', {}, nameNode(name)),
        html(
            'td', {},
            html(
                'span', {}, swatch(`var(--m${CATEGORIES.indexOf(group.category)})`), ' ',
                group.category)),
        html('td.right', {}, group.count), html('td.right', {}, formatBytes(group.bytes)),
        html('td.bars', {}, bar(group.bytes / most, 112, {}, 'bytes')),
        html(
            'td.right', {},
            value && value.line >= 0 ?
                lineLink(page, value.line, lineName(plan, value.line).replace(/^line /, '')) :
                ''));
    if (!value) return row;
    marks.add('value', value.index, row);
    return pickable(row, value.index, () => page.select({kind: 'value', index: value.index}));
  };
  return [
    html(
        'table.alive', {'data-list': 'alive'},
        html(
            'thead', {},
            html(
                'tr', {}, html('th', {}, 'alive at the peak'), html('th', {}, 'category'),
                html('th.right', {}, 'buffers'), html('th.right', {}, 'bytes'), html('th'),
                html('th.right', {}, 'line'))),
        html('tbody', {}, shown.map(rowOf))),
    rows.length > shown.length ? html(
                                     'button.link.more', {type: 'button', onclick: showAll},
                                     `${rows.length - shown.length} more`) :
                                 null
  ];
}
