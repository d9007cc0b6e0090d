// Who holds what: a value to scale, or all that one device holds.

const DEVICES_SHOWN = 24;

/** @type {View} */
const devicesView = {
  id: 'devices',
  name: 'Devices',
  title: 'Who holds what',
  height: 640,
  text: () => 'The chosen value to scale. A cut has the colour of the axis that makes it; ' +
      'sheets behind are copies, stripes are terms of a sum, the striped band is what a device ' +
      'reads from its neighbours.',
  occurs: related => related.value.size > 0,
  build(page) {
    const {plan} = page;
    const body = html('div');
    const state = {
      mode: 'value',
      drawn: -1,
      down: -1,
      across: -1,
      at: /** @type {Map<number, number>} */ (new Map()),
      all: false
    };
    const mode = choice([['value', 'A value'], ['device', 'A device']], 'value', chosen => {
      state.mode = chosen;
      draw();
    });
    const pick = html('select', {
      'aria-label': 'Value',
      onchange: () => page.select({kind: 'value', index: Number(pick.value)}, true)
    });
    for (const group of GROUPS) {
      const list = plan.values.filter(
          value => value.group === group && !value.inside && value.dims.length &&
              (value.stored || value.index === page.value));
      if (list.length)
        put(pick,
            html(
                'optgroup', {label: group},
                list.map(value => html('option', {value: value.index}, shortName(value.name)))));
    }
    const device = html('input.filter.device', {
      type: 'number',
      min: 0,
      max: plan.devices - 1,
      'aria-label': 'Device',
      oninput: () => {
        if (device.value !== '') page.setDevice(Number(device.value) | 0);
      }
    });

    function draw() {
      if (![...pick.querySelectorAll('option')].some(
              option => Number(option.value) === page.value) &&
          plan.values.length)
        put(pick, html('option', {value: page.value}, shortName(plan.values[page.value].name)));
      pick.value = String(page.value);
      if (document.activeElement !== device) device.value = String(page.device);
      pick.classList.toggle('hidden', state.mode !== 'value');
      if (state.drawn !== page.value) resetDrawing(plan, state, page.value);
      const inList = body.contains(document.activeElement.closest('[data-list="device"]'));
      put(clear(body),
          !plan.values.length        ? html('p.faint', {}, 'The program has no named values.') :
              state.mode === 'value' ? drawValue(page, state, draw) :
                                       drawDevice(page, state, draw));
      // The focus goes on with the device.
      const row =
          inList && body.querySelector(`[data-list="device"] [data-index="${page.device}"]`);
      if (row) row.focus();
    }
    let shown = '';
    const select = () => {
      const now = `${page.value} ${page.device} ${page.deviceChosen}`;
      if (now !== shown) draw();
      shown = now;
    };
    select();
    return {
      controls: [mode.element, pick, html('label.faint.small', {}, 'device ', device)],
      body,
      select,
      resize: draw
    };
  },
};

/**
 * Two split dims first, the longer one across.
 * @param {Plan} plan
 */
function resetDrawing(plan, state, index) {
  state.drawn = index;
  state.at = new Map();
  const dims = plan.values.length ? plan.values[index].dims : [];
  const order =
      dims.map((_, place) => place)
          .sort(
              (a, b) => Number(dims[b].axes.length > 0) - Number(dims[a].axes.length > 0) ||
                  dims[b].size - dims[a].size);
  const [first, second] = order.slice(0, 2).sort((a, b) => dims[b].size - dims[a].size || b - a);
  state.across = first ?? -1;
  state.down = second ?? -1;
}

/**
 * Blocks of a dim along its parts: positions, range.
 * @param {Plan} plan
 * @param {Dim} dim
 */
function blocksOf(plan, dim) {
  if (!dim) return [{key: '', begin: 0, end: 1}];
  const parts = dim.axes.map(name => readAxis(plan, name));
  const blocks = new Map();
  for (let device = 0; device < plan.devices; ++device) {
    const coordinates = coordinatesOf(plan.axes, device);
    const key = parts.map(part => positionIn(plan.axes, part, coordinates)).join();
    if (blocks.has(key)) continue;
    const [begin, end] = heldRange(plan, dim, coordinates);
    blocks.set(key, {key, begin, end});
  }
  return [...blocks.values()].sort((a, b) => a.begin - b.begin || a.end - b.end);
}

/**
 * The block of a device along a dim, as `blocksOf` calls it.
 * @param {Plan} plan
 * @param {Dim} dim
 */
function blockOfDevice(plan, dim, device) {
  const coordinates = coordinatesOf(plan.axes, device);
  return dim ?
      dim.axes.map(name => positionIn(plan.axes, readAxis(plan, name), coordinates)).join() :
      '';
}

