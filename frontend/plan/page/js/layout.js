// Rows are values, columns are axes of the mesh.

// Of more axes the cells name the dimensions alone.
const WIDE_AXES = 4;

/** @type {View} */
const layoutView = {
  id: 'layout',
  name: 'Layout',
  title: 'How everything is split',
  height: 900,
  text: () => 'A row is a value, a column an axis of the mesh. A coloured cell names the ' +
      'dimension that the axis divides; grey means that all devices along the axis hold the ' +
      'same; stripes, that each has one term of a sum.',
  occurs: related => related.value.size > 0,
  build(page) {
    const {plan} = page;
    const marks = page.makeMarks();
    const body = html('div.scroll');
    const open = new Set(['Parameters', 'Forward', 'Backward']);
    const show = {fused: false, sorted: false, query: ''};
    const most = Math.max(
        1,
        largest(plan.values.filter(value => value.stored && !value.inside), value => value.bytes));
    const filter = html('input.filter', {
      type: 'search',
      placeholder: 'Filter values',
      'aria-label': 'Filter values',
      oninput: () => {
        show.query = filter.value.toLowerCase();
        draw();
      },
    });

    function listOf(group) {
      const list = plan.values.filter(
          value => value.group === group && !value.inside && (show.fused || value.stored) &&
              (!show.query || value.name.toLowerCase().includes(show.query)));
      return show.sorted ? list.sort((a, b) => b.bytes - a.bytes) : list;
    }

    function heading(group, list, isOpen) {
      const lasting = GROUPS.indexOf(group) <= VARIABLES.length;
      const total = sum(list.filter(value => value.stored), value => value.bytes * value.count);
      const button = html(
          'button', {
            type: 'button',
            'aria-expanded': isOpen,
            onclick: () => {
              if (!open.delete(group)) open.add(group);
              draw();
              body.querySelector(`button[data-group="${group}"]`).focus();
            },
            'data-group': group,
          },
          `${isOpen ? '▾' : '▸'}  ${group}`);
      return html(
          'tr.group', {},
          html(
              'td', {colspan: 4 + plan.axes.length}, button,
              html(
                  'span.faint', {},
                  `  ${formatCount(list.length, 'row')}${
                      lasting ? `, ${formatBytes(total)}` : ''}`)));
    }

    function rowOf(value) {
      const row = html(
          'tr', {}, html('td', {}, nameNode(value.name), timesNode(value)),
          plan.axes.map(
              axis => html(
                  'td.along', {}, axisCell(page, value, axis.index, plan.axes.length > WIDE_AXES))),
          html('td.wide', {}, shapeNode(page, value)),
          html(
              'td.right', {},
              value.stored ? formatBytes(value.bytes) :
                             html('span.faint', {}, `(${formatBytes(value.bytes)})`)),
          html('td.bars', {}, value.stored ? bar(value.bytes / most, 64, {}, 'bytes') : null));
      marks.add('value', value.index, row);
      return pickable(row, value.index, () => page.select({kind: 'value', index: value.index}));
    }

    function draw() {
      marks.clear();
      const rows = html('tbody');
      for (const group of GROUPS) {
        const list = listOf(group);
        if (!list.length) continue;
        const isOpen = open.has(group) || show.query !== '';
        rows.append(heading(group, list, isOpen));
        if (isOpen) rows.append(...list.map(rowOf));
      }
      put(clear(body),
          html(
              'table.matrix', {
                'data-list': 'value',
                class: plan.axes.length > WIDE_AXES ? 'matrix tight' : 'matrix'
              },
              html(
                  'thead', {},
                  html(
                      'tr', {}, html('th', {}, 'value'),
                      plan.axes.map(
                          axis => html(
                              'th', {},
                              html(
                                  'span.axis', {axes: [axis.index]}, `${axis.name} ${axis.size}`))),
                      html('th.wide', {}, 'on each device'), html('th.right', {}, 'bytes'),
                      html('th'))),
              rows),
          rows.firstChild ? null : html('p.faint', {}, 'No value has such a name.'));
      page.paint();
    }
    draw();
    /** Opens the group of what is selected, and drops what hides it. */
    const reveal = () => {
      const {item} = page;
      if (!item || item.kind !== 'value') return;
      const {group, stored, name} = plan.values[item.index];
      open.add(group);
      if (!stored && !show.fused) fused.click();
      if (!name.toLowerCase().includes(show.query)) filter.value = show.query = '';
      draw();
    };
    const redraw = field => now => {
      show[field] = now;
      draw();
    };
    const fused = toggle('Fused values too', false, redraw('fused'));
    return {
      controls: [toggle('Largest first', false, redraw('sorted')), fused, filter],
      body,
      reveal
    };
  },
};
