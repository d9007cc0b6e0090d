// From the JSON of a plan to the rows that the views show. The only file that knows the names of
// its fields.

const GROUPS =
    ['Parameters', 'State of the model', 'State of the optimizer', 'Inputs', 'Forward', 'Backward'];
/** What lies in memory from step to step. */
const VARIABLES = ['param', 'model_state', 'state'];

/**
 * What the answer is made of: of a plan, or of the few fields of it that stand in front of the
 * script.
 * @returns {Plan}
 */
function readAnswer(json) {
  const plan = /** @type {Plan} */ (
      {json, model: json.model, devices: json.devices, machine: json.machine || null});
  plan.axes = json.mesh.axes.map(
      (axis, index) =>
          ({index, name: axis.name, size: axis.size, link: axis.link ? axis.link.name : null}));
  plan.timed = !!json.machine && json.totals.step_us != null;
  const first = json.totals.first_parts;
  plan.firstParts = first ? first.runs : 0;
  plan.execution = json.program === 'eval' ? 'evaluation' : first ? 'last part' : 'step';
  plan.limit = json.memory.limit_bytes || (json.machine && json.machine.memory_bytes) || 0;
  plan.memory = json.memory;
  plan.totals = {
    flops: json.totals.flops_per_device,
    sent: json.totals.wire_bytes_per_device,
    payload: json.totals.collective_payload_bytes,
    transfers: json.totals.transfers,
    step: json.totals.step_us || 0,
    compute: json.totals.compute_us || 0,
    exposed: json.totals.exposed_us || 0,
  };
  plan.whole = {
    sent: plan.totals.sent + plan.firstParts * (first ? first.wire_bytes_per_device : 0),
    flops: plan.totals.flops + plan.firstParts * (first ? first.flops_per_device : 0),
    step: plan.totals.step + plan.firstParts * ((first && first.step_us) || 0),
  };
  return plan;
}

/** @returns {Plan} */
function readPlan(json) {
  const plan = readAnswer(json);
  plan.trace = json.trace || null;
  readLines(plan);
  readValues(plan);
  readOperations(plan);
  readCollectives(plan);
  readSchedule(plan);
  plan.buffers = plan.memory.buffers || [];
  plan.parts = readParts(plan);
  const {refused_products: products, refused_moves: moves} = json.totals;
  plan.refused = [...products || [], ...moves || []];
  plan.waste = (json.waste || []).map(one => ({text: one.text, line: lineOf(plan, one.span)}));
  plan.remarks = (json.remarks || []).map(one => ({...one, line: lineOf(plan, one.span)}));
  return plan;
}

/** @param {Plan} plan */
function readLines(plan) {
  const {spec} = plan.json;
  plan.lines = [];
  plan.lineAt = new Map();
  const files = spec.files.filter(file => file.text != null);
  files.sort((a, b) => Number(b.path === spec.path) - Number(a.path === spec.path));
  for (const {path, text} of files) {
    text.replace(/\n$/, '').split('\n').forEach((line, place) => {
      const index = plan.lines.length;
      plan.lines.push({index, path, number: place + 1, text: line, rules: [], replaced: []});
      plan.lineAt.set(path + '\n' + (place + 1), index);
    });
  }
  plan.dims = plan.json.dims.map(
      dim => ({name: dim.name, size: dim.size, axes: dim.axes, line: lineOf(plan, dim.span)}));
  plan.rules = plan.json.rules.map(rule => ({...rule, line: lineOf(plan, rule.span)}));
  findRules(plan);
}

/**
 * The rules of the layout at their lines. Those that another layout replaced are kept as ones that
 * do not hold, which the JSON does not point at: in the spec "batch -> data", of the option
 * "batch=data".
 * @param {Plan} plan
 */
