// Every collective, one row for each kind.

/**
 * @typedef {{id: string, title: string, right: boolean, get: (one: Collective) => any, rising: boolean}} Column
 */

// Of a longer list the first rows are shown.
const LEDGER_ROWS = 200;

/** @param {Plan} plan @returns {Column[]} */
function ledgerColumns(plan) {
  const column = (id, title, get, right = false, rising = false) =>
      ({id, title, get, right, rising});
  return [
    column('id', 'id', one => Number(one.id.slice(1)), false, true),
    column('kind', 'collective', one => one.kind, false, true),
    column('of', 'of', one => one.of, false, true),
    column('count', 'per step', one => one.count, true),
    column('payload', 'payload', one => one.payload, true),
    column('sent', 'sent per step', one => one.sent),
    ...plan.timed ?
        [
          column('time', 'time', one => one.time), column('exposed', 'exposed', one => one.exposed)
        ] :
        [column('exposed', 'meanwhile', one => one.unhidden ? 0 : one.meanwhile.length)],
    column('line', 'line', one => one.line, true, true),
  ];
}

/** @type {View} */
const ledgerView = {
  id: 'ledger',
  name: 'Ledger',
  title: 'Every message, and why',
  height: 900,
  text: page => 'One row for each kind of message; layers are counted, not repeated. ' +
      'Open a row for the lines that cause it and for what was rejected.' +
      (page.plan.timed ? exposedNote(page.plan) :
                         ` ${untimedClause(page.plan)}, so there are no times.`),
  occurs: related => related.collective.size > 0,
  build(page) {
    const {plan} = page;
    const columns = ledgerColumns(plan);
    const marks = page.makeMarks();
    const body = html('div.scroll');
    const show = {
      column: plan.timed ? 'exposed' : 'sent',
      down: true,
      query: '',
      axis: null,
      phase: null,
      all: false
    };
    const most = Math.max(1, largest(plan.collectives, one => one.sent));
    const longest = Math.max(1e-9, largest(plan.collectives, one => one.time));
    const filter = html('input.filter', {
      type: 'search',
      placeholder: 'Filter',
      'aria-label': 'Filter collectives',
      oninput: () => {
        show.query = filter.value.trim().toLowerCase();
        draw();
      },
    });
    const redraw = field => key => {
      show[field] = key;
      draw();
    };
    const axes = choice(
        plan.axes.map(axis => [axis.index, axisChip(axis.index)]), null, redraw('axis'), true);
    const phases = choice(
        unique(plan.collectives.map(one => one.phase)).map(phase => [phase, phase]), null,
        redraw('phase'), true);

    /** @param {Collective} one */
    function isShown(one) {
      if (show.axis != null && !one.axes.includes(show.axis)) return false;
      if (show.phase && one.phase !== show.phase) return false;
      if (!show.query) return true;
      if (/^c\d+$/.test(show.query)) return one.ids.includes(show.query);
      return [
        kindName(one.kind), one.of, causedText(one.cause), one.cause.consumer, one.cause.rule,
        ...one.axisNames
      ].some(text => text.toLowerCase().includes(show.query));
    }

    function getList() {
      const {get} = columns.find(column => column.id === show.column);
      const order = (a, b) => (get(a) < get(b)     ? -1 :
                                   get(a) > get(b) ? 1 :
                                                     0) *
              (show.down ? -1 : 1) ||
          b.sent - a.sent;
      return plan.collectives.filter(isShown).sort(order);
    }

    /** @param {Column} column */
    function heading(column) {
      const sorted = show.column === column.id;
      const button = html(
          'button', {
            type: 'button',
            'data-column': column.id,
            onclick: () => {
              show.down = sorted ? !show.down : !column.rising;
              show.column = column.id;
              draw();
              body.querySelector(`[data-column="${column.id}"]`).focus();
            },
          },
          column.title);
      return html(
          'th', {
            class: classOf(column),
            'aria-sort': sorted ? (show.down ? 'descending' : 'ascending') : null
          },
          button);
    }
    const classOf = column => [column.right ? 'right' : '', column.id === 'payload' ? 'wide' : '']
                                  .join(' ')
                                  .trim() ||
        null;

    /** @type {Object<string, (one: Collective) => any>} */
    const cells = {
      id: one => idsText(one),
      kind:
          one => [html('div', {}, kindName(one.kind)), html('div.small', {}, axesChips(one.axes))],
      of: one => [nameNode(one.of), html('div.small.faint', {}, one.phase)],
      count: one => one.count,
      payload: one => formatBytes(one.payload),
      sent: one => [html('div', {}, formatBytes(one.sent)), track([one.sent / most, one.axes])],
      time: one =>
          [html('div', {}, formatTime(one.time)),
           track(
               [one.exposed / longest, one.axes],
               [(one.time - one.exposed) / longest, one.axes, 'behind'])],
      exposed: one => plan.timed ?
          (one.exposed > 0 ? formatTime(one.exposed) : html('span.faint', {}, 'hidden')) :
          one.unhidden ? html('span.faint', {}, 'nothing') :
                         formatCount(one.meanwhile.length, 'operation'),
      line: one => one.line < 0 ?
          '' :
          lineLink(page, one.line, lineName(plan, one.line).replace(/^line /, '')),
    };

    function rowOf(one) {
      const row = html(
          'tr', {'aria-expanded': false},
          columns.map(column => html('td', {class: classOf(column)}, cells[column.id](one))));
      marks.add('collective', one.index, row);
      return pickable(row, one.index, () => {
        page.select({kind: 'collective', index: one.index});
        // What the row opens to is in sight, and then the row.
        reasons?.scrollIntoView({block: 'nearest'});
        rowAt(one.index).scrollIntoView({block: 'nearest'});
      });
    }

    /** The collective of the row that is open, and what it opened to. */
    let opened = null;
    let reasons = null;
    const rowAt = index =>
        /** @type {HTMLElement} */ (body.querySelector(`tr[data-index="${index}"]`));

    function open() {
      if (reasons) {
        reasons.previousElementSibling?.setAttribute('aria-expanded', 'false');
        reasons.remove();
      }
      const row = opened == null ? null : rowAt(opened);
      reasons = row ?
          html(
              'tr.opened', {},
              html('td', {colspan: columns.length}, expand(page, plan.collectives[opened]))) :
          null;
      if (!row) return;
      row.setAttribute('aria-expanded', 'true');
      row.after(reasons);
    }

    function draw() {
      marks.clear();
      const list = getList();
      const isLong = !show.all && list.length > LEDGER_ROWS;
      // The one that is open is always among them.
      const shown =
          isLong ? list.filter((one, at) => at < LEDGER_ROWS || one.index === opened) : list;
      const times = plan.timed ? `, ${formatTime(sum(list, one => one.exposed))} exposed of ${
                                     formatTime(sum(list, one => one.time))}` :
                                 '';
      const focused = body.contains(document.activeElement) &&
          /** @type {HTMLElement} */ (document.activeElement.closest('tr[data-index]'));
      const more = isLong ? html(
                                'button.link.more', {
                                  type: 'button',
                                  onclick: () => {
                                    show.all = true;
                                    draw();
                                  }
                                },
                                `${list.length - shown.length} more`) :
                            null;
      put(clear(body),
          plan.collectives.length ? html(
                                        'table.ledger', {'data-list': 'collective'},
                                        html('thead', {}, html('tr', {}, columns.map(heading))),
                                        html('tbody', {}, shown.map(rowOf))) :
                                    null,
          more,
          html(
              'p.faint.sum', {},
              list.length ?
                  `${formatCount(list.length, 'row')} for ${
                      formatCount(sum(list, one => one.count), 'collective')}, ${
                      formatBytes(sum(list, one => one.sent))} sent by each device${times}.` :
                  plan.collectives.length ? 'No message is like this.' :
                                            'Nothing is sent.'));
      reasons = null;
      open();
      if (focused) rowAt(focused.dataset.index)?.focus({preventScroll: true});
      page.paint();
    }
    const select = () => {
      const now = page.item && page.item.kind === 'collective' ? page.item.index : null;
      if (now === opened) return;
      opened = now;
      if (now != null && !rowAt(now))
        draw();
      else
        open();
    };
    /** Drops what hides the row that is open. */
    const reveal = () => {
      if (opened == null || rowAt(opened)) return;
      filter.value = show.query = '';
      axes.set(show.axis = null);
      phases.set(show.phase = null);
      draw();
    };
    draw();
    select();
    return {controls: [axes.element, phases.element, filter], body, select, reveal};
  },
};

