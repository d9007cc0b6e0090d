// What the page reads and what it makes of it, for the type checker.

/**
 * @typedef {{path: string, line: number, column: number, end_line: number, end_column: number}} Span
 */
/**
 * @typedef {{loop: string, size: number, factor: number, low: number, high: number, divisor: number, modulus?: number}} Window_
 */
/**
 * @typedef {{name: string, size: number, axes: string[], local_size: number, window?: Window_, rules?: number[]}} Dim
 */

/**
 * A rule of the layout, as it is written.
 *  @typedef {{role: string, dims: string[], axes: string[], unless: string[], text: string, line: number}} Rule
 */
/** @typedef {{rule: number, why: string, text: string}} LostRule */
/** @typedef {{kind: string, axes: string[]}} Partial_ */
/** @typedef {{dims: Dim[], partial: Partial_}} Split */

/**
 * A part of an axis: of `size` positions, below the first `before`.
 *  @typedef {{axis: number, before: number, size: number}} AxisPart
 */

/**
 * An axis of the mesh. `link` is null where no machine was named.
 *  @typedef {{index: number, name: string, size: number, link: string}} Axis
 */

/**
 * A line of a file of the spec.
 *  @typedef {{index: number, path: string, number: number, text: string, rules: Dim_[], replaced: Dim_[]}} Line
 */

/**
 * A dimension of the spec and the axes of its layout rule.
 *  @typedef {{name: string, size: number, axes: string[], line: number}} Dim_
 */

/**
 * Values that are the same but for the layer or call that they are of.
 *  @typedef {Object} Value
 *  @property {number} index
 *  @property {string} id
 *  @property {string[]} ids
 *  @property {string} name
 *  @property {string[]} names
 *  @property {string} role
 *  @property {string} dtype
 *  @property {Dim[]} dims
 *  @property {Partial_} partial
 *  @property {LostRule[]} lost      rules that name it and do not split it
 *  @property {number} bytes         of one of them on a device
 *  @property {number} globalBytes   of one of them
 *  @property {boolean} stored       has memory of its own
 *  @property {boolean} inside
 *  @property {number} count
 *  @property {Span} span
 *  @property {number} line          an index of lines, or -1
 *  @property {string} group         heading of the layout matrix
 *  @property {Value} stateOf        parameter of which it is optimizer state
 */

/**
 * Operations of one phase and name. Numbers are sums.
 *  @typedef {Object} Operation
 *  @property {number} index
 *  @property {string} id
 *  @property {string[]} ids
 *  @property {string} name
 *  @property {string} first         name of the first of them
 *  @property {string} phase
 *  @property {Map<string, number>} kinds
 *  @property {number} count
 *  @property {number} flops
 *  @property {number} bytes
 *  @property {number} time
 *  @property {number} measured      of a run, or null
 *  @property {Map<string, number>} bounds  microseconds by what bounds them
 *  @property {Set<number>} outputs  indices of values
 *  @property {Set<number>} inputs
 *  @property {Span} span
 *  @property {number} line
 */

/**
 * @typedef {{kind: string, rule: string, consumer: string, operand: string,
 *    consumer_operation?: string, operand_operation?: string, needed: string, had: string, written:
 * boolean, spans: Span[], alternative?: {description: string, cost_us: number, chosen_cost_us:
 * number}}} Cause
 */

/**
 * Collectives that are the same but for the layer or call that they are of.
 *  @typedef {Object} Collective
 *  @property {number} index
 *  @property {string} id
 *  @property {string[]} ids
 *  @property {string} kind
 *  @property {string[]} axisNames   as the plan spells them
 *  @property {number[]} axes
 *  @property {number} groupSize
 *  @property {string} phase
 *  @property {string} of            the value, by name
 *  @property {number} value         index of values, or -1
 *  @property {number} count         in a step
 *  @property {number} payload       of one of them
 *  @property {number} wire          of one of them
 *  @property {number} sent          by a device in a step
 *  @property {number} time          sum
 *  @property {number} exposed       sum
 *  @property {number} measured      of a run, without waiting, or null
 *  @property {number} waited        of a run, for the others, or null
 *  @property {Split} before
 *  @property {Split} after
 *  @property {Cause} cause
 *  @property {Span[]} spans         of the cause and of causes merged with it
 *  @property {number[]} steps       indices of lines in the order of the cause
 *  @property {number} line
 *  @property {string[]} together    ids of others in the transfer of the first
 *  @property {number[]} meanwhile   indices of operations that need not wait for the first
 *  @property {number} reader        index of the operation that has to wait for it, or -1
 *  @property {boolean} unhidden     nothing is computed between it and its reader
 */

/**
 * Something in the order of the command list.
 *  @typedef {{id: string, start: number, time: number, operation: number, kind: string, bound: string, phase: string, name: string, scope: string, flops: number, measured: number | null}} Run
 */
/**
 * @typedef {{id: string, start: number, time: number, exposed: number, collectives: number[], ids: string[], largest: string, axes: number[], sent: number, measured: number | null, waited: number}} Sending
 */
/**
 * @typedef {{category: string, bytes: number, first: number, last: number}} Buffer_
 */