/** @param {Page} page */
function drawValue(page, state, draw) {
  const {plan} = page;
  const value = plan.values[page.value];
  const side = page.width() >= 900;
  const drawing = value.dims.length ?
      drawBlocks(page, value, state, side ? page.width() - 332 : page.width()) :
      {picture: html('p.faint', {}, 'One number: every device holds it.'), note: null};
  const picture = html(
      'div', {}, value.dims.length ? dimControls(page, value, state, draw) : null, drawing.picture,
      drawing.note ? html('p.faint.small', {}, drawing.note) : null, haloSentence(page, value));
  return html(
      'div.holders', {class: side ? 'holders beside' : 'holders'}, picture,
      html('div.holders-side', {}, valueFacts(page, value), deviceList(page, value, state, draw)));
}

/**
 * Selects for the drawn dims and sliders for split ones that are not drawn.
 * @param {Page} page
 * @param {Value} value
 */
function dimControls(page, value, state, draw) {
  const {plan} = page;
  const select = (field, other, label) => {
    const element = html(
        'select', {
          'aria-label': label,
          onchange: () => {
            const before = state[field];
            state[field] = Number(element.value);
            if (state[field] === state[other]) state[other] = before;
            draw();
          },
        },
        value.dims.map((dim, place) => html('option', {value: place}, `${label}: ${dim.name}`)));
    element.value = String(state[field]);
    return element;
  };
  const rest = value.dims.map((dim, place) => ({dim, place}))
                   .filter(({place}) => place !== state.down && place !== state.across);
  const sliders = rest.filter(({dim}) => dim.axes.length).map(({dim, place}) => {
    const blocks = blocksOf(plan, dim);
    const at = sliderPosition(plan, state, dim, place, blocks, page.device);
    const slider = html('input', {
      type: 'range',
      min: 0,
      max: blocks.length - 1,
      step: 1,
      'aria-label': `block of ${dim.name}`,
      oninput: () => {
        state.at.set(place, Number(slider.value));
        draw();
      }
    });
    slider.value = String(at);
    return html('label.small', {}, `${dim.name} ${blocks[at].begin}:${blocks[at].end} `, slider);
  });
  const whole = rest.filter(({dim}) => !dim.axes.length).map(({dim}) => `${dim.name} ${dim.size}`);
  return html(
      'div.dims', {},
      state.down >= 0 ? [select('down', 'across', 'down'), select('across', 'down', 'across')] :
                        null,
      sliders,
      whole.length ?
          html('span.small.faint', {}, `each block has all of ${enumerateWords(whole)}`) :
          null);
}

/** The block that a slider stands at: that of the device, until it is moved. */
function sliderPosition(plan, state, dim, place, blocks, device) {
  const own = blocks.findIndex(block => block.key === blockOfDevice(plan, dim, device));
  return Math.min(blocks.length - 1, state.at.get(place) ?? Math.max(0, own));
}

/**
 * What a device reads beyond its own block: of every collective that gives it a window.
 * @param {Plan} plan
 * @param {Value} value
 */
function halosOf(plan, value) {
  return plan.collectives.filter(
      one => one.value === value.index && one.after && one.after.dims.some(dim => dim.window) &&
          one.after.dims.length === value.dims.length);
}

/**
 * The first device that reads beyond its block of a value, or 0.
 * @param {Plan} plan
 */
function firstReader(plan, index) {
  const value = plan.values[index];
  const one = value && halosOf(plan, value)[0];
  if (!one) return 0;
  const devices = Array.from({length: plan.devices}, (_, device) => device);
  const readsMore = device => {
    const own = heldRanges(plan, value.dims, device);
    return heldRanges(plan, one.after.dims, device)
        .some(([from, to], place) => from < own[place][0] || to > own[place][1]);
  };
  return devices.find(readsMore) ?? 0;
}

/** @param {Page} page @param {Value} value */
function haloSentence(page, value) {
  const {plan} = page;
  return halosOf(plan, value).slice(0, 3).map(one => {
    const own = heldRanges(plan, value.dims, page.device);
    const read = heldRanges(plan, one.after.dims, page.device);
    const coordinates = coordinatesOf(plan.axes, page.device);
    const pieces = [];
    one.after.dims.forEach((dim, place) => {
      const [begin, end] = own[place];
      const [from, to] = read[place];
      if (from < begin) pieces.push(`${value.dims[place].name} ${from}:${Math.min(begin, to)}`);
      if (to > end) pieces.push(`${value.dims[place].name} ${Math.max(end, from)}:${to}`);
      for (const [first, last] of heldRuns(plan, dim, coordinates).slice(1))
        if (first < last) pieces.push(`${value.dims[place].name} ${first}:${last}`);
    });
    return html(
        'p.halo', {},
        pieces.length ?
            [
              `Halo of device ${page.device}: `, html('code', {}, pieces.join(', ')),
              ', sent by its neighbours in '
            ] :
            [`Device ${page.device} reads nothing beyond its block in `],
        itemLink(page, {kind: 'collective', index: one.index}, one.id), ' for ',
        causedNode(one.cause.consumer, one.cause.consumer_operation), '.');
  });
}