function findRules(plan) {
  for (const rule of plan.json.rules) {
    const line = plan.lines[lineOf(plan, rule.span)];
    if (line) line.rules.push(...plan.dims.filter(dim => rule.dims.includes(dim.name)));
  }
  const name = '[\\p{L}_][\\p{L}\\p{N}_\']*';
  const rule = new RegExp(`(${name}(?:\\s*,\\s*${name})*)\\s*\\)?\\s*(?:->|=)`, 'gu');
  let inside = false;
  for (const line of plan.lines) {
    const code = line.text.replace(/\/\/.*/, '');
    if (/^\s*layout\b/.test(code) || line.path === '--layout') inside = true;
    if (inside && !line.rules.length && !plan.rules.some(one => one.line === line.index))
      for (const [, names] of code.matchAll(rule))
        line.replaced.push(...plan.dims.filter(dim => names.split(/\s*,\s*/).includes(dim.name)));
    if (/}/.test(code) || line.path === '--layout') inside = false;
  }
}

/** Texts of the command line stand among the files, by the name of the option. */
const isOption = path => path.startsWith('-');

/**
 * The index of the line in which `span` begins, or -1.
 * @param {Plan} plan
 * @param {Span} span
 */
function lineOf(plan, span) {
  return span ? plan.lineAt.get(span.path + '\n' + span.line) ?? -1 : -1;
}

/**
 * Indices of all lines of a span.
 * @param {Plan} plan
 * @param {Span} span
 * @returns {number[]}
 */
function linesOf(plan, span) {
  const first = lineOf(plan, span);
  if (first < 0) return [];
  // A span that ends in column 1 has nothing of its last line.
  const last =
      span.end_column === 1 && span.end_line > span.line ? span.end_line - 1 : span.end_line;
  return Array.from({length: last - span.line + 1}, (_, place) => first + place);
}

/**
 * "layer 26" or, in another file than the spec, "attention.mesh:26".
 * @param {Plan} plan
 */
function lineName(plan, index) {
  const line = plan.lines[index];
  if (isOption(line.path)) return line.path;
  return line.path === plan.json.spec.path ? `line ${line.number}` :
                                             `${line.path.split('/').pop()}:${line.number}`;
}

/**
 * The axis that `name` is or is a part of: "x:(2)4".
 * @param {Plan} plan
 * @returns {AxisPart}
 */
function readAxis(plan, name) {
  const [, axis, before, size] = /^(.*?)(?::\((\d+)\)(\d+))?$/.exec(name);
  const found = plan.axes.find(candidate => candidate.name === axis);
  return {axis: found.index, before: Number(before || 1), size: size ? Number(size) : found.size};
}

/**
 * Indices of the axes of these names, each once.
 * @returns {number[]}
 */
const axesOf = (plan, names) => unique(names.map(name => readAxis(plan, name).axis));

function getGroup(tensor) {
  const variable = VARIABLES.indexOf(tensor.role);
  if (variable >= 0) return GROUPS[variable];
  if (tensor.role === 'input') return GROUPS[3];
  return tensor.role === 'gradient' ? GROUPS[5] : GROUPS[4];
}

/** Notes of gradients, and of the row that stands for all of them, what they are of. */
function noteGradients(row, things) {
  const own = things.filter(thing => thing.gradient_of_name);
  for (const thing of own) GRADIENTS.set(thing.name, thing.gradient_of_name);
  if (own.length === things.length)
    GRADIENTS.set(row, foldNames(own.map(thing => thing.gradient_of_name)));
}

