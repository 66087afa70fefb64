import { asText } from '../../../base/as-text.ts'
import { newId } from '../../../base/ids.ts'
import { isObject } from '../../../base/is-object.ts'
import { type Called, type FinishReason, finishWith } from '../../../kinds/chat.ts'
import { encodedOnce, isEncodedText, isWithoutArguments } from '../../toolkit/call-arguments.ts'
import { calledName } from '../../toolkit/called-name.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { isOptionalText, withTextContent } from './answer.ts'
import { assertCallCount, identifies, isGiven, typeOf, unnamedTool } from './tool-calls.ts'

/**
 * A call in progress. `index` and `id` are what clients see, `source` and `sourceId` the server's own. Calls are numbered from 0 on in the
 * order in which they begin: SDKs take the index as a place in a list, and GPT at Bedrock's Mantle numbers its first call 1
 * (BerriAI/litellm#32759; also aws-samples/bedrock-access-gateway#134, QuantumNous/new-api#5229).
 */
type OpenCall = {
  index: number
  source: number
  id: string
  sourceId: unknown
  name: string
  isFunction: boolean
  hasArguments: boolean
  /** Arguments that began as a text: they are kept back until they have come whole, as they may be encoded twice. */
  encoded: string | null
  /** What the client gets first of a call whose name has not come whole; null once it has it. */
  held: HeldCall | null
}

type HeldCall = Json & { function: { name: string; arguments: string } }

/** One choice so far. */
class ChoiceProgress {
  readonly calls: OpenCall[] = []
  /** What finds a call; null in the usual stream without any. */
  #known: { bySource: Map<unknown, OpenCall>; ids: Set<string> } | null = null
  hasRole = false
  hasFunctionCall = false
  hasFunctionArguments = false
  readonly #tools: readonly string[]

  constructor(tools: readonly string[]) {
    this.#tools = tools
  }

  /**
   * Whether a call with this name waits for the rest of it, which Gemini's compatible API may send in pieces (continuedev/continue#5849):
   * SDKs for Node take the last piece for the name, and a call in another dialect begins with it. MiniMax at NVIDIA repeats the whole
   * name instead (NousResearch/hermes-agent#11984).
   */
  isPartOfName(name: string): boolean {
    return !this.#tools.includes(name) && this.#tools.some(tool => tool.startsWith(name))
  }

  /** The first deltas of the calls that are kept back, of which nothing more comes once another begins. */
  takeHeld(): Json[] {
    return this.calls.flatMap(call => {
      const { held } = call
      call.held = null
      return held ?? []
    })
  }

  /** Adds a call. Throws a ProviderError for more than an answer can have. */
  begin(call: OpenCall): void {
    assertCallCount(this.calls.push(call))
    const { source, id } = call
    this.#known ??= { bySource: new Map(), ids: new Set() }
    this.#known.bySource.set(source, call)
    this.#known.ids.add(id)
  }

  hasId(id: string): boolean {
    return this.#known?.ids.has(id) ?? false
  }

  /** The latest call with the server's own index `source`. */
  at(source: unknown): OpenCall | undefined {
    return this.#known?.bySource.get(source)
  }

  get called(): Called {
    return this.calls.length > 0 ? 'tool_calls' : this.hasFunctionCall ? 'function_call' : null
  }
}

/**
 * Puts right the deltas of one stream: the first one's role, content that is a list, and calls without `index`, `id`,
 * `type` or arguments, which repeat their id and name, or whose name comes in pieces. `isUsual` tells that a delta needs none of it, so that its event
 * can be forwarded as received, and must be recorded: OpenAI's all are.
 */
export class AnswerDeltas {
  readonly #choices = new Map<number, ChoiceProgress>()
  readonly #isForced: boolean
  readonly #tools: readonly string[]

  /** `isForced`: the request names the one function to call. `tools`: the names of its functions. */
  constructor(isForced: boolean, tools: readonly string[]) {
    this.#isForced = isForced
    this.#tools = tools
  }

  /** Whether a delta is as OpenAI's are. */
  isUsual(choice: number, delta: Json): boolean {
    const { role, content, reasoning_content: thought, refusal, tool_calls: calls, function_call: fn } = delta
    const progress = this.#progressOf(choice)
    if (!isOptionalText(content) || !(progress.hasRole || isGiven(role))) return false
    if (!isOptionalText(thought) || !isOptionalText(refusal)) return false
    if (calls == null && fn == null) return true
    if (isObject(fn) && !isOptionalText(fn.arguments)) return false
    return Array.isArray(calls) ? areUsual(calls, progress) : calls == null
  }

  /** Records a delta that is forwarded as it is. */
  record(choice: number, { tool_calls: calls, function_call: fn }: Json): void {
    const progress = this.#progressOf(choice)
    progress.hasRole = true
    if (Array.isArray(calls)) for (const call of calls) record(call, progress)
    if (isObject(fn)) recordFunction(fn, progress)
  }