/** @param {Page} page @param {Value} value */
function valueFacts(page, value) {
  const {plan} = page;
  const copies = copiesOf(plan, value);
  const held = heldBytes(plan, value, page.device);
  const terms =
      value.partial ? product(value.partial.axes.map(name => readAxis(plan, name).size)) : 1;
  const rows = [
    [
      'whole',
      html(
          'span.mono', {},
          value.dims.map(dim => `${dim.name}${NO_BREAK}${dim.size}`).join(' · ') || 'one number'),
      value.globalBytes
    ],
    [
      'a block',
      html('span.mono', {}, value.dims.map(dim => dim.local_size).join(' · ') || 'one number'),
      value.bytes
    ],
    [
      `device ${page.device}`, html('span.mono', {}, rangesText(plan, value.dims, page.device)),
      held
    ],
  ];
  return html(
      'dl.fact-list', {},
      rows.map(
          ([name, text, bytes]) =>
              [html('dt', {}, name),
               html('dd', {}, text, html('span.faint', {}, ` ${formatBytes(bytes)}`))]),
      html('dt', {}, 'copies'), html('dd', {}, copies > 1 ? copiesText(plan, value) : 'none'),
      terms > 1 ? [html('dt', {}, 'terms'), html('dd', {}, `${terms} of a ${value.partial.kind}`)] :
                  null);
}

/** @param {Page} page @param {Value} value */
function deviceList(page, value, state, draw) {
  const {plan} = page;
  const count = state.all ? plan.devices : Math.min(plan.devices, DEVICES_SHOWN);
  const first = Math.max(0, Math.min(page.device - Math.floor(count / 2), plan.devices - count));
  const rows =
      Array.from({length: count}, (_, place) => first + place)
          .map(
              device => html(
                  'button', {
                    type: 'button',
                    class: device === page.device && page.deviceChosen ? 'selected' : null,
                    'data-index': device,
                    onclick: () => page.setDevice(device),
                  },
                  `dev ${device} `,
                  plan.axes.length ? html('span.faint', {}, `(${coordinatesText(plan, device)})`) :
                                     null,
                  html('br'),
                  `${rangesText(plan, value.dims, device)} ${
                      formatBytes(heldBytes(plan, value, device))}`));
  return html(
      'div.device-list', {'data-list': 'device'}, rows,
      count < plan.devices && plan.devices <= 4096 ?
          html(
              'button.link.more', {
                type: 'button',
                onclick: () => {
                  state.all = true;
                  draw();
                }
              },
              `all ${formatInteger(plan.devices)} devices`) :
          null);
}

/**
 * All that a device holds, largest first.
 * @param {Page} page
 */
function drawDevice(page, state, draw) {
  const {plan} = page;
  const rows =
      plan.values.filter(value => value.stored && !value.inside)
          .map(value => ({value, bytes: heldBytes(plan, value, page.device) * value.count}))
          .sort((a, b) => b.bytes - a.bytes);
  const shown = state.all ? rows : rows.slice(0, 30);
  const most = Math.max(1, largest(rows, row => row.bytes));
  return html(
      'div', {},
      html(
          'p.sum', {}, html('b', {}, `Device ${page.device}`),
          ` (${
              coordinatesText(
                  plan,
                  page.device)}). Values of the forward and backward pass are not all alive together.`),
      html(
          'div.scroll', {},
          html(
              'table', {'data-list': 'held'},
              html(
                  'thead', {},
                  html(
                      'tr', {}, html('th', {}, 'value'), html('th', {}, 'positions'),
                      html('th.right', {}, 'bytes'), html('th'))),
              html(
                  'tbody', {},
                  shown.map(
                      ({value, bytes}) => pickable(
                          html(
                              'tr', {}, html('td', {}, nameNode(value.name), timesNode(value)),
                              html(
                                  'td', {},
                                  html('span.mono', {}, rangesText(plan, value.dims, page.device)),
                                  value.partial ? html('span.faint', {}, ' one term') : null),
                              html('td.right', {}, formatBytes(bytes)),
                              html('td.bars', {}, bar(bytes / most, 112, {}, 'bytes'))),
                          value.index,
                          () => page.select({kind: 'value', index: value.index}, true)))))),
      rows.length > shown.length ? html(
                                       'button.link.more', {
                                         type: 'button',
                                         onclick: () => {
                                           state.all = true;
                                           draw();
                                         }
                                       },
                                       `${rows.length - shown.length} more`) :
                                   null);
}
