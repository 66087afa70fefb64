import { createHash } from 'node:crypto'
import type { GatewayError } from '../../base/errors.ts'
import { namesIn } from '../../base/names.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { canReason, profileOf, servesResponses } from '../../catalog/traits.ts'
import type { ChatMessage, ChatRequest } from '../../kinds/chat.ts'
import type { Call, DirectAdapter, Target } from '../contract.ts'
import { parseableArguments } from '../toolkit/call-arguments.ts'
import { fieldBeyondResponses } from '../toolkit/chat-over-responses/request.ts'
import { customArguments } from '../toolkit/custom-tools.ts'
import { systemReminder } from '../toolkit/over-chat/user-parts.ts'
import { withDropped } from '../toolkit/request-fields.ts'
import { CallIds } from './call-ids.ts'
import { emulationOf, JsonContentDecoder, withEmulatedFormat, withJsonContent } from './emulated-format.ts'
import {
  assertFewImages,
  fitJsonWord,
  fitParts,
  isEmptyContent,
  isPlainCall,
  type Part,
  textOf,
  withRefusalAsText,
} from './fit-contents.ts'
import { fitAnswerSchema } from './fit-schema.ts'
import { ClientToolsDecoder, fitTools, sentToolName, withClientTools } from './fit-tools.ts'
import {
  type ClientTool,
  effortsOf,
  Fitting,
  goesByResponses,
  hasFunctionTools,
  nameEffort,
  nearestEffort,
  noTools,
} from './fitting.ts'
import { mayHaveOtherKeys, sentArguments } from './property-keys.ts'
import { withTrimmedEnd } from './trimmed-end.ts'

/**
 * Fits a chat request to what its target accepts (`shared/catalog/chat-profile.ts`). What changes only the course of an
 * answer is changed or left out, and named; the body is the same object if nothing changes. Throws a GatewayError
 * `unsupported_capability` that names the field without which the answer would not be the requested one. `byResponses`: it
 * is sent in the Responses format.
 */
export function fitChat(body: ChatRequest, target: Target, byResponses = false): Fitting {
  const by = body.response_format ? emulationOf(body, target) : null
  const fitting = new Fitting(by ? withEmulatedFormat(body, by, target) : body, target, byResponses)
  fitting.structuredBy = by
  nameEffort(fitting)
  // Tools first: their names occur in messages, and whether there are any decides upon effort and format.
  if (fitting.body.tools?.length) fitTools(fitting)
  else removeToolSettings(fitting)
  if (!fitting.profile.chat_tools && !byResponses && hasFunctionTools(fitting.body)) throw beyondResponses(fitting)
  const { max_images: maxImages } = fitting.profile
  if (maxImages !== undefined) assertFewImages(fitting, maxImages)
  if (fitting.body.response_format?.type === 'json_object') fitJsonWord(fitting)
  fitMessages(fitting)
  if (fitting.body.response_format) fitAnswerSchema(fitting)
  fitSettings(fitting)
  return fitting
}

/** The 400 for a request with functions that a model without them in chat cannot be sent in Responses, naming what these lack. */
function beyondResponses(fitting: Fitting): GatewayError {
  const field = servesResponses(fitting.target) ? fieldBeyondResponses(fitting.body) : null
  const why = field === null ? '' : `, which does not take \`${field}\` as it is here`
  return fitting.refusal(field ?? 'tools', `This model takes functions as tools in the Responses format only${why}.`)
}

/** An empty list means no tools, but several providers refuse it, and settings of tools without any. */
function removeToolSettings(fitting: Fitting): void {
  const { tools, tool_choice: choice, parallel_tool_calls: parallel } = fitting.body
  if (tools) fitting.set({ tools: undefined })
  if (choice === 'auto' || choice === 'validated' || choice === 'none' || choice === null)
    fitting.set({ tool_choice: undefined })
  if (parallel !== undefined) fitting.set({ parallel_tool_calls: undefined })
}

/** Fits the settings of a request: effort, sampling, limits and ids. */
export function fitSettings(fitting: Fitting): void {
  fitEffort(fitting)
  fitSampling(fitting)
  fitStops(fitting)
  assertFewChoices(fitting)
  fitLimit(fitting)
  fitIds(fitting)
}

