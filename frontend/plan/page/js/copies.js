// What devices hold that others hold too: of each value, and of all that is alive at the peak.

const COPIED_ROWS = 12;
/** Memory of a value that lies as the value does. */
const LIES_ALIKE = ['itself', 'copy', 'padded'];

/**
 * Of bytes on a device those that would be elsewhere if all axes split what they are of.
 * @param {Plan} plan
 * @param {Split} split
 */
function copiedBytes(plan, split, bytes) {
  const copies = copiesOf(plan, split);
  return bytes * (copies - 1) / copies;
}

/**
 * "8 copies: 7 MiB of 8 MiB are elsewhere too"
 * @param {Plan} plan
 * @param {Value} value
 */
const copiesText = (plan, value) => `${formatInteger(copiesOf(plan, value))} copies: ${
    formatBytes(
        copiedBytes(plan, value, value.bytes))} of ${formatBytes(value.bytes)} are elsewhere too`;

/**
 * Axes along which all devices hold the same.
 * @param {Plan} plan
 * @param {Split} split
 */
function axesCopied(plan, split) {
  const names =
      [...split.dims.flatMap(dim => dim.axes), ...split.partial ? split.partial.axes : []];
  return plan.axes
      .filter(axis => {
        const parts =
            names.map(name => readAxis(plan, name)).filter(part => part.axis === axis.index);
        return product(parts.map(part => part.size)) < axis.size;
      })
      .map(axis => axis.index);
}

/**
 * What is alive at the peak and held more than once, the most bytes first.
 * @param {Plan} plan
 */
function copiedGroups(plan) {
  const groups = new Map();
  // What is gathered lies as the gather leaves it.
  const gathered = new Map(plan.json.collectives.filter(one => one.kind === 'all_gather')
                               .map(one => [one.tensor, one.after]));
  for (const entry of plan.memory.at_peak) {
    const index = valueOfBuffer(plan, entry);
    if (index < 0) continue;
    const value = plan.values[index];
    const split = LIES_ALIKE.includes(entry.form) ? value :
        entry.form === 'gathered'                 ? gathered.get(entry.tensor) :
                                                    null;
    if (!split || copiesOf(plan, split) < 2) continue;
    const key = index + entry.form;
    const group =
        groups.get(key) || {value, split, form: entry.form, names: [], bytes: 0, copied: 0};
    group.names.push(entry.name);
    group.bytes += entry.bytes;
    group.copied += copiedBytes(plan, split, entry.bytes);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.copied - a.copied);
}

/** @param {Page} page */
function copiedTable(page) {
  const {plan} = page;
  const rows = copiedGroups(plan);
  const all = sum(rows, row => row.copied);
  const peak = plan.memory.peak_bytes_per_device;
  const heading = html('h3.part', {id: 'copies'}, 'What copies hold');
  if (!rows.length)
    return html(
        'div', {}, heading, html('p.faint', {}, 'Nothing at the peak is held by two devices.'));
  const marks = page.makeMarks();
  const rowOf = group => {
    const {value, split} = group;
    const element = html(
        'tr', {},
        html(
            'td', {}, nameNode(formName(value, group.form, group.names)),
            group.names.length > 1 ? html('span.times', {}, `${NO_BREAK}× ${group.names.length}`) :
                                     null),
        html('td', {}, axesChips(axesCopied(plan, split))),
        html('td.right', {}, formatInteger(copiesOf(plan, split))),
        html('td.right', {}, formatBytes(group.bytes)),
        html('td.right', {}, formatBytes(group.copied)),
        html('td.bars', {}, bar(group.copied / rows[0].copied, 84, {}, 'bytes')));
    marks.add('value', value.index, element);
    return pickable(element, value.index, () => page.select({kind: 'value', index: value.index}));
  };
  const {body, more} = firstRows(rows, COPIED_ROWS, rowOf, () => page.paint());
  return html(
      'div', {}, heading,
      html(
          'p.faint.copied', {},
          `Of ${formatBytes(peak)} at the peak ${formatBytes(all)}, ${formatShare(all / peak)}, ` +
              'are on other devices too: what each would not hold if all of its axes split the ' +
              `value. Together that is ${formatBytes(all * plan.devices)} on ${
                  formatCount(plan.devices, 'device')}. What has no name is not counted.`),
      html(
          'div.scroll', {},
          html(
              'table.copied', {'data-list': 'copied'},
              html(
                  'thead', {},
                  html(
                      'tr', {}, html('th', {}, 'alive at the peak'),
                      html('th', {}, 'the same along'), html('th.right', {}, 'copies'),
                      html('th.right', {}, 'on a device'),
                      html('th.right', {}, 'of these elsewhere too'), html('th'))),
              body)),
      more);
}