/** @param {Plan} plan */
function readValues(plan) {
  plan.values = [];
  plan.valueOf = new Map();
  plan.valueNamed = new Map();
  const {tensors} = plan.json;
  const byId = new Map(tensors.map(tensor => [tensor.id, tensor]));
  const keyOf = remember(first => JSON.stringify([first.name, first.dims, first.partial || null]));
  // An output is the value of the same name, where both are split alike: one row.
  const key = tensor => keyOf(byId.get(tensor.fold) || tensor) + VARIABLES.includes(tensor.role);
  for (const members of groupFolds(tensors, key)) {
    const first = members[0];
    const index = plan.values.length;
    const names = unique(members.map(tensor => tensor.name));
    const value = {
      index,
      id: first.id,
      ids: members.map(tensor => tensor.id),
      name: foldNames(names),
      names,
      role: first.role,
      dtype: first.dtype,
      dims: first.dims,
      partial: first.partial || null,
      lost: first.lost_rules || [],
      bytes: first.bytes_per_device,
      globalBytes: first.bytes_global,
      stored: members.some(tensor => tensor.stored),
      inside: first.inside,
      count: names.length,
      span: first.span,
      line: lineOf(plan, first.span),
      group: getGroup(first),
      stateOf: null,
    };
    plan.values.push(value);
    noteGradients(value.name, members);
    for (const tensor of members) {
      plan.valueOf.set(tensor.id, index);
      const known = plan.valueNamed.get(tensor.name);
      if (known == null || !plan.values[known].stored) plan.valueNamed.set(tensor.name, index);
    }
  }
  for (const value of plan.values) {
    const parameter = byId.get(value.id).state_of;
    if (parameter) value.stateOf = plan.values[plan.valueOf.get(parameter)];
  }
}

/** @param {Plan} plan */
function readOperations(plan) {
  plan.operations = [];
  plan.operationOf = new Map();
  const {ops} = plan.json;
  const nameOf = new Map(ops.map(op => [op.id, op.name]));
  const values = ids =>
      new Set(ids.filter(id => plan.valueOf.has(id)).map(id => plan.valueOf.get(id)));
  for (const members of groupFolds(ops, op => op.phase + '\n' + nameOf.get(op.fold))) {
    const index = plan.operations.length;
    const kinds = new Map();
    const bounds = new Map();
    for (const op of members) {
      kinds.set(op.kind, (kinds.get(op.kind) || 0) + op.repeat);
      if (op.bound) bounds.set(op.bound, (bounds.get(op.bound) || 0) + op.time_us);
    }
    plan.operations.push({
      index,
      id: members[0].id,
      ids: members.map(op => op.id),
      name: foldNames(members.map(op => op.name)),
      first: members[0].name,
      phase: members[0].phase,
      kinds,
      bounds,
      count: sum(members, op => op.repeat),
      flops: sum(members, op => op.repeat * op.flops_per_device),
      bytes: sum(members, op => op.repeat * op.bytes_per_device),
      time: sum(members, op => op.time_us || 0),
      measured: plan.trace ? sum(members, op => op.measured_us || 0) : null,
      outputs: values(members.flatMap(op => op.outputs)),
      inputs: values(members.flatMap(op => op.inputs)),
      span: members[0].span,
      line: lineOf(plan, members[0].span),
    });
    noteGradients(plan.operations[index].name, members);
    for (const op of members) plan.operationOf.set(op.id, index);
  }
}