/**
 * What is taken of a step on a device; microseconds, and bytes at the peak by category.
 *  @typedef {{flops: number, sent: number, computed: number, exposed: number, bytes: number, atPeak: Object<string, number>}} PartAmounts
 */

/**
 * A call or a loop, without iterations, or the model. Rows are those in it.
 *  @typedef {Object} Part
 *  @property {number} index
 *  @property {string} name
 *  @property {number} parent        index of parts, or -1
 *  @property {number} depth         below the outermost
 *  @property {number} count         calls and iterations
 *  @property {PartAmounts} whole
 *  @property {PartAmounts} own      of what is in no part in it
 *  @property {Set<number>} operations
 *  @property {Set<number>} collectives
 *  @property {Set<number>} values
 */

/**
 * @typedef {{kind: string, bytes: number, count: number, text: string, advice?: string, line: number}} Remark
 */

/**
 * @typedef {Object} Plan
 *  @property {any} json
 *  @property {string} model
 *  @property {Axis[]} axes
 *  @property {number} devices
 *  @property {Dim_[]} dims
 *  @property {Rule[]} rules
 *  @property {Line[]} lines
 *  @property {Value[]} values
 *  @property {Operation[]} operations
 *  @property {Collective[]} collectives
 *  @property {Run[]} runs
 *  @property {Sending[]} sendings
 *  @property {string[]} schedule
 *  @property {Map<string, number>} position   of an op or transfer in the schedule
 *  @property {any} memory
 *  @property {Buffer_[]} buffers
 *  @property {Part[]} parts                   the model first; none where the JSON has none
 *  @property {{flops: number, sent: number, payload: number, transfers: number, step: number, compute: number, exposed: number}} totals
 *  @property {{name: string, label: string, memory_bytes?: number, constants: any[], cannot_run?: string[]}} machine
 *  @property {boolean} timed                  a machine was named that can run it
 *  @property {string} execution               what is planned, "step", "last part" of one, or "evaluation"
 *  @property {number} firstParts              parts of a step in front of the last
 *  @property {{flops: number, sent: number, step: number}} whole  of a step with all of its parts
 *  @property {string[]} refused               products and moves that GPUs cannot run, and why
 *  @property {{text: string, line: number}[]} waste  devices that have nothing to do, or what others do too
 *  @property {Remark[]} remarks               what was not written and takes more than 1 MiB
 *  @property {{steps: number, processes: number, traced_step_us: number, step_us?: number}} trace
 *  @property {number} limit                   bytes of a device, or 0
 *  @property {Map<string, number>} valueOf    by id of a tensor
 *  @property {Map<string, number>} [roofs]    microseconds of ops at full rates, by id
 *  @property {Map<string, {place: number, at: number}[]>} [made]  when what an id stands for is made
 *  @property {Map<string, number>} operationOf
 *  @property {Map<string, number>} collectiveOf
 *  @property {Map<string, number>} valueNamed by name, of members too
 *  @property {Map<string, number>} lineAt     by path and number
 */

/**
 * The step along one axis: of time, or without a machine of places in the command list.
 *  @typedef {Object} Track
 *  @property {boolean} timed
 *  @property {number} total
 *  @property {number} left       pixels in front of the drawings
 *  @property {(at: number) => string} format
 *  @property {(places: number[], step: number) => string[]} formatMarks
 *  @property {(Run & {height: number})[]} runs
 *  @property {{axes: number[], sendings: (Sending & {height: number})[]}[]} lanes
 *  @property {{from: number, to: number, sending: Sending}[]} waits
 *  @property {{name: string, from: number, to: number}[]} phases
 *  @property {{name: string, phase: string, from: number, to: number}[]} loops   iterations, by phase
 *  @property {number[]} at       where each place of the command list begins
 */

/** @typedef {'line' | 'value' | 'collective' | 'operation' | 'axis' | 'part'} Kind */
/** @typedef {{kind: Kind, index: number}} Item */

/**
 * What a selection lights up: of lines also the number of the step of the cause, or 0.
 *  @typedef {{line: Map<number, number>, value: Set<number>, collective: Set<number>, operation: Set<number>, axis: Set<number>, part: Set<number>}} Related
 */

/**
 * Elements of a view by what they stand for.
 *  @typedef {{add(kind: Kind, index: number, element: Element): void, clear(): void}} Marks
 */

/**
 * @typedef {Object} ViewParts
 *  @property {Node[]} [controls]
 *  @property {Node} body
 *  @property {() => void} [select]        after the selection or the device changed
 *  @property {() => void} [reveal]        draws what is selected, where it is folded away
 *  @property {() => void} [shown]         when it has come onto the page
 *  @property {() => void} [resize]
 *  @property {(factor: number) => void} [zoom]
 *  @property {(share: number) => void} [pan]
 */

/**
 * @typedef {Object} View
 *  @property {string} id
 *  @property {string} name               in the header
 *  @property {string} title
 *  @property {(page: Page) => string} text
 *  @property {number} height             guessed, until it is built
 *  @property {(page: Page) => boolean} [exists]
 *  @property {(related: Related) => boolean} occurs   whether the selection is seen in it
 *  @property {(page: Page) => ViewParts} build
 */