function fitEffort(fitting: Fitting): void {
  const { tools_effort: toolsEffort, responses_efforts: greaterEfforts = [] } = fitting.profile
  const { reasoning_effort: wanted } = fitting.body
  if (toolsEffort !== undefined && !fitting.byResponses && hasFunctionTools(fitting.body)) {
    if (wanted == null) fitting.set({ reasoning_effort: toolsEffort })
    else if (wanted !== toolsEffort) fitting.adjust('reasoning_effort', toolsEffort)
    return
  }
  if (wanted == null) return
  const accepted = effortsOf(fitting)?.concat(fitting.byResponses ? greaterEfforts : [])
  const sent = accepted && nearestEffort(wanted, accepted)
  const off = wanted === 'none' && (!accepted || sent === 'none') ? fitting.thinkingOff : null
  if (off) fitting.set({ reasoning_effort: undefined, ...off })
  else if (!accepted) fitting.drop('reasoning_effort')
  else if (sent === undefined) fitting.set({ reasoning_effort: undefined })
  else if (sent !== wanted) fitting.adjust('reasoning_effort', sent)
}

/** The values of a sampling field that every model accepts, as they are its default. */
const isDefault: Record<string, (value: unknown) => boolean> = {
  temperature: value => value === 1,
  top_p: value => value === 1,
  presence_penalty: value => value === 0,
  frequency_penalty: value => value === 0,
  logprobs: value => value === false,
  parallel_tool_calls: value => value === true,
}
/** What OpenAI's reasoning models refuse while they reason. */
const samplingFields =
  'temperature top_p presence_penalty frequency_penalty logprobs top_logprobs logit_bias stop'.split(' ')

function fitSampling(fitting: Fitting): void {
  const { sampling, refused_fields: refused, max_temperature: maxTemperature } = fitting.profile
  const { temperature } = fitting.body
  if (refused) for (const field of refused) dropField(fitting, field)
  if (sampling === 'default' && fitting.body.reasoning_effort !== 'none')
    for (const field of samplingFields) if (!holdsDefault(fitting.body, field)) dropField(fitting, field)
  if (temperature != null && maxTemperature !== undefined && temperature > maxTemperature)
    fitting.adjust('temperature', maxTemperature)
  if (sampling === 'none') for (const field of ['temperature', 'top_p']) dropField(fitting, field)
  // "top_p must be 1 when using greedy sampling": with reasoning, the default is another.
  if (sampling === 'greedy' && temperature === 0) {
    if (fitting.body.top_p == null) fitting.set({ top_p: 1 })
    else if (fitting.body.top_p !== 1) fitting.adjust('top_p', 1)
  }
  // The usual rule of providers and SDKs: the temperature counts.
  if (sampling === 'one' && temperature != null) dropField(fitting, 'top_p')
}

function holdsDefault(body: ChatRequest, field: string): boolean {
  return isDefault[field]?.((body as Record<string, unknown>)[field]) === true
}

/** Leaves a field out; names it if its value asks for something. */
function dropField(fitting: Fitting, field: string): void {
  const value = (fitting.body as Record<string, unknown>)[field]
  if (value === undefined) return
  if (value === null || holdsDefault(fitting.body, field)) fitting.set({ [field]: undefined })
  else fitting.drop(field)
}

/** Blank sequences are refused by Anthropic ("each stop sequence must contain non-whitespace"). */
function fitStops(fitting: Fitting): void {
  const { stop } = fitting.body
  const { blank_stops: takesBlank, max_stops: maxStops } = fitting.profile
  if (stop == null) return
  const given = typeof stop === 'string' ? [stop] : stop
  const kept = given.filter(one => one !== '' && (takesBlank || one.trim() !== '')).slice(0, maxStops)
  if (kept.length === given.length && given.length > 0) return
  fitting.set({ stop: kept.length > 0 ? kept : undefined })
  if (given.some(one => one !== '')) fitting.dropped.push('stop')
}

/**
 * An e-mail address or a telephone number: "user_id appears to contain an email address. Please send a uuid or hash value"
 * (https://github.com/BerriAI/litellm/issues/10106).
 */
const contact = /@|^\+?[\d\s().-]{7,}$/

