// Why a message starts when it does, and who waits for it. Messages of a device go one after
// another, in the order of the command list.

/** What differs by less is the same time: those of the JSON are whole nanoseconds. */
const SAME_TIME = 0.0025;

/**
 * When what ids stand for is made: places in the command list and times, in order. A command
 * stands for a result without a name.
 * @param {Plan} plan
 * @returns {Map<string, {place: number, at: number}[]>}
 */
function makeTimes(plan) {
  if (plan.made) return plan.made;
  plan.made = new Map();
  const note = (command, ids, {id, start, time}) => {
    for (const made of [command, ...ids]) {
      if (!plan.made.has(made)) plan.made.set(made, []);
      plan.made.get(made).push({place: plan.position.get(id), at: start + time});
    }
  };
  const runs = new Map(plan.runs.map(run => [run.id, run]));
  const sendings = new Map(plan.sendings.map(sending => [sending.id, sending]));
  for (const op of plan.json.ops) note(op.id, op.outputs, runs.get(op.id));
  for (const one of plan.json.collectives) note(one.id, one.outputs, sendings.get(one.transfer));
  for (const list of plan.made.values()) list.sort((a, b) => a.place - b.place);
  return plan.made;
}

/**
 * When all that a transfer sends is there; what nothing makes before it is there from the
 * beginning.
 * @param {Plan} plan
 * @param {Sending} sending
 */
function readyAt(plan, sending) {
  const made = makeTimes(plan);
  const place = plan.position.get(sending.id);
  const own = new Set(sending.ids);
  const inputs = plan.json.collectives.filter(one => own.has(one.id)).flatMap(one => one.inputs);
  return largest(inputs, id => {
    const before = (made.get(id) || []).filter(one => one.place < place);
    return before.length ? before[before.length - 1].at : 0;
  });
}

/**
 * The transfers that a transfer is queued behind, from when it could start, or none.
 * @param {Plan} plan
 * @param {Sending} sending
 */
function queueOf(plan, sending) {
  const ready = readyAt(plan, sending);
  const endOf = one => one.start + one.time;
  const ahead = plan.sendings
                    .filter(
                        one => one !== sending && one.time > 0 && endOf(one) > ready + SAME_TIME &&
                            one.start < sending.start &&
                            plan.position.get(one.id) < plan.position.get(sending.id))
                    .sort((a, b) => a.start - b.start);
  // Where nothing is sent until it starts it waits for something else, such as its memory.
  const isQueued = ahead.length && endOf(ahead[ahead.length - 1]) > sending.start - SAME_TIME;
  return {
    ids: isQueued ? ahead.flatMap(one => one.ids) : [],
    time: isQueued ? sending.start - Math.max(ready, ahead[0].start) : 0
  };
}

/** "c2, c5 to c9 and 3 more" */
function idRanges(ids) {
  const numbers = ids.map(id => Number(id.slice(1))).sort((a, b) => a - b);
  const ranges = [];
  for (const number of numbers) {
    const last = ranges[ranges.length - 1];
    if (last && last[1] === number - 1)
      last[1] = number;
    else
      ranges.push([number, number]);
  }
  const shown = ranges.slice(0, 3);
  const rest = sum(ranges.slice(3), ([from, to]) => to - from + 1);
  const words = shown.map(
      ([from, to]) =>
          from === to ? `c${from}` : `c${from} ${to === from + 1 ? 'and' : 'to'} c${to}`);
  return enumerateWords(rest ? [...words, `${rest} more`] : words);
}

/**
 * "queued behind c202 to c206 for 12 µs", or nothing.
 * @param {Plan} plan
 * @param {Sending} sending
 */
function queuedClause(plan, sending) {
  if (!plan.timed) return '';
  const {ids, time} = queueOf(plan, sending);
  return ids.length ? `queued behind ${idRanges(ids)} for ${formatTime(time)}` : '';
}

/**
 * Of the transfers of a row the one in which least is computed.
 * @param {Plan} plan
 * @param {Collective} one
 */
const worstOf = (plan, one) =>
    plan.sendings.filter(sending => sending.collectives.includes(one.index))
        .reduce((worst, sending) => sending.exposed > worst.exposed ? sending : worst);

/** "It is", "c203 is", "c1 to c5, which go at once, are" */
function subjectOf(sending, one) {
  if (sending.ids.length > 1) return `${idRanges(sending.ids)}, which go at once, are`;
  return one.ids.length > 1 ? `${sending.ids[0]} is` : 'It is';
}

/** "`h`, `g` and 3 more operations" */
function computedNode(rows) {
  const names = rows.slice(0, 3).map(row => html('code', {}, shortName(row.name)));
  const rest = rows.length - names.length;
  return enumerate(rest ? [...names, formatCount(rest, 'more operation')] : names);
}

/**
 * Why a message is not hidden, or what hides it; and what it waits for itself.
 * @param {Page} page
 * @param {Collective} one
 */
function exposureSentences(page, one) {
  const {plan, track} = page;
  const sending = worstOf(plan, one);
  const end = sending.start + sending.time;
  const subject = subjectOf(sending, one);
  const queued = queuedClause(plan, sending);
  const order = queued && html('p', {}, `${subject} ${queued}: a device sends one after another.`);
  const runs = track.runs.filter(
      ({start, time}) => start < end - SAME_TIME && start + time > sending.start + SAME_TIME);
  const rows = unique(runs.map(({operation}) => operation)).map(index => plan.operations[index]);
  const computed = sending.time - sending.exposed;
  if (sending.exposed < SAME_TIME)
    return [
      html(
          'p', {}, `${subject} hidden`,
          rows.length ? [': a device computes ', computedNode(rows), ' meanwhile'] : null, '.'),
      order
    ];
  const longest = one.ids.length > 1 ? ` longest of ${formatInteger(one.ids.length)},` : '';
  return [
    html(
        'p.why', {},
        `${subject} exposed${longest} for ${formatTime(sending.exposed)} of ${
            formatTime(sending.time)}: nothing is computed meanwhile. `,
        waiterNode(track, sending), '.'),
    html(
        'p', {},
        computed > SAME_TIME && rows.length ?
            [`For the other ${formatTime(computed)} a device computes `, computedNode(rows), '.'] :
            'There is nothing else to compute until then.'),
    order
  ];
}

/**
 * What waits for a transfer, or for one that is sent behind it.
 * @param {Track} track
 * @param {Sending} sending
 */
function waiterNode(track, sending) {
  const end = sending.start + sending.time;
  const length = wait => Math.min(wait.to, end) - Math.max(wait.from, sending.start);
  const wait = track.waits.reduce((most, other) => length(other) > length(most) ? other : most);
  const run = track.runs.find(({start}) => start > wait.to - SAME_TIME);
  return [
    run ? [html('code', {}, shortName(run.name)), ` (${run.id})`] : 'The end of the step',
    wait.sending.id === sending.id ? ' waits for it' :
                                     ` waits for ${idRanges(wait.sending.ids)}, sent behind it`
  ];
}
