// Which rule of the layout splits a dimension of a value, and which rules lost.

/**
 * "batch -> data, line 12", the line as a link.
 * @param {Page} page
 * @param {Rule} rule
 */
const ruleNode = (page, rule) =>
    [html('code', {}, rule.text), rule.line >= 0 ? [', ', lineLink(page, rule.line)] : null];

/**
 * What splits each dimension of a value, and the rules that name the value and do not split it.
 * @param {Page} page
 * @param {Value} value
 */
function rulesNode(page, value) {
  if (!value.dims.length) return null;
  const told = value.dims.filter(dim => dim.axes.length || dim.rules);
  const rest = value.dims.filter(dim => !told.includes(dim)).map(dim => html('code', {}, dim.name));
  return html(
      'div.rules', {}, html('h4', {}, 'Split by'),
      html(
          'ul', {}, told.map(dim => html('li', {}, splitReason(page, dim))),
          rest.length ? html(
                            'li.faint', {}, enumerate(rest), ': whole, no rule splits ',
                            rest.length > 1 ? 'them.' : 'it.') :
                        null),
      value.lost.length ?
          [
            html('h4', {}, 'Rules that lost'),
            html(
                'ul.lost', {},
                value.lost.map(
                    lost => html(
                        'li', {}, ruleNode(page, page.plan.rules[lost.rule]), ': ', lost.text,
                        '.')))
          ] :
          null);
}

/**
 * @param {Page} page
 * @param {Dim} dim  that is split, or that a rule asks to be
 */
function splitReason(page, dim) {
  const {plan} = page;
  const rules = (dim.rules || []).map(index => plan.rules[index]);
  const asked = rules.flatMap(rule => rule.axes);
  const split = dim.axes.length ? [' over ', axesChips(axesOf(plan, dim.axes))] : [', whole'];
  const links = enumerate(rules.map(rule => ruleNode(page, rule)));
  const name = html('code', {}, dim.name);
  if (!rules.length)
    return [name, split, ': no rule asks for it, it lies as its operation computes it.'];
  // The axes may lie in another order, or only a part of one may divide the dimension.
  const isAsked = axesOf(plan, asked).join() === axesOf(plan, dim.axes).join();
  return [
    name, split, isAsked ? ': ' : ', as its operation computes it, where a rule asks for ',
    isAsked ? null : [axesChips(axesOf(plan, asked)), ': '], links, '.'
  ];
}