/** What each device sends, of a payload in a group of p; the plan's own number decides. */
const FORMULAS = {
  all_reduce: {
    text: '2\u00a0(p\u00a0−\u00a01)\u00a0/\u00a0p\u00a0×\u00a0the payload',
    get: p => 2 * (p - 1) / p
  },
  all_gather: {text: '(p\u00a0−\u00a01)\u00a0×\u00a0the payload', get: p => p - 1},
  reduce_scatter:
      {text: '(p\u00a0−\u00a01)\u00a0/\u00a0p\u00a0×\u00a0the payload', get: p => (p - 1) / p},
  all_to_all:
      {text: '(p\u00a0−\u00a01)\u00a0/\u00a0p\u00a0×\u00a0the payload', get: p => (p - 1) / p},
};

/**
 * What an opened row says.
 * @param {Page} page
 * @param {Collective} one
 */
function expand(page, one) {
  return html(
      'div.reasons', {},
      html(
          'div', {}, html('h4', {}, 'Why it is there'), needSentence(page, one),
          html('div.narrow', {}, causeList(page, one)),
          html('p.faint', {}, `Rule: ${one.cause.rule}. ${originSentence(one.cause)}`),
          html('h4', {}, 'On the wire'), wireSentence(one)),
      html(
          'div', {}, html('h4', {}, 'Meanwhile'), meanwhileSentence(page, one),
          html('h4', {}, `Instead, ${pricesOf(page.plan)}`), pricesNode(one)));
}