/** @param {Plan} plan */
function readCollectives(plan) {
  plan.collectives = [];
  plan.collectiveOf = new Map();
  const transfers = new Map(plan.json.transfers.map(transfer => [transfer.id, transfer]));
  const sent = new Map(plan.json.transfers.map(transfer => [transfer.id, 0]));
  for (const one of plan.json.collectives)
    sent.set(one.transfer, sent.get(one.transfer) + one.wire_bytes_per_device);
  // A transfer of several collectives has its time by their bytes.
  const share = one => sent.get(one.transfer) ? one.wire_bytes_per_device / sent.get(one.transfer) :
                                                1 / transfers.get(one.transfer).collectives.length;
  const timeOf = (one, field) => (transfers.get(one.transfer)[field] || 0) * share(one);
  const operations = ids =>
      unique(ids.filter(id => plan.operationOf.has(id)).map(id => plan.operationOf.get(id)));
  for (const members of groupFolds(plan.json.collectives, one => one.fold)) {
    const first = members[0];
    const transfer = transfers.get(first.transfer);
    const {operand, operand_operation: operation} = first.cause;
    const value =
        plan.valueOf.get(first.tensor) ?? (operation ? null : plan.valueNamed.get(operand)) ?? -1;
    const count = sum(members, one => one.repeat);
    const index = plan.collectives.length;
    const spans = [];
    const seen = new Set();
    for (const one of members)
      for (const cause of [one.cause, ...one.merged_causes || []])
        for (const span of cause.spans) {
          const key = span && Object.values(span).join();
          if (span && !seen.has(key)) spans.push(span);
          seen.add(key);
        }
    plan.collectives.push({
      index,
      id: first.id,
      ids: members.map(one => one.id),
      kind: first.kind,
      axisNames: first.axes,
      axes: axesOf(plan, first.axes),
      groupSize: first.group_size,
      phase: first.phase,
      of: value >= 0 ? plan.values[value].name :
                       foldNames(members.map(one => causedText(one.cause))),
      value,
      count,
      payload: first.payload_bytes,
      wire: first.wire_bytes_per_device,
      sent: sum(members, one => one.repeat * one.wire_bytes_per_device),
      time: sum(members, one => timeOf(one, 'time_us')),
      exposed: sum(members, one => timeOf(one, 'exposed_us')),
      measured: plan.trace ? sum(members, one => timeOf(one, 'measured_us')) : null,
      waited: plan.trace ? sum(members, one => timeOf(one, 'measured_wait_us')) : null,
      before: first.before,
      after: first.after,
      cause: {
        ...first.cause,
        consumer: foldNames(members.map(one => one.cause.consumer)),
        operand: foldNames(members.map(one => one.cause.operand))
      },
      spans,
      steps: unique(spans.map(span => lineOf(plan, span)).filter(line => line >= 0)),
      line: lineOf(plan, first.span),
      together: transfer.collectives.filter(id => id !== first.id),
      meanwhile: operations(transfer.overlap.ops),
      reader: operations([transfer.overlap.first_reader])[0] ?? -1,
      unhidden: transfer.overlap.exposed,
    });
    for (const one of members) plan.collectiveOf.set(one.id, index);
  }
}

/** @param {Plan} plan */
function readSchedule(plan) {
  plan.schedule = plan.json.schedule;
  plan.position = new Map(plan.schedule.map((id, position) => [id, position]));
  plan.runs = plan.json.ops.map(op => ({
                                  id: op.id,
                                  start: op.start_us || 0,
                                  time: op.time_us || 0,
                                  operation: plan.operationOf.get(op.id),
                                  kind: op.kind,
                                  bound: op.bound || '',
                                  phase: op.phase,
                                  name: op.name,
                                  scope: op.scope || null,
                                  flops: op.flops_per_device,
                                  measured: op.measured_us ?? null,
                                }));
  const wire = new Map(plan.json.collectives.map(one => [one.id, one.wire_bytes_per_device]));
  plan.sendings = plan.json.transfers.map(transfer => {
    const rows = unique(transfer.collectives.map(id => plan.collectiveOf.get(id)));
    return {
      id: transfer.id,
      start: transfer.start_us || 0,
      time: transfer.time_us || 0,
      exposed: transfer.exposed_us || 0,
      collectives: rows,
      ids: transfer.collectives,
      largest: transfer.largest,
      axes: plan.collectives[rows[0]].axes,
      sent: sum(transfer.collectives, id => wire.get(id)),
      measured: transfer.measured_us ?? null,
      waited: transfer.measured_wait_us || 0,
    };
  });
}

/** Of what lies in memory from step to step, and the rest. */
const LASTING = ['params', 'model_state', 'optimizer'];
const CATEGORIES = [...LASTING, 'gradients', 'activations', 'communication', 'workspace'];

/** The value that what is alive is, or is a part of; -1 without one. */
const valueOfBuffer = (plan, buffer) => plan.valueOf.get(buffer.tensor) ?? -1;

/** What memory is called that is `form` of `value`, which may be null: "copy of layer/#/h". */
const formName = (value, form, names) => value && form === 'itself' ? value.name : foldNames(names);
