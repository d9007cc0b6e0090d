// Which positions of a value a device holds: nested ceil blocks, as layout/Sharding.

/**
 * Coordinates of a device, row-major over the mesh.
 * @param {Axis[]} axes
 * @returns {number[]}
 */
function coordinatesOf(axes, device) {
  const coordinates = new Array(axes.length);
  for (let axis = axes.length - 1; axis >= 0; --axis) {
    coordinates[axis] = device % axes[axis].size;
    device = Math.floor(device / axes[axis].size);
  }
  return coordinates;
}

/**
 * Where along a part of an axis a device lies.
 * @param {Axis[]} axes
 * @param {AxisPart} part
 */
function positionIn(axes, part, coordinates) {
  const below = axes[part.axis].size / (part.before * part.size);
  return Math.floor(coordinates[part.axis] / below) % part.size;
}

/** The positions [begin, end) of a dim of `size` that these parts leave to a device. */
function ownedRange(axes, size, parts, coordinates) {
  let begin = 0;
  let end = size;
  let block = size;
  for (const part of parts) {
    block = Math.ceil(block / part.size);
    begin += positionIn(axes, part, coordinates) * block;
    end = Math.min(end, begin + block);
  }
  return [Math.min(begin, end), end];
}

/**
 * What a block of the loop reads: of an empty block nothing.
 * @param {Window_} window
 * @param {number[]} range
 */
function imageOf(window, range) {
  const [begin, end] = range;
  if (begin === end) return [begin, begin];
  const [first, last] = window.factor < 0 ? [end - 1, begin] : [begin, end - 1];
  return [
    Math.floor((window.factor * first + window.low) / window.divisor),
    Math.floor((window.factor * last + window.high) / window.divisor) + 1
  ];
}

/**
 * The positions of `dim` on a device, of a window within 0 and the size: several ranges around a
 * ring, the longest first.
 * @param {Plan} plan
 * @param {Dim} dim
 * @returns {number[][]}
 */
function heldRuns(plan, dim, coordinates) {
  const parts = dim.axes.map(name => readAxis(plan, name));
  if (!dim.window) return [ownedRange(plan.axes, dim.size, parts, coordinates)];
  const [begin, end] =
      imageOf(dim.window, ownedRange(plan.axes, dim.window.size, parts, coordinates));
  const clip = (from, to) => {
    const first = Math.max(0, Math.min(from, dim.size));
    return [first, Math.max(first, Math.min(to, dim.size))];
  };
  const ring = dim.window.modulus;
  if (!ring) return [clip(begin, end)];
  const turned = Math.floor(begin / ring) * ring;
  return [clip(begin - turned, Math.min(end - turned, ring)), clip(0, end - turned - ring)].sort(
      (a, b) => b[1] - b[0] - (a[1] - a[0]));
}

/** @param {Plan} plan @param {Dim} dim */
function heldRange(plan, dim, coordinates) {
  return heldRuns(plan, dim, coordinates)[0];
}

/** @param {Plan} plan @param {Dim[]} dims */
function heldRanges(plan, dims, device) {
  const coordinates = coordinatesOf(plan.axes, device);
  return dims.map(dim => heldRange(plan, dim, coordinates));
}

/**
 * Bytes of what a device holds, without what pads its block.
 * @param {Plan} plan
 * @param {Value} value
 */
function heldBytes(plan, value, device) {
  const elements = product(value.dims.map(dim => dim.size));
  const held = product(heldRanges(plan, value.dims, device).map(([begin, end]) => end - begin));
  return elements ? value.globalBytes / elements * held : 0;
}

/**
 * "[50:100, 0:28]"
 * @param {Plan} plan
 * @param {Dim[]} dims
 */
function rangesText(plan, dims, device) {
  if (!dims.length) return 'one number';
  return '[' +
      heldRanges(plan, dims, device)
          .map(([begin, end]) => begin === end ? '–' : `${begin}:${end}`)
          .join(', ') +
      ']';
}

/**
 * "data=1, rows=2"
 * @param {Plan} plan
 */
function coordinatesText(plan, device) {
  return coordinatesOf(plan.axes, device)
      .map((coordinate, axis) => `${plan.axes[axis].name}=${coordinate}`)
      .join(', ');
}

/**
 * Axes that split a value or of which each device has a term.
 * @param {Plan} plan
 * @param {{dims: Dim[], partial: Partial_}} split
 */
function axesUsed(plan, split) {
  return new Set(axesOf(
      plan, split.dims.flatMap(dim => dim.axes).concat(split.partial ? split.partial.axes : [])));
}

/**
 * How many devices hold the same as one of them.
 * @param {Plan} plan
 * @param {{dims: Dim[], partial: Partial_}} split
 */
function copiesOf(plan, split) {
  const names = split.dims.flatMap(dim => dim.axes).concat(split.partial ? split.partial.axes : []);
  return plan.devices / product(names.map(name => readAxis(plan, name).size));
}