/**
 * Whether the spec asks for it, the layout means it, or the compiler inserted it.
 * @param {Cause} cause
 */
function originSentence(cause) {
  if (cause.written) return 'Written in the spec.';
  if (cause.kind === 'contraction' || cause.kind === 'reduction')
    return 'It completes the sum, as the layout means.';
  if (cause.kind === 'window') return 'Neighbours have what the window reads, as the layout means.';
  return 'Inserted by the compiler: the operation cannot take the value as it lies.';
}

/** @param {Collective} one */
function wireSentence(one) {
  const formula = FORMULAS[one.kind];
  const holds = formula && Math.abs(formula.get(one.groupSize) * one.payload - one.wire) < 1;
  const payload = `${formatBytes(one.payload)} in groups of ${one.groupSize}: `;
  return html(
      'p', {}, payload, `${formatBytes(one.wire)} sent by each device`,
      holds ? `, ${formula.text}` : '', one.count > 1 ? `, ${one.count} times a step.` : '.',
      one.together.length ? ` In one transfer with ${enumerateWords(one.together)}.` : '');
}

/** What was taken and what was rejected, to one scale. @param {Collective} one */
function pricesNode(one) {
  const {alternative} = one.cause;
  if (!alternative) return html('p.faint', {}, 'No other way was found.');
  const {cost_us: rejected, chosen_cost_us: taken} = alternative;
  const dearer = Math.max(rejected, taken);
  return html(
      'div.prices', {}, html('b', {}, `${kindName(one.kind)}, taken`),
      bar(taken / dearer, 90, {}, 'computed'), html('span.right', {}, formatTime(taken)),
      html('span', {}, kindName(alternative.description)), bar(rejected / dearer, 90, {}, 'bytes'),
      html('span.right', {}, formatTime(rejected)));
}

/**
 * What is computed while it is under way, or who waits.
 * @param {Page} page
 * @param {Collective} one
 */
function meanwhileSentence(page, one) {
  const {plan} = page;
  if (plan.timed) return exposureSentences(page, one);
  const nameOf = index => html('code', {}, shortName(plan.operations[index].name));
  if (!one.meanwhile.length) {
    const waiter =
        one.reader >= 0 ? [nameOf(one.reader), ' waits for it.'] : 'the step waits for it.';
    return html('p', {}, 'Nothing is computed: ', waiter);
  }
  const names = one.meanwhile.slice(0, 4).map(nameOf);
  const more = one.meanwhile.length - names.length;
  return html(
      'p', {}, 'Computed meanwhile: ',
      more ? [names.map(name => [name, ', ']), `and ${more} more`] : enumerate(names), '.');
}
