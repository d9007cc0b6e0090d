// Every collective, one row for each kind.

/** @typedef {{id: string, title: string, right: boolean, get: (one: Collective) => any, rising: boolean}} Column */

const BAR = 84;

/** @param {Plan} plan @returns {Column[]} */
function ledgerColumns(plan) {
  const column = (id, title, get, right = false, rising = false) => ({ id, title, get, right, rising });
  return [
    column('id', 'id', one => Number(one.id.slice(1)), false, true),
    column('kind', 'collective', one => one.kind, false, true),
    column('of', 'of', one => one.of, false, true),
    column('count', 'per step', one => one.count, true),
    column('payload', 'payload', one => one.payload, true),
    column('sent', 'sent per step', one => one.sent),
    ...plan.timed ? [column('time', 'time', one => one.time), column('exposed', 'exposed', one => one.exposed)]
      : [column('exposed', 'meanwhile', one => one.unhidden ? 0 : one.meanwhile.length)],
    column('line', 'line', one => one.line, true, true),
  ];
}

/** @type {View} */
const ledgerView = {
  id: 'ledger', name: 'Ledger', title: 'Every message, and why', height: 900,
  text: page => 'One row for each kind of message; layers are counted, not repeated. Open a row for the lines that cause it and for what was rejected.'
    + (page.plan.timed ? '' : ' No machine was named, so there are no times.'),
  occurs: related => related.collective.size > 0,
  build(page) {
    const { plan } = page;
    const columns = ledgerColumns(plan);
    const marks = page.makeMarks();
    const body = html('div.scroll');
    const show = { column: plan.timed ? 'exposed' : 'sent', down: true, query: '', axis: null, phase: null };
    const most = Math.max(1, largest(plan.collectives, one => one.sent));
    const longest = Math.max(1e-9, largest(plan.collectives, one => one.time));
    const filter = html('input.filter', {
      type: 'search', placeholder: 'Filter', 'aria-label': 'Filter collectives', oninput: () => {
        show.query = filter.value.trim().toLowerCase();
        draw();
      },
    });
    const redraw = field => key => {
      show[field] = key;
      draw();
    };
    const axes = choice(plan.axes.map(axis => [axis.index, axisChip(axis.index)]), null, redraw('axis'), true);
    const phases = choice(unique(plan.collectives.map(one => one.phase)).map(phase => [phase, phase]), null, redraw('phase'), true);

    /** @param {Collective} one */
    function isShown(one) {
      if (show.axis != null && !one.axes.includes(show.axis)) return false;
      if (show.phase && one.phase !== show.phase) return false;
      if (!show.query) return true;
      if (/^c\d+$/.test(show.query)) return one.ids.includes(show.query);
      return [kindName(one.kind), one.of, one.cause.operand, one.cause.consumer, one.cause.rule, ...one.axisNames].some(text => text.toLowerCase().includes(show.query));
    }

    function getList() {
      const { get } = columns.find(column => column.id === show.column);
      const order = (a, b) => (get(a) < get(b) ? -1 : get(a) > get(b) ? 1 : 0) * (show.down ? -1 : 1) || b.sent - a.sent;
      return plan.collectives.filter(isShown).sort(order);
    }

    /** @param {Column} column */
    function heading(column) {
      const sorted = show.column === column.id;
      const button = html('button', {
        type: 'button', 'data-column': column.id, onclick: () => {
          show.down = sorted ? !show.down : !column.rising;
          show.column = column.id;
          draw();
          body.querySelector(`[data-column="${column.id}"]`).focus();
        },
      }, column.title);
      return html('th', { class: classOf(column), 'aria-sort': sorted ? (show.down ? 'descending' : 'ascending') : null }, button);
    }
    const classOf = column => [column.right ? 'right' : '', column.id === 'payload' ? 'wide' : ''].join(' ').trim() || null;

    /** @type {Object<string, (one: Collective) => any>} */
    const cells = {
      id: one => idsText(one),
      kind: one => [html('div', {}, kindName(one.kind)), html('div.small', {}, axesChips(one.axes))],
      of: one => [nameNode(one.of), html('div.small.faint', {}, one.phase)],
      count: one => one.count,
      payload: one => formatBytes(one.payload),
      sent: one => [html('div', {}, formatBytes(one.sent)), bar(one.sent / most, BAR, { axes: one.axes })],
      time: one => [html('div', {}, formatTime(one.time)), html('span.pair', {}, one.exposed > 0 ? bar(one.exposed / longest, BAR, { axes: one.axes }) : null,
        one.time > one.exposed ? bar((one.time - one.exposed) / longest, BAR, { axes: one.axes }, 'behind') : null)],
      exposed: one => plan.timed ? (one.exposed > 0 ? formatTime(one.exposed) : html('span.faint', {}, 'hidden'))
        : one.unhidden ? html('span.faint', {}, 'nothing') : formatCount(one.meanwhile.length, 'operation'),
      line: one => one.line < 0 ? '' : lineLink(page, one.line, lineName(plan, one.line).replace(/^line /, '')),
    };

    function rowOf(one) {
      const opened = page.isSelected('collective', one.index);
      const row = html('tr', { 'aria-expanded': opened }, columns.map(column => html('td', { class: classOf(column) }, cells[column.id](one))));
      marks.add('collective', one.index, row);
      pickable(row, one.index, () => page.select({ kind: 'collective', index: one.index }));
      return opened ? [row, html('tr.opened', {}, html('td', { colspan: columns.length }, expand(page, one)))] : [row];
    }

    function draw() {
      marks.clear();
      const list = getList();
      const times = plan.timed ? `, ${formatTime(sum(list, one => one.exposed))} exposed of ${formatTime(sum(list, one => one.time))}` : '';
      const focused = body.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement.closest('tr[data-index]'));
      put(clear(body), html('table.ledger', { 'data-list': 'collective' }, html('thead', {}, html('tr', {}, columns.map(heading))), html('tbody', {}, list.map(rowOf))),
        html('p.faint.sum', {}, list.length ? `${formatCount(list.length, 'row')} for ${formatCount(sum(list, one => one.count), 'collective')}, ${formatBytes(sum(list, one => one.sent))} sent by each device${times}.`
          : plan.collectives.length ? 'No message is like this.' : 'Nothing is sent.'));
      if (focused) body.querySelector(`tr[data-index="${focused.dataset.index}"]`)?.focus({ preventScroll: true });
      page.paint();
    }
    let opened = null;
    const select = () => {
      const now = page.item && page.item.kind === 'collective' ? page.item.index : null;
      if (now !== opened) draw();
      opened = now;
    };
    select();
    draw();
    return { controls: [axes.element, phases.element, filter], body, select };
  },
};

