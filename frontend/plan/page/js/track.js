// When everything happens; without times, in which order.

// Of a longer name of a lane the end is cut off.
const LANE_NAME = 18;

/** @param {Plan} plan @returns {Track} */
function makeTrack(plan) {
  const place = id => plan.position.get(id);
  const {timed} = plan;
  const mostFlops = Math.max(1, largest(plan.runs, run => run.flops));
  const mostSent = Math.max(1, largest(plan.sendings, sending => sending.sent));
  // Without times every command is as long as any other, and as high as what it computes or sends.
  const runs =
      plan.runs
          .map(
              run => timed ? {...run, height: 1} :
                             {...run, start: place(run.id), time: 1, height: run.flops / mostFlops})
          .sort((a, b) => a.start - b.start);
  const sendings = plan.sendings.map(sending => timed ? {...sending, height: 1} : {
    ...sending,
    start: place(sending.id),
    time: 1,
    exposed: 1,
    height: sending.sent / mostSent
  });
  const total = Math.max(timed ? plan.totals.step : plan.schedule.length, 1e-9);
  const lanes = lanesOf(sendings);
  const longest = largest(lanes, lane => axesName(lane.axes).length);
  return {
    timed,
    total,
    left: Math.max(84, 22 + 7 * Math.min(LANE_NAME, longest)),
    runs,
    lanes,
    waits: timed ? waitsOf(runs, sendings, total) : [],
    phases: phasesOf(runs),
    loops: loopsOf(plan, runs),
    at: placesOf(plan, runs, sendings, total),
    format: timed ? formatTime : at => formatInteger(Math.round(at)),
    formatMarks: timed ? formatTimes : places => places.map(formatInteger),
  };
}

/** One lane for each set of axes, longest first. */
function lanesOf(sendings) {
  const lanes = new Map();
  for (const sending of sendings) {
    const key = sending.axes.join();
    if (!lanes.has(key)) lanes.set(key, {axes: sending.axes, sendings: []});
    lanes.get(key).sendings.push(sending);
  }
  return [...lanes.values()].sort(
      (a, b) =>
          sum(b.sendings, sending => sending.time) - sum(a.sendings, sending => sending.time));
}

/** Gaps in which nothing is computed, by the transfer that ends next. */
function waitsOf(runs, sendings, total) {
  const byEnd = sendings.filter(sending => sending.exposed > 0)
                    .sort((a, b) => a.start + a.time - b.start - b.time);
  const waits = [];
  let from = 0;
  for (const {start, time} of [...runs, {start: total, time: 0}]) {
    while (start - from > total * 1e-7) {
      const next = byEnd.find(
          sending => sending.start + sending.time > from + total * 1e-7 && sending.start < start);
      const to = next ? Math.min(start, next.start + next.time) : start;
      if (next) waits.push({from, to, sending: next});
      from = to;
    }
    from = Math.max(from, start + time);
  }
  return waits;
}

function phasesOf(runs) {
  return unique(runs.map(run => run.phase)).map(name => {
    const own = runs.filter(run => run.phase === name);
    return {
      name,
      from: Math.min(...own.map(run => run.start)),
      to: Math.max(...own.map(run => run.start + run.time))
    };
  });
}

/**
 * The iterations of the outermost scopes that are alike.
 * @param {Plan} plan
 */
function loopsOf(plan, runs) {
  const scopes = plan.json.scopes || [];
  const counts = new Map();
  for (const scope of scopes) counts.set(scope.like, (counts.get(scope.like) || 0) + 1);
  const alike = scopes.filter(scope => counts.get(scope.like) > 1);
  const parents = new Map(scopes.map(scope => [scope.id, scope.parent]));
  const within = (scope, other) => {
    let around = parents.get(scope.id);
    while (around && around !== other.id) around = parents.get(around);
    return around === other.id;
  };
  const outermost = alike.filter(scope => !alike.some(other => within(scope, other)));
  const owner = new Map();
  for (const scope of scopes)
    owner.set(scope.id, outermost.find(other => other === scope || within(scope, other)) || null);
  const loops = new Map();
  for (const run of runs) {
    const scope = owner.get(run.scope);
    if (!scope) continue;
    const key = run.phase + '\n' + scope.id;
    const loop = loops.get(key) || {name: scope.name, phase: run.phase, from: Infinity, to: 0};
    loop.from = Math.min(loop.from, run.start);
    loop.to = Math.max(loop.to, run.start + run.time);
    loops.set(key, loop);
  }
  return [...loops.values()];
}

/**
 * Where each place of the command list begins, rising.
 * @param {Plan} plan
 */
function placesOf(plan, runs, sendings, total) {
  const starts = new Map(runs.map(run => [run.id, run.start]));
  // A transfer frees and takes memory where it stands in the list, which is when the next op
  // begins.
  const at = plan.schedule.map(id => starts.get(id) ?? null);
  let next = total;
  for (let place = at.length - 1; place >= 0; --place) {
    if (at[place] == null)
      at[place] = next;
    else
      next = at[place] = Math.min(at[place], next);
  }
  return at;
}

/** Index of the first item that starts at `at` or later. */
function lowerBound(items, at) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].start < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/** Round places for the marks of an axis, `least` or more apart. */
function ticksOf(from, to, count, least = 0) {
  const rough = Math.max((to - from) / count, least, 1e-12);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough);
  const ticks = [];
  for (let index = Math.ceil(from / step); index * step <= to; ++index) ticks.push(index * step);
  return ticks;
}
