// From the JSON to what calls and loops take, and which rows are of them.

/** @param {Plan} plan @returns {Part[]} */
function readParts(plan) {
  const {json} = plan;
  const places = new Map((json.parts || []).map((part, index) => [part.id, index]));
  /** @type {Part[]} */
  const parts = (json.parts || []).map((part, index) => ({
                                         index,
                                         name: part.name,
                                         parent: places.get(part.parent) ?? -1,
                                         depth: 0,
                                         count: part.count,
                                         whole: amountsOf(part),
                                         own: amountsOf(part),
                                         operations: new Set(),
                                         collectives: new Set(),
                                         values: new Set(),
                                       }));
  for (const part of parts) {
    if (part.parent < 0) continue;
    const outer = parts[part.parent];
    part.depth = outer.parent < 0 ? 0 : outer.depth + 1;
    for (const field of ['flops', 'sent', 'computed', 'exposed', 'bytes'])
      outer.own[field] = roundTime(outer.own[field] - part.whole[field]);
    for (const category of CATEGORIES) outer.own.atPeak[category] -= part.whole.atPeak[category];
  }
  const add = (things, kind, rowOf) => {
    for (const {id, part} of things)
      for (let at = places.get(part) ?? -1; at >= 0; at = parts[at].parent)
        if (rowOf.has(id)) parts[at][kind].add(rowOf.get(id));
  };
  add(json.ops, 'operations', plan.operationOf);
  add(json.collectives, 'collectives', plan.collectiveOf);
  add(json.tensors, 'values', plan.valueOf);
  return parts;
}

/** Microseconds in whole nanoseconds, as the JSON has them. */
const roundTime = us => Math.round(1000 * us) / 1000;

/** @returns {PartAmounts} */
function amountsOf(part) {
  return {
    flops: part.flops_per_device,
    sent: part.wire_bytes_per_device,
    computed: part.compute_us || 0,
    exposed: part.exposed_us || 0,
    bytes: sum(CATEGORIES, category => part.at_peak[category]),
    atPeak: {...part.at_peak},
  };
}