/** Ids of the caller: one that is long, or tells who it is, is sent as its digest, so that equal ids stay equal. */
function fitIds(fitting: Fitting): void {
  const { max_id_characters: maxCharacters = Number.POSITIVE_INFINITY, contact_ids: takesContacts } = fitting.profile
  if (maxCharacters === Number.POSITIVE_INFINITY && takesContacts) return
  const fields: Record<string, unknown> = fitting.body
  for (const field of ['user', 'safety_identifier', 'prompt_cache_key']) {
    const id = fields[field]
    if (typeof id === 'string' && (id.length > maxCharacters || (!takesContacts && contact.test(id))))
      fitting.set({ [field]: createHash('sha256').update(id).digest('hex') })
  }
}

/** Throws 400 for more answers than the model gives to a request. */
function assertFewChoices(fitting: Fitting): void {
  const { max_choices: maxChoices = Number.POSITIVE_INFINITY } = fitting.profile
  if ((fitting.body.n ?? 1) <= maxChoices) return
  const answers = maxChoices === 1 ? 'one answer' : `${maxChoices} answers`
  throw fitting.refusal('n', `This model gives at most ${answers} per request.`)
}

/** A model ends an answer at its own limit in any case; providers refuse a higher one. */
function fitLimit(fitting: Fitting): void {
  const { model, deployment } = fitting.target
  const limit = deployment.traits?.max_output_tokens ?? model.max_output_tokens
  if (limit === null) return
  for (const field of ['max_completion_tokens', 'max_tokens'] as const) {
    const wanted = fitting.body[field]
    if (wanted != null && wanted > limit) fitting.adjust(field, limit)
  }
}

/**
 * A chat adapter whose requests fit the profile of their target. Tools that had to be renamed have the client's names in
 * its answers. `overResponses`: serves those that the target takes in the Responses format only, in whole.
 */
export function fittedChat(
  chat: DirectAdapter<'chat'>,
  overResponses: DirectAdapter<'chat'> | null = null,
): DirectAdapter<'chat'> {
  const isOver = ({ body, target }: Call<'chat'>) => overResponses !== null && goesByResponses(body, target)
  const adapterOf = (call: Call<'chat'>) => (isOver(call) ? overResponses! : chat)
  // Derived again for an answer: hardly a request has renamed tools, and to remember those of each costs collections.
  const toolsOf = (call: Call<'chat'>) =>
    renamesTools(call.body, call.target) ? fitChat(call.body, call.target, isOver(call)).tools : noTools
  return {
    ...chat,
    request(call) {
      const { body, dropped, adjusted, structuredBy } = fitChat(call.body, call.target, isOver(call))
      const made = adapterOf(call).request(body === call.body ? call : { ...call, body, raw: null })
      const request = structuredBy ? { ...made, structuredBy } : made
      if (dropped.length === 0 && adjusted.length === 0) return request
      return withDropped(
        adjusted.length > 0 ? { ...request, adjusted: [...adjusted, ...(request.adjusted ?? [])] } : request,
        [...dropped, ...(request.dropped ?? [])],
      )
    },
    answer(json, call) {
      const tools = toolsOf(call)
      const received = adapterOf(call).answer(json, call)
      const answer = tools.size > 0 ? withClientTools(received, tools) : received
      const by = call.body.response_format ? emulationOf(call.body, call.target) : null
      return by ? withJsonContent(answer, call.body, by) : answer
    },
    ...(chat.stream && {
      stream(call: Call<'chat'>) {
        const tools = toolsOf(call)
        const received = adapterOf(call).stream!(call)
        const decoder = tools.size > 0 ? new ClientToolsDecoder(received, tools) : received
        const by = call.body.response_format ? emulationOf(call.body, call.target) : null
        return by ? new JsonContentDecoder(decoder, call.body, by) : decoder
      },
    }),
  }
}

/** Whether the answer to a request differs from what the provider sends, so that it cannot be passed on as bytes. */
export function isRewritten(body: ChatRequest, target: Target): boolean {
  if (goesByResponses(body, target)) return true
  return renamesTools(body, target) || (body.response_format !== undefined && emulationOf(body, target) !== null)
}

/** Whether tools of a request are sent under other names, or with other names of their parameters. */
function renamesTools(body: ChatRequest, target: Target): boolean {
  const { tools, response_format: format } = body
  const profile = profileOf(target)
  const schema = format?.type === 'json_schema' && format.json_schema.schema
  if (schema && mayHaveOtherKeys(schema, profile) && emulationOf(body, target) === 'tool') return true
  if (!tools?.length) return false
  return tools.some(tool => {
    if (tool.type === 'custom')
      return !profile.custom_tools || sentToolName(tool.custom.name, profile) !== tool.custom.name
    const { name, parameters } = tool.function
    return sentToolName(name, profile) !== name || mayHaveOtherKeys(parameters, profile)
  })
}

