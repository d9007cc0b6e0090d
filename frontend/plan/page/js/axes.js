// Colours and patterns of the axes: nothing else on the page has a hue.

const HUES = 6;
let axesOfMesh = /** @type {Axis[]} */ ([]);

/**
 * Gives an element the colour (`--ax`) and pattern (`--pat`) of an axis, or of a set of them
 * diagonal bands.
 */
function paintAxes(element, axes) {
  if (axes.length === 1) {
    element.classList.add('ax' + axes[0] % HUES);
  } else if (axes.length > 1) {
    const bands =
        axes.map((axis, index) => `var(--a${axis % HUES}) ${4 * index}px ${4 * index + 4}px`);
    element.classList.add('several');
    element.style.setProperty('--pat', `repeating-linear-gradient(135deg, ${bands.join(', ')})`);
  }
  return element;
}

const axisName = axis => axesOfMesh[axis].name;
const axesName = axes => axes.map(axisName).join(' + ');
const axisChip = axis => html('span.axis', {axes: [axis]}, axisName(axis));
const axesChips = axes => axes.map((axis, index) => [index ? ' + ' : null, axisChip(axis)]);

/** The fill of SVG shapes; the patterns are made by `addPatterns`. */
const axesFill = axes => axes.length > 1 ? `url(#set-${axes.join('-')})` : `url(#axis-${axes[0]})`;
const stripesFill = axis => `url(#stripes-${axis})`;

/** @param {Axis[]} axes @param {number[][]} sets */
function addPatterns(axes, sets) {
  const size = [4, 5, 4, 4, 8, 8];
  const marks = [
    () => [svg('rect', {width: 4, height: 1})],
    () => [svg('circle', {cx: 2.5, cy: 2.5, r: 1})],
    () => [svg('rect', {width: 1, height: 4})],
    () => [svg('rect', {width: 4, height: 1}), svg('rect', {width: 1, height: 4})],
    () => [svg('rect', {width: 8, height: 2})],
    () => [svg('rect', {width: 2, height: 8})],
  ];
  const definitions = svg('defs');
  for (const {index} of axes) {
    const hue = index % HUES;
    const shapes = marks[hue]();
    for (const shape of shapes) shape.style.setProperty('fill', 'var(--hatch)');
    definitions.append(
        svg('pattern', {
          id: 'axis-' + index,
          axes: [index],
          width: size[hue],
          height: size[hue],
          patternUnits: 'userSpaceOnUse'
        },
            svg('rect', {width: 8, height: 8, style: {fill: 'var(--ax)'}}), shapes),
        svg('pattern', {
          id: 'stripes-' + index,
          axes: [index],
          width: 8,
          height: 8,
          patternUnits: 'userSpaceOnUse',
          patternTransform: 'rotate(45)'
        },
            svg('rect', {
              width: 8,
              height: 8,
              style: {fill: 'color-mix(in srgb, var(--ax) 10%, var(--bg))'}
            }),
            svg('rect', {
              width: 4,
              height: 8,
              style: {fill: 'color-mix(in srgb, var(--ax) 34%, var(--bg))'}
            })));
  }
  for (const key of new Set(sets.filter(set => set.length > 1).map(set => set.join('-')))) {
    const members = key.split('-').map(Number);
    definitions.append(svg(
        'pattern', {
          id: 'set-' + key,
          width: 5 * members.length,
          height: 5,
          patternUnits: 'userSpaceOnUse',
          patternTransform: 'rotate(45)'
        },
        members.map(
            (axis, index) => svg(
                'rect',
                {x: 5 * index, width: 5, height: 5, style: {fill: `var(--a${axis % HUES})`}}))));
  }
  document.body.append(
      svg('svg.patterns', {width: 0, height: 0, 'aria-hidden': 'true'}, definitions));
}
