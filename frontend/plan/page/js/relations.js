// What a selection lights up.

/** @returns {Related} */
const nothingRelated = () => ({
  line: new Map(),
  value: new Set(),
  collective: new Set(),
  operation: new Set(),
  axis: new Set(),
  part: new Set()
});

/** @param {Plan} plan @param {Item} item @returns {Related} */
function findRelated(plan, item) {
  const related = nothingRelated();
  if (!item) return related;
  if (item.kind === 'axis')
    related.axis.add(item.index);
  else if (item.kind !== 'line')
    related[item.kind].add(item.index);
  RELATIONS[item.kind](plan, item.index, related);
  return related;
}

/** @type {Object<Kind, (plan: Plan, index: number, related: Related) => void>} */
const RELATIONS = {
  line(plan, line, related) {
    related.line.set(line, 0);
    for (const {index, spans} of plan.collectives)
      if (spans.some(span => linesOf(plan, span).includes(line))) related.collective.add(index);
    for (const value of plan.values)
      if (value.line === line) related.value.add(value.index);
    for (const operation of plan.operations)
      if (operation.line === line) related.operation.add(operation.index);
  },

  collective(plan, index, related) {
    const collective = plan.collectives[index];
    collective.steps.forEach((line, place) => related.line.set(line, place + 1));
    if (collective.value >= 0) related.value.add(collective.value);
    if (collective.reader >= 0) related.operation.add(collective.reader);
    const {consumer, operand} = collective.cause;
    for (const operation of plan.operations) {
      const makes = operation.name === operand || operation.name === consumer;
      if (makes || operation.outputs.has(collective.value)) related.operation.add(operation.index);
    }
    for (const axis of collective.axes) related.axis.add(axis);
  },

  value(plan, index, related) {
    const value = plan.values[index];
    if (value.line >= 0) related.line.set(value.line, 0);
    addRules(
        plan, dim => value.dims.some(own => own.axes.length && own.name === dim.name), related);
    for (const collective of plan.collectives)
      if (collective.value === index) related.collective.add(collective.index);
    for (const operation of plan.operations)
      if (operation.outputs.has(index) || operation.name === value.name)
        related.operation.add(operation.index);
    for (const axis of axesUsed(plan, value)) related.axis.add(axis);
  },

  operation(plan, index, related) {
    const operation = plan.operations[index];
    if (operation.line >= 0) related.line.set(operation.line, 0);
    for (const value of operation.outputs) related.value.add(value);
    for (const collective of plan.collectives)
      if (collective.reader === index || operation.outputs.has(collective.value))
        related.collective.add(collective.index);
  },

  part(plan, index, related) {
    const {operations, collectives, values} = plan.parts[index];
    for (const operation of operations) {
      related.operation.add(operation);
      const {line} = plan.operations[operation];
      if (line >= 0) related.line.set(line, 0);
    }
    for (const collective of collectives) related.collective.add(collective);
    for (const value of values) {
      related.value.add(value);
      if (plan.values[value].line >= 0) related.line.set(plan.values[value].line, 0);
    }
  },

  axis(plan, axis, related) {
    for (const collective of plan.collectives)
      if (collective.axes.includes(axis)) related.collective.add(collective.index);
    for (const value of plan.values)
      if (axesUsed(plan, value).has(axis)) related.value.add(value.index);
    addRules(plan, dim => axesOf(plan, dim.axes).includes(axis), related);
  },
};

/**
 * Lines with a layout rule of such a dim.
 * @param {Plan} plan
 * @param {(dim: Dim_) => boolean} wanted
 * @param {Related} related
 */
function addRules(plan, wanted, related) {
  for (const line of plan.lines)
    if (line.rules.some(wanted)) related.line.set(line.index, 0);
}

/**
 * What a link calls an item: c17, L26, axis:data, t:NAME, o:PHASE:NAME, p:NAME.
 * @param {Plan} plan
 * @param {Item} item
 */
function keyOf(plan, item) {
  switch (item.kind) {
    case 'line':
      return 'L' + (item.index + 1);
    case 'collective':
      return plan.collectives[item.index].id;
    case 'axis':
      return 'axis:' + plan.axes[item.index].name;
    case 'value':
      return 't:' + plan.values[item.index].names[0];
    case 'part':
      return 'p:' + plan.parts[item.index].name;
    default:
      return `o:${plan.operations[item.index].phase}:${plan.operations[item.index].name}`;
  }
}

/**
 * The item of such a key or of an id, or null. Any member of a fold is its fold.
 * @param {Plan} plan
 * @param {string} key
 * @returns {Item}
 */
function itemOf(plan, key) {
  const found = (/** @type {Kind} */ kind, index) =>
      index != null && index >= 0 ? {kind, index} : null;
  if (/^c\d+$/.test(key)) return found('collective', plan.collectiveOf.get(key));
  if (/^o\d+$/.test(key)) return found('operation', plan.operationOf.get(key));
  if (/^t\d+$/.test(key)) return found('value', plan.valueOf.get(key));
  if (/^L[1-9]\d*$/.test(key))
    return Number(key.slice(1)) <= plan.lines.length ? found('line', Number(key.slice(1)) - 1) :
                                                       null;
  if (key.startsWith('axis:'))
    return found('axis', plan.axes.findIndex(axis => axis.name === key.slice(5)));
  if (key.startsWith('t:'))
    return found(
        'value',
        plan.valueNamed.get(key.slice(2)) ??
            plan.values.findIndex(value => value.name === key.slice(2)));
  if (key.startsWith('p:'))
    return found(
        'part', plan.parts.findIndex(part => part.parent >= 0 && part.name === key.slice(2)));
  const [, phase, name] = /^o:(\w+):(.*)$/s.exec(key) || [];
  return found(
      'operation',
      plan.operations.findIndex(operation => operation.phase === phase && operation.name === name));
}