const FORMULAS = {
  all_reduce: '2 (p − 1) / p of the payload', all_gather: '(p − 1) × the payload', reduce_scatter: '(p − 1) / p of the payload', all_to_all: '(p − 1) / p of the payload',
};

/** What an opened row says. @param {Page} page @param {Collective} one */
function expand(page, one) {
  const { plan } = page;
  const { alternative, rule } = one.cause;
  const origin = one.origin === 'written' ? ' Written in the spec.' : one.origin === 'inserted' ? ' Inserted by the compiler, not written in the spec.' : '';
  const names = one.meanwhile.slice(0, 4).map(index => html('code', {}, shortName(plan.operations[index].name)));
  const more = one.meanwhile.length - names.length;
  const dearer = alternative ? Math.max(alternative.cost_us, alternative.chosen_cost_us) : 0;
  const waiter = one.reader >= 0 ? [html('code', {}, shortName(plan.operations[one.reader].name)), ' waits for it.'] : 'the step waits for it.';
  return html('div.reasons', {},
    html('div', {}, html('h4', {}, 'Why it is there'), needSentence(page, one), html('div.narrow', {}, causeList(page, one)), html('p.faint', {}, `Rule: ${rule}.${origin}`),
      html('h4', {}, 'On the wire'), html('p', {}, `${formatBytes(one.payload)} in groups of ${one.groupSize}: ${formatBytes(one.wire)} sent by each device`,
        FORMULAS[one.kind] ? `, ${FORMULAS[one.kind]}` : '', one.count > 1 ? `, ${one.count} times a step.` : '.', one.together.length ? ` In one transfer with ${one.together.join(', ')}.` : '')),
    html('div', {}, html('h4', {}, 'Instead, by the planner’s own prices'), alternative ? html('div.prices', {},
      html('b', {}, `${kindName(one.kind)}, taken`), bar(alternative.chosen_cost_us / dearer, 90, {}, 'computed'), html('span.right', {}, formatTime(alternative.chosen_cost_us)),
      html('span', {}, kindName(alternative.description)), bar(alternative.cost_us / dearer, 90, {}, 'bytes'), html('span.right', {}, formatTime(alternative.cost_us)))
      : html('p.faint', {}, 'No other way was found.'),
    html('h4', {}, 'Meanwhile'), names.length ? html('p', {}, plan.timed ? `${exposureText(one)[0].toUpperCase()}${exposureText(one).slice(1)}; meanwhile ` : 'Computed meanwhile: ', enumerate(names), more > 0 ? ` and ${more} more` : '', '.')
      : html('p', {}, 'Nothing is computed: ', waiter)));
}
