// Numbers and names as text.

const NO_BREAK = '\u00a0';

/**
 * `value` in the largest unit that leaves at least 1, with three digits, as the compiler prints
 * it.
 */
function scaled(value, step, units) {
  let unit = 0;
  while (unit + 1 < units.length && value >= step * 0.9995) {
    value /= step;
    ++unit;
  }
  const digits = value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  return units[unit] ? digits + NO_BREAK + units[unit] : digits;
}

const formatBytes = bytes => scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
const formatFlops = flops =>
    scaled(flops, 1000, ['flop', 'kflop', 'Mflop', 'Gflop', 'Tflop', 'Pflop', 'Eflop']);
const formatNumber = number => scaled(number, 1000, ['', 'k', 'M', 'G', 'T', 'P']).trim();
const formatTime = us =>
    us < 1 && us > 0 ? scaled(us * 1000, 1000, ['ns', 'µs']) : scaled(us, 1000, ['µs', 'ms', 's']);
/** Times that are `step` apart, in one unit and with as many digits as tell them apart. */
function formatTimes(times, step) {
  const most = largest(times, us => us);
  const [size, unit] = most < 1 ? [1e-3, 'ns'] :
      most < 1e3                ? [1, 'µs'] :
      most < 1e6                ? [1e3, 'ms'] :
                                  [1e6, 's'];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-6));
  return times.map(us => us === 0 ? '0' : (us / size).toFixed(digits) + NO_BREAK + unit);
}
/** Three digits; above 1000 all of them. */
const formatFactor = value =>
    value >= 1000 ? formatInteger(Math.round(value)) : String(Number(value.toPrecision(3)));
const formatInteger = value => String(value).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const formatCount = (count, noun) =>
    `${formatInteger(count)}${NO_BREAK}${noun}${count === 1 ? '' : 's'}`;

/** A share of a whole; of comparisons it may be above 1. */
function formatShare(share) {
  if (share === 0) return `0${NO_BREAK}%`;
  if (share < 0.001) return `<${NO_BREAK}0.1${NO_BREAK}%`;
  if (share >= 0.0995) return Math.round(100 * share) + NO_BREAK + '%';
  return Number((100 * share).toPrecision(2)) + NO_BREAK + '%';
}

/** `text` with marks that reorder or hide text made visible. */
function showControls(text) {
  return String(text).replace(
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
      mark => `‹U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);
}

/** Products of matrices and convolutions: what libraries compute. */
const isProduct = kind => kind === 'matmul' || kind === 'convolution';
const KINDS = {
  kernel: ['kernel', 'kernels'],
  matmul: ['matrix product', 'matrix products'],
  convolution: ['convolution', 'convolutions'],
  put: ['sum by index', 'sums by index'],
  copy: ['copy', 'copies'],
  slice: ['slice', 'slices']
};
const kindText = (kind, count) => `${formatInteger(count)} ${KINDS[kind][count === 1 ? 0 : 1]}`;
/** "2 kernels, 1 matrix product" of how many there are of each kind. */
const kindsText = kinds => [...kinds].map(([kind, count]) => kindText(kind, count)).join(', ');

const capital = text => text.slice(0, 1).toUpperCase() + text.slice(1);
const kindName = kind => kind.replace(/_/g, '-');
/**
 * "einsum inside h": the value that a cause is about, in words to search and to list.
 * @param {Cause} cause
 */
function causedText(cause) {
  const {operand, operand_operation: operation} = cause;
  if (!operation) return operand;
  return operand ? `${operation} inside ${operand}` : operation;
}
/** By the name of a gradient, what it is the gradient of: "w1" by "gradient of w1". */
const GRADIENTS = /** @type {Map<string, string>} */ (new Map());
/**
 * The mark of a gradient or nothing, and the path of the value.
 * @returns {[string, string]}
 */
const nameParts = name => GRADIENTS.has(name) ? ['∂ ', GRADIENTS.get(name)] : ['', name];
/** "∂ w1" of the gradient of w1. */
const shortName = name => nameParts(name).join('');

const sum = (list, get) => list.reduce((total, item) => total + get(item), 0);
const largest = (list, get) => list.reduce((most, item) => Math.max(most, get(item)), 0);
const product = numbers => numbers.reduce((total, number) => total * number, 1);
const unique = list => [...new Set(list)];