type AssistantMessage = Extract<ChatMessage, { role: 'assistant' }>
type ToolMessage = Extract<ChatMessage, { role: 'tool' }>
type ToolCall = NonNullable<AssistantMessage['tool_calls']>[number]
type Json = Record<string, unknown>

/** The members of messages that a profile restricts; the others are handled by the translation to the dialect. */
const restricted = namesIn('name refusal audio function_call prefix partial reasoning reasoning_content')
/** The members among these that the model would have read. */
const noticeable = namesIn('name prefix partial')

/** The text of the assistant where a provider requires one between the results of tools and the user. */
const betweenText = 'OK'
/**
 * The least that DeepSeek and Moonshot take where an answer has lost its reasoning: "thinking is enabled but reasoning_content is
 * missing in assistant tool call message" (mastra#12592; BerriAI/litellm, `_fill_reasoning_content`).
 */
const reasoningPlaceholder = ' '
/** The text of the user before an answer that a conversation begins with. */
const beforeText = '.'

/** Fits the messages: roles, members, ids, order. The list is the same if nothing changes. */
function fitMessages(fitting: Fitting): void {
  const { messages } = fitting.body
  const fitter = new MessageFitter(fitting)
  let sent: ChatMessage[] | null = null
  let before: ChatMessage | undefined
  for (let index = 0; index < messages.length; index++) {
    const given = messages[index]!
    const message = fitting.profile.refusals ? given : withRefusalAsText(given)
    if (fitter.isEmptyAnswer(message)) {
      sent ??= messages.slice(0, index)
      continue
    }
    const fitted = fitter.fit(message)
    if (fitter.needsBridge(fitted, before)) {
      sent ??= messages.slice(0, index)
      sent.push({ role: 'assistant', content: betweenText })
    }
    if (fitted !== given) sent ??= messages.slice(0, index)
    sent?.push(fitted)
    before = message
  }
  if (sent) fitting.set({ messages: sent })
  if (fitter.dropped) fitting.dropped.push(...fitter.dropped)
  fitEnds(fitting)
}

/** Most requests need nothing: what is needed rarely is made when it is. */
class MessageFitter {
  readonly #profile: ChatProfile
  readonly #reasoningField: ChatProfile['reasoning_field']
  readonly #tools: ReadonlyMap<string, ClientTool>
  /** Whether the model reasons, as far as the request says. */
  readonly #reasons: boolean
  #ids: CallIds | null = null
  #changes: Json | null = null
  /** Whether a message came that is not the system's. */
  #hasTurns = false
  /** The members that were left out although the model would have read them. */
  dropped: Set<string> | null = null

  constructor({ profile, target, body, tools }: Fitting) {
    this.#profile = profile
    this.#tools = tools
    const isOff = body.reasoning_effort === 'none' || (body.thinking as { type?: string } | null)?.type === 'disabled'
    const canThink = canReason(target.deployment)
    this.#reasons = canThink && !isOff
    this.#reasoningField = canThink ? profile.reasoning_field : 'none'
  }

  needsBridge({ role }: ChatMessage, before: ChatMessage | undefined): boolean {
    return role === 'user' && before?.role === 'tool' && !this.#profile.user_after_tool
  }

