// What is selected, below the source.

/** @param {Page} page */
function buildInspector(page) {
  const element =
      html('aside.inspector.hidden', {'aria-live': 'polite', 'aria-label': 'What is selected'});
  page.listeners.push(() => {
    clear(element).classList.toggle('hidden', !page.item);
    if (!page.item) return;
    const {head, facts, rest} = INSPECTIONS[page.item.kind](page, page.item.index);
    const close = html(
        'button.close', {type: 'button', title: 'Esc', onclick: () => page.select(null)}, 'close');
    put(element, html('h3', {}, head, close),
        html('div.facts', {}, facts.filter(Boolean).map(fact => html('span', {}, fact))), rest);
    element.scrollTop = 0;
  });
  return element;
}

/**
 * Links to where the selection is seen.
 * @param {Page} page
 */
function viewLinks(page) {
  const {related} = page;
  const link = (id, text) =>
      html('button.link', {type: 'button', onclick: () => page.reveal(id)}, text);
  return html(
      'div.facts', {},
      related.collective.size ?
          link('ledger', `${formatCount(related.collective.size, 'row')} of the ledger`) :
          null,
      related.value.size ? link('layout', formatCount(related.value.size, 'value')) : null,
      related.operation.size ? link('timeline', 'timeline') : null);
}

/** @type {Object<Kind, (page: Page, index: number) => {head: any, facts: any[], rest: any}>} */
const INSPECTIONS = {
  collective(page, index) {
    const {plan} = page;
    const one = plan.collectives[index];
    const {alternative} = one.cause;
    return {
      head: [
        html('span', {}, idsText(one)),
        html('span', {}, kindName(one.kind), ' over ', axesChips(one.axes))
      ],
      facts: [
        one.count > 1 ? `${formatBytes(one.wire)} sent × ${one.count} = ${formatBytes(one.sent)}` :
                        `${formatBytes(one.sent)} sent`,
        plan.timed ? `${formatTime(one.time)}, ${exposureText(one)}` :
            one.unhidden ? 'nothing computed meanwhile' :
                           null
      ],
      rest: [
        needSentence(page, one), causeList(page, one),
        plan.timed ? exposureSentences(page, one) : null,
        alternative ? html(
                          'p.faint', {},
                          `Rejected: ${kindName(alternative.description)}, ${
                              formatTime(alternative.cost_us)} instead of ${
                              formatTime(alternative.chosen_cost_us)}, ${pricesOf(plan)}.`) :
                      null
      ],
    };
  },

  value(page, index) {
    const value = page.plan.values[index];
    const copies = copiesOf(page.plan, value);
    return {
      head: html('span.mono', {}, value.name),
      facts: [
        shapeNode(page, value), value.dtype, `${formatBytes(value.bytes)} on each device`,
        value.count > 1 ? `× ${value.count}` : null,
        copies > 1 ? copiesText(page.plan, value) : 'no copies',
        value.stored ? null : 'no memory of its own'
      ],
      rest: [
        value.line >= 0 ?
            html('p', {}, lineLink(page, value.line), '  ', quoteNode(page, value.span)) :
            null,
        rulesNode(page, value), viewLinks(page)
      ],
    };
  },

  line(page, index) {
    const {plan, related} = page;
    const cost = costOfLines(plan)[index];
    const list = [...related.collective]
                     .map(one => plan.collectives[one])
                     .sort((a, b) => b.exposed - a.exposed || b.sent - a.sent);
    const shown = list.slice(0, 6);
    const name = lineName(plan, index);
    return {
      head: html('span', {}, name[0].toUpperCase() + name.slice(1)),
      facts: [
        `${formatBytes(cost.sent)} sent`,
        plan.timed ? `${formatTime(cost.computed)} computing` : formatFlops(cost.flops),
        plan.timed ? `${formatTime(cost.exposed)} ${EXPOSED}` : null
      ],
      rest: [
        html(
            'p', {class: list.length ? null : 'faint'},
            list.length ? `A cause of ${formatCount(sum(list, one => one.count), 'collective')}:` :
                          'No collective has its cause here.'),
        shown.map(
            one => html(
                'div', {}, itemLink(page, {kind: 'collective', index: one.index}, idsText(one)),
                ` ${kindName(one.kind)} over `, axesChips(one.axes),
                html(
                    'span.faint', {}, `  ${formatBytes(one.sent)}`,
                    plan.timed ? `, ${formatTime(one.exposed)} exposed` : ''))),
        list.length > shown.length ?
            html('div.faint', {}, `and ${list.length - shown.length} more`) :
            null,
        plan.remarks.filter(remark => remark.line === index)
            .map(
                remark => html(
                    'p.remark', {}, splitNode(page, remark.text, 'span'),
                    remark.advice ? html('span.faint', {}, `: ${remark.advice}`) : null)),
        viewLinks(page)
      ],
    };
  },

  operation(page, index) {
    const {plan} = page;
    const operation = plan.operations[index];
    return {
      head: html('span.mono', {}, operation.name),
      facts: [
        operation.phase, kindsText(operation.kinds), formatFlops(operation.flops),
        `${formatBytes(operation.bytes)} moved`,
        plan.timed ?
            `${formatTime(operation.time)}, ${formatShare(operation.time / plan.totals.step)}` :
            null,
        boundClause(plan, operation)
      ],
      rest: [
        operation.line >= 0 ?
            html('p', {}, lineLink(page, operation.line), '  ', quoteNode(page, operation.span)) :
            null,
        viewLinks(page)
      ],
    };
  },

  part(page, index) {
    const {plan} = page;
    const {name, whole} = plan.parts[index];
    return {
      head: html('span.mono', {}, name),
      facts: [
        formatFlops(whole.flops), `${formatBytes(whole.sent)} sent`,
        plan.timed ? `${formatTime(whole.computed)} computing` : null,
        plan.timed ? `${formatTime(whole.exposed)} ${EXPOSED}` : null,
        `${formatBytes(whole.bytes)} at the peak`
      ],
      rest: viewLinks(page),
    };
  },

  axis(page, index) {
    const {plan} = page;
    const axis = plan.axes[index];
    const list = plan.collectives.filter(one => one.axes.includes(index));
    const dims = plan.dims.filter(dim => axesOf(plan, dim.axes).includes(index));
    return {
      head: [
        axisChip(index),
        html('span', {}, formatCount(axis.size, 'device'), axis.link ? `, ${axis.link}` : '')
      ],
      facts: [
        formatCount(sum(list, one => one.count), 'collective'),
        `${formatBytes(sum(list, one => one.sent))} sent`,
        plan.timed ? `${formatTime(sum(list, one => one.exposed))} ${EXPOSED}` : null
      ],
      rest: [
        html(
            'p', {},
            dims.length ? ['Splits ', enumerate(dims.map(dim => html('code', {}, dim.name))), '.'] :
                          'No rule of the layout splits over it.'),
        viewLinks(page)
      ],
    };
  },
};