  /** The delta as OpenAI's would be. `isLast`: the choice ends with it. */
  complete(choice: number, given: Json, isLast: boolean): Json {
    const progress = this.#progressOf(choice)
    const delta = { ...withTextContent(given) }
    if (!isOptionalText(delta.content)) throw invalidResponse(`the content of choice ${choice} is not text`)
    if (!progress.hasRole && !isGiven(delta.role)) delta.role = 'assistant'
    progress.hasRole = true
    const { tool_calls: calls } = delta
    if (Array.isArray(calls)) delta.tool_calls = deltasOf(calls.filter(isObject), progress)
    else if (calls) throw invalidResponse(`the tool calls of choice ${choice} are not a list`)
    if (isObject(delta.function_call)) delta.function_call = functionDelta(delta.function_call, progress)
    if (isLast) addMissingParts(delta, progress)
    return delta
  }

  /** The finish reason of a choice, which is complete. */
  finishOf(choice: number, reason: FinishReason): FinishReason {
    return finishWith(reason, this.#progressOf(choice).called, this.#isForced)
  }

  /** What calls of choices that have not finished still need. */
  *unfinished(): Iterable<{ index: number; delta: Json }> {
    for (const [index, progress] of this.#choices) {
      const delta: Json = {}
      addMissingParts(delta, progress)
      if (Object.keys(delta).length > 0) yield { index, delta }
    }
  }

  #progressOf(choice: number): ChoiceProgress {
    let progress = this.#choices.get(choice)
    if (!progress) {
      progress = new ChoiceProgress(this.#tools)
      this.#choices.set(choice, progress)
    }
    return progress
  }
}

function areUsual(calls: readonly unknown[], progress: ChoiceProgress): boolean {
  assertCallCount(calls.length)
  let next = progress.calls.length
  for (const call of calls) {
    if (!isUsual(call, progress, next)) return false
    if (!progress.at(call.index)) next++
  }
  return calls.length < 2 || new Set(calls.map(call => (call as OpenCall).index)).size === calls.length
}

/** Whether a delta of a call is as OpenAI's: the first has all members, the others only add arguments. `next`: the index of a new call. */
function isUsual(call: unknown, progress: ChoiceProgress, next: number): call is Json {
  if (!isObject(call) || !Number.isInteger(call.index)) return false
  const { id, function: fn } = call
  const known = progress.at(call.index)
  if (known) return known.index === call.index && !isGiven(id) && (!isObject(fn) || continues(known, fn))
  if (call.index !== next || !identifies(id) || !isGiven(call.type)) return false
  if (call.type !== 'function') return true
  if (!isObject(fn) || !isGiven(fn.name) || fn.name !== calledName(fn.name) || progress.isPartOfName(fn.name))
    return false
  return typeof fn.arguments === 'string' && fn.arguments === beginningOf(fn.arguments) && !isEncodedText(fn.arguments)
}

/** Whether a function only adds arguments to its call that can be passed on. */
function continues({ encoded, held, hasArguments }: OpenCall, { name, arguments: part }: Json): boolean {
  if (name || encoded !== null || held || !isOptionalText(part)) return false
  return hasArguments || typeof part !== 'string' || !isEncodedText(part)
}

/** Whether nothing in a delta tells to which call it belongs. */
function isAnonymous(delta: Json): boolean {
  return !Number.isInteger(delta.index) && !isGiven(delta.id) && !isNamed(delta)
}

function isNamed({ function: fn }: Json): boolean {
  return isObject(fn) && isGiven(fn.name)
}

/**
 * The call that a delta continues; undefined when it begins one. Another id at the same index begins another call, but an id without a
 * name is that of a call which had none yet.
 */
function knownCall(delta: Json, progress: ChoiceProgress): OpenCall | undefined {
  const { index, id } = delta
  const { calls } = progress
  if (Number.isInteger(index)) {
    const known = progress.at(index)
    if (known && isGiven(id) && !isGiven(known.sourceId) && !isNamed(delta)) known.sourceId = id
    return known && (!isGiven(id) || id === known.sourceId) ? known : undefined
  }
  return isGiven(id) ? calls.find(call => call.sourceId === id) : undefined
}

/**
 * The deltas of one event. Those without an index, an id or a name belong to the latest calls in their order (Moonshot's in vercel/ai,
 * `moonshotai-stream-indexless-tool-calls.chunks.txt`).
 */
function deltasOf(given: readonly Json[], progress: ChoiceProgress): Json[] {
  let unnamed = given.filter(isAnonymous).length
  return given.flatMap((delta): Json[] => {
    const known = isAnonymous(delta) ? progress.calls.at(-unnamed--) : knownCall(delta, progress)
    const shown = known ? [continued(delta, known, progress)] : [...progress.takeHeld(), begun(delta, progress)]
    return shown.filter(one => one !== null)
  })
}

/** The first delta of a call; null while it is kept back. */
function begun(given: Json, progress: ChoiceProgress): Json | null {
  const index = progress.calls.length
  const id = identifies(given.id) && !progress.hasId(given.id) ? given.id : newId('call')
  const type = isGiven(given.type) ? given.type : typeOf(given)
  const fn = isObject(given.function) ? given.function : {}
  const name = typeof fn.name === 'string' ? calledName(fn.name) : ''
  const source = Number.isInteger(given.index) ? (given.index as number) : index
  const isFunction = type === 'function'
  const begins = beginningOf(fn.arguments)
  const call: OpenCall = {
    index,
    source,
    id,
    sourceId: given.id,
    name,
    isFunction,
    hasArguments: false,
    encoded: null,
    held: null,
  }
  progress.begin(call)
  if (!isFunction) return { ...given, index, id, type }
  const first = { ...given, index, id, type, function: { ...fn, name, arguments: passedOn(begins, call) } }
  if (!progress.isPartOfName(name)) return first
  call.held = first
  return null
}

/**
 * A later delta of a call, without what clients would append to the first: they join texts of any member. The first one where the
 * call was kept back, and null while it still is.
 */
function continued(given: Json, call: OpenCall, progress: ChoiceProgress): Json | null {
  const { id: _id, type: _type, function: fn, ...others } = given
  const { index, held } = call
  const { name, ...rest } = isObject(fn) ? fn : {}
  const piece = isGiven(name) ? calledName(name) : ''
  const addsName = piece !== '' && piece !== call.name && !piece.startsWith('<|')
  if (addsName) call.name += piece
  if (!held && !isObject(fn)) return { ...others, index }
  const passed = passedOn(textOf(rest.arguments), call)
  if (!held) return { ...others, index, function: { ...rest, ...(addsName && { name: piece }), arguments: passed } }
  held.function = { ...held.function, ...rest, name: call.name, arguments: held.function.arguments + passed }
  if (progress.isPartOfName(call.name)) return null
  call.held = null
  return held
}

/** What clients get of a part of the arguments, which is recorded. */
function passedOn(part: string, call: OpenCall): string {
  const isEncoded = call.encoded !== null || (!call.hasArguments && isEncodedText(part))
  call.hasArguments ||= !isBlank(part)
  if (!isEncoded) return part
  call.encoded = (call.encoded ?? '') + part
  return ''
}

function record(given: Json, progress: ChoiceProgress): void {
  const fn = isObject(given.function) ? given.function : {}
  const hasArguments = !isBlank(fn.arguments)
  const known = progress.at(given.index)
  if (known) {
    known.hasArguments ||= hasArguments
    return
  }
  const { index, id, type } = given as { index: number; id: string; type: string }
  const isFunction = type === 'function'
  const name = asText(fn.name ?? '')
  progress.begin({ index, source: index, id, sourceId: id, name, isFunction, hasArguments, encoded: null, held: null })
}

/** The first part of the arguments; '' for what servers write where there are none. */
function beginningOf(part: unknown): string {
  const text = textOf(part)
  return isWithoutArguments(text) ? '' : text
}

/** A part of the arguments, whatever it is: whitespace may be within them. */
function textOf(part: unknown): string {
  return typeof part === 'string' ? part : part == null ? '' : JSON.stringify(part)
}

function isBlank(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === 'string' && value.trim() === '')
}

