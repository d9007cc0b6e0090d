// The spec with what it costs.

const KEYWORDS = new Set([
  'mesh',   'dim', 'let',   'layout', 'model',    'param',     'output', 'fn',    'return',
  'for',    'in',  'data',  'train',  'minimize', 'optimizer', 'epochs', 'steps', 'precision',
  'import', 'as',  'state', 'if',     'else',     'assert',    'with'
]);
const GUTTER = 64;

/**
 * Bytes sent, by axes, and times of each line.
 * @param {Plan} plan
 */
function costOfLines(plan) {
  const costs =
      plan.lines.map(() => ({sent: 0, computed: 0, exposed: 0, flops: 0, byAxes: new Map()}));
  for (const operation of plan.operations)
    if (operation.line >= 0) {
      costs[operation.line].computed += operation.time;
      costs[operation.line].flops += operation.flops;
    }
  for (const collective of plan.collectives)
    if (collective.line >= 0) {
      const cost = costs[collective.line];
      const key = collective.axes.join();
      const own = cost.byAxes.get(key) || {axes: collective.axes, sent: 0, exposed: 0};
      own.sent += collective.sent;
      own.exposed += collective.exposed;
      cost.byAxes.set(key, own);
      cost.sent += collective.sent;
      cost.exposed += collective.exposed;
    }
  return costs;
}

/**
 * The values that a line is shown with: of `param` the parameters, else the last that is stored.
 * @param {Plan} plan
 * @returns {Value[]}
 */
function valuesOfLine(plan, line) {
  const own = plan.values.filter(
      value => value.line === line && !value.inside && value.role !== 'state' &&
          value.role !== 'gradient');
  if (/^\s*param\b/.test(plan.lines[line].text)) return own.filter(value => value.role === 'param');
  // A call of a library declares parameters on its line too, but binds another value.
  const bound = own.filter(value => value.role !== 'param');
  const stored = bound.filter(value => value.stored);
  return (stored.length ? stored : bound).slice(-1);
}

/** @param {Plan} plan @param {Value} value */
function chipsOf(plan, value) {
  const chips = [];
  for (const dim of value.dims)
    for (const name of dim.axes) {
      const part = readAxis(plan, name);
      chips.push(html(
          'span.chip', {
            axes: [part.axis],
            title: `${dim.name} ${dim.size}: ${dim.local_size} on each device, split over ${name}`
          },
          `${dim.name}/${part.size}`));
    }
  if (value.partial)
    for (const axis of axesOf(plan, value.partial.axes))
      chips.push(html(
          'span.chip.term', {
            axes: [axis],
            title: `each device has one term of a ${value.partial.kind} over ${axisName(axis)}`
          },
          `Σ ${axisName(axis)}`));
  return chips.length ?
      chips :
      [html('span.chip.copies', {title: 'every device holds all of it'}, 'replicated')];
}

const REMARKS = {
  resharding: 'resharded',
  gather: 'gathered whole',
  library_copy: 'copied',
  stored_view: 'view stored',
  untiled: 'not in tiles',
  unrolled: 'written out',
  replicated: 'whole on every device',
  lost_rule: 'not split by this'
};

/**
 * What a line costs that was not written.
 * @param {Plan} plan
 */
function remarkChips(plan, line) {
  return plan.remarks.filter(remark => remark.line === line)
      .map(
          remark => html(
              'span.chip.remark',
              {title: remark.advice ? `${remark.text}; ${remark.advice}` : remark.text},
              `${formatBytes(remark.bytes)} ${REMARKS[remark.kind] || remark.kind}`));
}