  /** Whether a message is an answer that says nothing, such as one that was stopped, and which the provider refuses. */
  isEmptyAnswer(message: ChatMessage): boolean {
    if (message.role !== 'assistant' || this.#profile.empty_answers) return false
    const { content, tool_calls: calls, refusal, audio } = message
    return isEmptyContent(content) && !calls?.length && !message.function_call && !refusal && !audio
  }

  fit(message: ChatMessage): ChatMessage {
    this.#changes = null
    const members: Json = message
    for (const name in members) {
      // Those that every message has.
      if (name === 'role' || name === 'content' || !this.#isLeftOut(name, members[name])) continue
      this.#change(name, undefined)
      if (!noticeable.has(name) || !members[name]) continue
      this.dropped ??= new Set()
      this.dropped.add(`messages.${name}`)
    }
    const { role, content } = message
    const sent = Array.isArray(content) ? fitParts(content as Part[], this.#profile.list_content) : content
    if (sent !== content) this.#change('content', sent)
    if (role === 'system' || role === 'developer') this.#fitSystem(message)
    else this.#hasTurns = true
    if (role === 'tool') this.#fitResult(message)
    if (role === 'assistant') this.#fitAssistant(message)
    return this.#changes ? ({ ...message, ...(this.#changes as object) } as ChatMessage) : message
  }

  #fitSystem({ role, content }: ChatMessage): void {
    if (this.#hasTurns && !this.#profile.user_after_tool) {
      const text = typeof content === 'string' ? content : textOf(content as Part[])
      this.#change('role', 'user')
      this.#change('content', systemReminder(text))
    } else if (role === 'developer' && !this.#profile.developer_role) this.#change('role', 'system')
  }

  #change(name: string, value: unknown): void {
    this.#changes ??= {}
    this.#changes[name] = value
  }

  #isLeftOut(name: string, value: unknown): boolean {
    if (value === undefined) return false
    if (Array.isArray(value) && value.length === 0) return true
    if (value === null) return !this.#profile.null_fields
    const { message_fields: kept } = this.#profile
    return kept !== undefined && restricted.has(name) && !kept.includes(name)
  }

  #fitResult({ tool_call_id: id }: ToolMessage): void {
    this.#ids ??= new CallIds(this.#profile)
    const sent = this.#ids.ofResult(id)
    if (sent !== id) this.#change('tool_call_id', sent)
  }

  #fitAssistant({ reasoning_content: reasoning, tool_calls: calls }: AssistantMessage): void {
    const required = this.#reasons ? this.#profile.reasoning_required : undefined
    if (!reasoning && (required === 'all' || (required === 'calls' && calls?.length)))
      this.#change('reasoning_content', reasoningPlaceholder)
    if (reasoning != null && this.#reasoningField !== 'reasoning_content') {
      this.#change('reasoning_content', undefined)
      if (this.#reasoningField === 'reasoning' && reasoning !== '') this.#change('reasoning', reasoning)
    }
    if (!calls?.length) return
    this.#ids ??= new CallIds(this.#profile)
    const ids = this.#ids
    const sent = calls.map(call => this.#fitCall(call, ids.ofCall(call.id)))
    if (sent.some((call, index) => call !== calls[index])) this.#change('tool_calls', sent)
  }

  #fitCall(call: ToolCall, id: string): ToolCall {
    if (call.type === 'custom') {
      const name = sentToolName(call.custom.name, this.#profile)
      if (this.#profile.custom_tools)
        return id === call.id && name === call.custom.name ? call : { ...call, id, custom: { ...call.custom, name } }
      return { id, type: 'function', function: { name, arguments: customArguments(call.custom.input) } }
    }
    const name = sentToolName(call.function.name, this.#profile)
    const keys = this.#tools.get(name)?.keys
    const { arguments: given } = call.function
    const whole = this.#profile.any_arguments ? given : parseableArguments(given)
    const isStrict = this.#profile.message_fields !== undefined && !isPlainCall(call)
    if (id === call.id && name === call.function.name && whole === given && !keys && !isStrict) return call
    const fn = { name, arguments: keys ? sentArguments(whole, keys) : whole }
    if (isStrict) return { id, type: 'function', function: fn }
    return { ...call, id, function: { ...call.function, ...fn } }
  }
}

/** The rules for the whole conversation and its last message. */
function fitEnds(fitting: Fitting): void {
  const { messages } = fitting.body
  const { system_only: takesSystemOnly, assistant_first: takesAssistantFirst, prefill } = fitting.profile
  const first = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  if (first < 0 && !takesSystemOnly)
    fitting.set({ messages: messages.map(message => ({ ...message, role: 'user' }) as ChatMessage) })
  if (messages[first]?.role === 'assistant' && !takesAssistantFirst)
    fitting.set({ messages: messages.toSpliced(first, 0, { role: 'user', content: beforeText }) })
  const last = messages.at(-1)
  if (last?.role !== 'assistant') return
  if (prefill === 'none')
    throw fitting.refusal('messages', 'This model cannot continue an answer: the last message must be the user’s.')
  if (last.tool_calls?.length) return
  const sent = prefill === 'prefix' ? { ...last, prefix: true } : prefill === 'trimmed' ? withTrimmedEnd(last) : last
  if (sent !== last) fitting.set({ messages: [...fitting.body.messages.slice(0, -1), sent as ChatMessage] })
}
