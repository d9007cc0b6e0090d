// Parts of sentences that several views say.

/**
 * A button that selects a line and shows it in the source.
 * @param {Page} page
 */
function lineLink(page, line, text = lineName(page.plan, line)) {
  return html(
      'button.link', {
        type: 'button',
        onclick: event => {
          event.stopPropagation();
          page.seek({kind: 'line', index: line}, 'source');
        },
      },
      text);
}

/**
 * A button that selects an item and stays where it is.
 * @param {Page} page
 * @param {Item} item
 */
function itemLink(page, item, text) {
  return html(
      'button.link', {
        type: 'button',
        onclick: event => {
          event.stopPropagation();
          page.select(item, true);
        },
      },
      text);
}

/** A parenthesis does not stand alone at the end of a line. */
const inParentheses = node => html('span.together', {}, '(', node, ')');

/** A value of a cause: "the einsum inside logits" where it has no name of its own. */
function causedNode(name, operation) {
  if (!operation) return html('code', {}, name);
  return name ? [`the ${operation} inside `, html('code', {}, name)] : `an inner ${operation}`;
}

/**
 * "<batch@data> partial sum over model" with the axes in their colours.
 * @param {Page} page
 */
function splitNode(page, text, tag = 'span.mono') {
  return html(tag, {}, text.split(/([\p{L}_][\p{L}\p{N}_]*)/u).map(word => {
    const axis = page.plan.axes.find(candidate => candidate.name === word);
    return axis ? html('b.hue', {axes: [axis.index]}, word) : word;
  }));
}

/**
 * A line of the spec, what the span means in it marked.
 * @param {Page} page
 * @param {Span} span
 */
function quoteNode(page, span) {
  const line = page.plan.lines[lineOf(page.plan, span)];
  if (!line) return null;
  const {text} = line;
  const indent = text.length - text.trimStart().length;
  const end = span.end_line === span.line ? span.end_column - 1 : text.length;
  return html(
      'code', {}, text.slice(indent, span.column - 1),
      html('mark', {}, text.slice(span.column - 1, end)), text.slice(end));
}

/**
 * The sentence of why a collective is there.
 * @param {Page} page
 * @param {Collective} collective
 */
function needSentence(page, collective) {
  const {cause} = collective;
  const {needed, had} = cause;
  return html(
      'p', {}, causedNode(cause.consumer, cause.consumer_operation), ' needs ',
      causedNode(cause.operand, cause.operand_operation), ' as ', splitNode(page, needed),
      '; it is computed as ', splitNode(page, had), '.');
}

/**
 * The lines of a cause, numbered as in the source.
 * @param {Page} page
 * @param {Collective} collective
 */
function causeList(page, collective) {
  const shown = new Set();
  const items = [];
  collective.spans.forEach((span, place) => {
    const line = lineOf(page.plan, span);
    if (line < 0 || shown.has(line)) return;
    shown.add(line);
    const text = page.plan.lines[line].text.slice(span.column - 1, span.end_column - 1);
    const rule = page.plan.lines[line].rules.some(dim => text.startsWith(dim.name));
    const role = rule ? 'this rule of the layout splits it' :
        place === 0   ? 'needed here' :
                        'computed here';
    items.push(html(
        'li', {}, html('span.step', {}, collective.steps.indexOf(line) + 1),
        html(
            'span', {}, html('span.role', {}, role, ', ', lineLink(page, line)), html('br'),
            quoteNode(page, span))));
  });
  return html('ol.cause', {}, items);
}

const EXPOSED = 'exposed, with nothing computed meanwhile';
/**
 * What the word means, for views that have it in a table.
 * @param {Plan} plan
 */
const exposedNote = plan => plan.timed ?
    ' Exposed is the time in which a device computes nothing while a message is under way.' :
    '';

/**
 * Whether something is computed beside it, or how much of it is exposed.
 * @param {Collective} collective
 */
