// Things that are the same but for their scope become one row.

/**
 * Lists of things of one fold, in the order in which the first of each stands. `key` may join
 * folds.
 */
function groupFolds(things, key) {
  const groups = new Map();
  for (const thing of things) {
    const own = key(thing);
    const group = groups.get(own);
    if (group)
      group.push(thing);
    else
      groups.set(own, [thing]);
  }
  return [...groups.values()];
}

/** `compute` of a thing, once for each. */
function remember(compute) {
  const known = new Map();
  return thing => {
    if (!known.has(thing)) known.set(thing, compute(thing));
    return known.get(thing);
  };
}

/**
 * The name of a row: "layer/#/h" of layer/0/h, layer/1/h; the first name where the names have no
 * form in common.
 */
function foldNames(names) {
  names = unique(names);
  if (names.length === 1) return names[0];
  const paths = names.map(name => name.split('/'));
  if (paths.some(path => path.length !== paths[0].length)) return names[0];
  return paths[0]
      .map((segment, place) => {
        const segments = unique(paths.map(path => path[place]));
        return segments.length === 1 ? segment : foldSegments(segments);
      })
      .join('/');
}

/** "block#" of block1, block2; "gradient of #" of gradient of 1, gradient of 2. */
function foldSegments(segments) {
  const first = segments[0];
  let head = 0;
  while (head < first.length && segments.every(segment => segment[head] === first[head])) ++head;
  while (head > 0 && /\d/.test(first[head - 1])) --head;
  const shortest = Math.min(...segments.map(segment => segment.length));
  let tail = 0;
  while (tail < shortest - head &&
         segments.every(
             segment => segment[segment.length - 1 - tail] === first[first.length - 1 - tail]))
    ++tail;
  while (tail > 0 && /\d/.test(first[first.length - tail])) --tail;
  return first.slice(0, head) + '#' + (tail ? first.slice(-tail) : '');
}

/** "c2 … c192" */
function idsText(row) {
  const {ids} = row;
  return ids.length < 3 ? ids.join(', ') : `${ids[0]} … ${ids[ids.length - 1]}`;
}