/** A comment begins outside of strings. */
const LINE_PARTS = /^((?:[^"/]|"(?:[^"\\]|\\.)*"?|\/(?!\/))*)(\/\/.*)?$/s;

/**
 * Words of the code with split dims underlined and axes coloured.
 * @param {Plan} plan
 * @param {Line} line
 */
function codeNodes(plan, line) {
  const [, code, comment] = LINE_PARTS.exec(line.text);
  const isMesh = /^\s*mesh\b/.test(code);
  const nodes = code.split(/("(?:[^"\\]|\\.)*"?|[\p{L}_][\p{L}\p{N}_']*)/u).map(word => {
    const axis = plan.axes.find(candidate => candidate.name === word);
    if (axis && (isMesh || line.rules.length || line.replaced.length))
      return html('b.hue', {axes: [axis.index]}, word);
    const dim = plan.dims.find(candidate => candidate.name === word && candidate.axes.length);
    if (dim)
      return html(
          'span.split', {
            axes: axesOf(plan, dim.axes).slice(0, 1),
            title: `${word} is split over ${dim.axes.join(', ')}`
          },
          word);
    if (KEYWORDS.has(word)) return html('b', {}, word);
    // An arrow stays in one line.
    return word.split(/(->)/).map(part => part === '->' ? html('span.together', {}, part) : part);
  });
  return comment ? [nodes, html('span.comment', {}, comment)] : nodes;
}

/**
 * Sizes of the mesh and of dims that are not those of the line.
 * @param {Plan} plan
 * @param {Line} line
 */
function overrideChips(plan, line) {
  const chips = [];
  if (/^\s*mesh\b/.test(line.text))
    for (const axis of plan.axes) {
      const written =
          new RegExp(`\\b${axis.name.replace(/\W/g, '\\$&')}\\s*=\\s*(\\d+)`).exec(line.text);
      if (!written || Number(written[1]) !== axis.size)
        chips.push(html(
            'span.chip', {axes: [axis.index], title: 'changed on the command line'},
            `here ${axis.name} ${axis.size}`));
    }
  const title = 'changed on the command line';
  const declared = /^\s*dim\s+([^=\s]+)\s*=\s*(\d+)\s*(\/\/.*)?$/.exec(line.text);
  const dim = declared && plan.dims.find(candidate => candidate.name === declared[1]);
  if (dim && Number(declared[2]) !== dim.size)
    chips.push(html('span.chip.copies', {title}, `here ${dim.size}`));
  for (const {name, axes} of line.replaced)
    chips.push(
        axes.length ? html(
                          'span.chip', {axes: axesOf(plan, axes).slice(0, 1), title},
                          `here ${name} -> ${axes.join(' + ')}`) :
                      html('span.chip.copies', {title}, `here ${name} is whole`));
  return chips;
}

/** @param {Page} page */
function buildSource(page) {
  const {plan} = page;
  const marks = page.makeMarks();
  const costs = costOfLines(plan);
  const mostSent = Math.max(1, largest(costs, cost => cost.sent));
  const timeOf = cost => cost.computed + cost.exposed;
  const longest = Math.max(1e-9, largest(costs, timeOf));
  const mostFlops = Math.max(1, largest(costs, cost => cost.flops));
  const list = html(
      'div.lines',
      {role: 'listbox', 'aria-label': 'Source of the model', tabindex: 0, 'data-list': 'line'});
  const rows = plan.lines.map(line => {
    const cost = costs[line.index];
    const sent = html('span.gutter');
    const time = html('span.gutter');
    if (cost.sent)
      put(sent, formatBytes(cost.sent), html('span.under', {}, [
            ...cost.byAxes.values()
          ].map(own => bar(own.sent / mostSent, GUTTER, {axes: own.axes}, 'plain'))));
    if (plan.timed && timeOf(cost) > plan.totals.step / 2000)
      put(time, formatTime(timeOf(cost)),
          html(
              'span.under', {},
              cost.computed ? bar(cost.computed / longest, GUTTER, {}, 'computed') : null,
              [...cost.byAxes.values()]
                  .filter(own => own.exposed > 0)
                  .map(own => bar(own.exposed / longest, GUTTER, {axes: own.axes}, 'plain'))));
    else if (!plan.timed && cost.flops > mostFlops / 2000)
      put(time, formatFlops(cost.flops),
          html('span.under', {}, bar(cost.flops / mostFlops, GUTTER, {}, 'computed')));
    const values = valuesOfLine(plan, line.index);
    const chips = new Map();
    for (const chip of values.flatMap(value => chipsOf(plan, value)))
      chips.set(chip.className + chip.textContent, chip);
    const whole = [...chips.keys()].find(key => key.endsWith('replicated'));
    if (chips.size > 1) chips.delete(whole);
    const all = [...chips.values(), ...overrideChips(plan, line), ...remarkChips(plan, line.index)];
    const code = html(
        'span.code', {},
        sent.firstChild || time.firstChild ? html('span.gutters', {}, sent, time) : null,
        line.text.trim() ? codeNodes(plan, line) : NO_BREAK,
        line.text.trim() && all.length ? html('span.chips', {}, all) : null);
    const indent = line.text.length - line.text.trimStart().length + 2;
    code.style.setProperty('padding-left', indent + 'ch');
    code.style.setProperty('text-indent', -indent + 'ch');
    const row = pickable(
        html('div.line', {role: 'option'}, html('span.number', {}, line.number), code), line.index,
        () => page.select({kind: 'line', index: line.index}));
    marks.add('line', line.index, row);
    return row;
  });
  plan.lines.forEach((line, place) => {
    if (line.number === 1 && place > 0) list.append(html('div.file', {}, line.path));
    list.append(rows[place]);
  });

  page.showLine = index => {
    const row = rows[index];
    if (list.scrollHeight <= list.clientHeight + 4) return;
    const top = row.offsetTop - list.offsetTop;
    if (top < list.scrollTop + 20 ||
        top + row.offsetHeight > list.scrollTop + list.clientHeight - 20)
      list.scrollTop = top - list.clientHeight / 2.4;
  };
  let steps = [];
  page.listeners.push(() => {
    for (const step of steps) step.remove();
    steps = [];
    for (const [line, number] of page.related.line) {
      rows[line].setAttribute('aria-selected', 'true');
      if (!number) continue;
      const step = html('span.step', {}, number);
      rows[line].firstChild.append(step);
      steps.push(step);
    }
    rows.forEach((row, index) => {
      if (!page.related.line.has(index)) row.removeAttribute('aria-selected');
    });
    if (page.item && page.item.kind !== 'line' && page.related.line.size)
      page.showLine([...page.related.line.keys()][0]);
  });
  const {totals} = plan;
  const head = html(
      'div.source-head', {}, html('b', {}, plan.json.spec.path), html('span.right', {}, 'sent'),
      html('span.right', {}, plan.timed ? 'time' : 'flops'),
      html('span', {}, `per device and ${plan.execution}`),
      html('b.right', {}, formatBytes(totals.sent)),
      html('b.right', {}, plan.timed ? formatTime(totals.step) : formatFlops(totals.flops)));
  return [head, list];
}