function recordFunction(fn: Json, progress: ChoiceProgress): void {
  progress.hasFunctionCall = true
  progress.hasFunctionArguments ||= !isBlank(fn.arguments)
}

function functionDelta(fn: Json, progress: ChoiceProgress): Json {
  recordFunction(fn, progress)
  return { ...fn, arguments: textOf(fn.arguments) }
}

/**
 * Adds the names and arguments of calls that came without any (clients look for the tool, and parse the arguments), and the calls that
 * were kept back.
 */
function addMissingParts(delta: Json, progress: ChoiceProgress): void {
  const additions: Json[] = []
  for (const call of progress.calls) {
    const { index, isFunction, name, hasArguments, encoded, held } = call
    if (!isFunction || (name && hasArguments && encoded === null && !held)) continue
    const rest = encoded === null ? !hasArguments && '{}' : encodedOnce(encoded)
    const added = { ...(!name && { name: unnamedTool }), ...(rest && { arguments: rest }) }
    additions.push(held ? { ...held, function: { ...held.function, ...added } } : { index, function: added })
    Object.assign(call, { hasArguments: true, encoded: null, held: null, name: name || unnamedTool })
  }
  const given = Array.isArray(delta.tool_calls) ? delta.tool_calls : []
  if (additions.length > 0) delta.tool_calls = [...given, ...additions]
  if (!progress.hasFunctionCall || progress.hasFunctionArguments) return
  progress.hasFunctionArguments = true
  delta.function_call = { ...(isObject(delta.function_call) && delta.function_call), arguments: '{}' }
}