function exposureText(collective) {
  const share = collective.time > 0 ? collective.exposed / collective.time : 0;
  return share > 0.98 ? EXPOSED :
      share < 0.02    ? 'hidden behind computation' :
                        `${formatShare(share)} ${EXPOSED}`;
}

/**
 * The cause in one clause.
 * @param {Page} page
 * @param {Collective} collective
 */
function becauseClause(page, collective) {
  const {steps, cause} = collective;
  if (!steps.length) return ['.'];
  const rule = steps[steps.length - 1];
  const use = steps[Math.max(0, steps.length - 2)];
  const summed = /(?:contraction|reduction) over split dimension "(.+?)"/.exec(cause.rule);
  if (summed && steps.length > 1)
    return [
      ', because ', lineLink(page, use), ' sums over ', html('code', {}, summed[1]), ', which ',
      lineLink(page, rule), ' splits over ', enumerate(collective.axes.map(axisChip)), '.'
    ];
  const window = /window "(.+?)"/.exec(cause.rule);
  if (window && steps.length > 1)
    return [
      ', because ', lineLink(page, use), ' reads positions of ', html('code', {}, window[1]),
      ' beyond its own block, which ', lineLink(page, rule), ' splits.'
    ];
  return [', because of ', enumerate(steps.map(line => lineLink(page, line))), '.'];
}

/**
 * "batch 128 · hidden 512" with the split sizes in the colour of their axis.
 * @param {Page} page
 * @param {Value} value
 */
function shapeNode(page, value) {
  if (!value.dims.length) return html('span.shape', {}, html('span.faint', {}, 'one number'));
  return html('span.shape', {}, value.dims.map((dim, place) => {
    const axes = axesOf(page.plan, dim.axes);
    const text = `${dim.name} ${dim.local_size}`;
    const title = `${dim.name}: ${dim.local_size} of ${dim.size}`;
    return [
      place ? html('span.faint', {}, ' · ') : null,
      axes.length ? html('span.hue', {axes, title}, text) : text
    ];
  }));
}

/**
 * What a device holds of a value along an axis, as a cell of the matrix.
 * @param {Page} page
 */
function axisCell(page, value, axis, short = false) {
  const {plan} = page;
  const dims = value.dims.filter(dim => axesOf(plan, dim.axes).includes(axis));
  if (dims.length) {
    const {name, size, local_size: local} = dims[0];
    return html(
        'span.cell', {axes: [axis], title: `${name} ${size}: ${local} on each device`}, name,
        short ? null : html('small', {}, `${local} of ${size}`));
  }
  if (value.partial && axesOf(plan, value.partial.axes).includes(axis))
    return html(
        'span.cell.term',
        {axes: [axis], title: `each device has one term of a ${value.partial.kind}`},
        short ? 'Σ' : `Σ partial ${value.partial.kind}`);
  return html(
      'span.cell.copies', {title: 'all devices along this axis hold the same'},
      plan.axes[axis].size > 1 ? `× ${plan.axes[axis].size}` : '');
}

/**
 * "× 96" after a folded name.
 * @param {{count: number}} row
 */
const timesNode = row => row.count > 1 ? html('span.times', {}, `${NO_BREAK}× ${row.count}`) : null;

/**
 * What is planned, with its article.
 * @param {Plan} plan
 */
const anExecution = plan => plan.firstParts ? `the last of ${plan.firstParts + 1} parts of a step` :
    plan.execution === 'step' ? 'a step' :
                                `an ${plan.execution}`;

/**
 * Why there are no times: a clause, or nothing where there are.
 * @param {Plan} plan
 */
function untimedClause(plan) {
  if (plan.timed) return '';
  const refused = (plan.machine && plan.machine.cannot_run || []).length;
  return refused ? `${plan.machine.label} has no units for ${formatCount(refused, 'operation')}` :
                   'No machine was named';
}

/**
 * By whose prices a collective was chosen.
 * @param {Plan} plan
 */
const pricesOf = plan =>
    plan.machine ? `predicted for ${plan.machine.label}` : 'by the prices of CPU devices';
