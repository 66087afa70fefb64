import { parseWithCalls } from '../base/exact-numbers.ts'
import { newId } from '../base/ids.ts'
import { elapsedMs } from '../base/time.ts'
import { HeldContent } from '../content-log/content-copy.ts'
import { admitRequest, noOutcome, type RunServices } from '../engine/base-run.ts'
import { ForwardingWriter } from '../engine/forwarding-writer.ts'
import { factsOf, type Report, type RunOutcome, reportOf, usageEvent } from '../engine/report.ts'
import type { DeferredSettlement, Encoding, ResponseWriter } from '../engine/response-writer.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Policy } from '../keys/policy.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import type { Platform } from '../platform.ts'
import type { Reservation } from '../wallet/admission.ts'
import { noCost, rateHeaders, withoutMoney } from '../wallet/reservation.ts'
import type { RoutingRecord } from '../wallet/routing-record.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import { chatFormats } from './chat-formats.ts'
import { accessOf, type CachedAnswer, cacheKeyOf, keptFields, readAnswer, storeAnswer } from './response-cache.ts'
import { run } from './run.ts'
import type { ChatRunInput } from './run-input.ts'

/** What a request wants of the cache. `maxAgeS`, `namespace`: absent = as the key's policy says, and the common one. */
export type CacheDirective = { use: 'on' | 'off' | 'refresh'; maxAgeS?: number; namespace?: string }

type CacheRunServices = RunServices & Pick<Platform, 'redis' | 'sealer'>

/** Larger requests and answers are not cached. */
const maxRequestBytes = 256 * 1024
const maxAnswerBytes = 1024 * 1024
/** What all answers hold that are being recorded. */
const recording = new HeldContent(64 * 1024 * 1024)

/** The finish reasons of whole answers. Those that were cut or filtered are not stored. */
const completeFinishReasons = new Set<string | null>(['stop', 'tool_calls', 'function_call', null])

/**
 * Runs a request of a key whose policy has the cache on: answers it from there, or runs it and stores the answer if it is whole.
 * Throws what `run` throws.
 */
export async function runCached<K extends DirectKind>(
  services: CacheRunServices,
  input: ChatRunInput<K>,
  directive: CacheDirective,
  client: ResponseWriter,
): Promise<Report> {
  const policy = input.key.policy
  if (directive.use === 'off' || !isCacheable(input)) return run(services, input, new RecordedClient(client, 'bypass'))
  const cacheKey = cacheKeyOf(services, policy, partsOf(input, directive))
  const found = directive.use === 'refresh' ? null : await readAnswer(services, cacheKey)
  if (found) {
    const report = await replay(services, input, directive, found, client)
    if (report) return report
  }
  const recorded = new RecordedClient(client, 'miss', (event, isKept) => {
    // Of the policy that was confirmed, which may be newer.
    const { policy: confirmed } = input.key
    const isSame = confirmed.cache !== null && accessOf(confirmed) === accessOf(policy)
    return isSame && isKept && isWhole(event) ? 'stored' : 'miss'
  })
  try {
    const report = await run(services, input, recorded)
    const { event, text, headers } = recorded
    const ttlS = input.key.policy.cache?.ttlS
    if (ttlS !== undefined && event?.routing?.cache === 'stored' && text !== null) {
      const usage = Object.fromEntries(keptFields.map(field => [field, event[field]])) as CachedAnswer['usage']
      const answer = {
        id: report.generationId,
        storedMs: services.clock.now(),
        headers,
        text: withoutCost(text),
        usage,
      }
      storeAnswer(services, cacheKey, answer, Math.min(ttlS, directive.maxAgeS ?? ttlS))
    }
    return report
  } finally {
    recorded.release()
  }
}

/** Whether equal requests have equal answers: not where the provider reads the web, nor where several are to differ. */
function isCacheable<K extends DirectKind>({ features, body, raw, ...input }: ChatRunInput<K>): boolean {
  const { choices, webSearches, toolReads = 0 } = features
  const { storage, present, bulk } = input
  if (storage || present || bulk || choices > 1 || webSearches || toolReads > 0) return false
  // Guardrails that changed the body leave no text of it.
  return (raw ?? JSON.stringify(body)).length <= maxRequestBytes
}

/** Members that attribute a request, and do not change its answer. */
const attribution = new Set([
  'user',
  'safety_identifier',
  'metadata',
  'labels',
  'session_id',
  'prompt_cache_key',
  'store',
])

/** All that decides an answer. The order within members counts: models follow it, such as that of a schema's properties. */
function partsOf<K extends DirectKind>(
  { kind, body, stream, forwarded, structuredCheck }: ChatRunInput<K>,
  { namespace = '' }: CacheDirective,
) {
  const members = Object.entries(body).filter(([name]) => !attribution.has(name))
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  const beside = forwarded && [Object.entries(forwarded.headers).sort(), forwarded.query]
  const parts = [kind, namespace, String(stream), JSON.stringify(beside ?? null), JSON.stringify(members)]
  return structuredCheck ? [...parts, structuredCheck] : parts
}

function isWhole({ status, errorCode, finishReason, waiver }: UsageEvent): boolean {
  return (
    status === 200 && errorCode === null && waiver !== 'nothing_produced' && completeFinishReasons.has(finishReason)
  )
}

/** Answers a request from the cache, free of charge; null if its key's confirmed policy does not allow that. */
async function replay<K extends DirectKind>(
  services: CacheRunServices,
  input: ChatRunInput<K>,
  directive: CacheDirective,
  found: CachedAnswer,
  client: ResponseWriter,
): Promise<Report | null> {
  const { clock, monotonic, admission } = services
  const beganMs = monotonic.now()
  const startedMs = clock.now()
  const ageS = Math.max(0, Math.floor((startedMs - found.storedMs) / 1_000))
  const { kind, requestId, stream, body, session, key, labels = null } = input
  const id = newId(chatFormats[kind].idPrefix)
  const reservation = await admitReplay(services, key, { id, startedMs }, found, ageS, directive)
  if (!reservation) return null
  const headers = {
    ...rateHeaders(reservation.rates),
    ...found.headers,
    'x-generation-id': id,
    'x-gateway-cache': 'hit',
    'x-gateway-attempts': '0',
    age: String(ageS),
  }
  const answered = kind === 'responses' ? withOwnAttribution(found.text, body as ResponsesRequest) : found.text
  const text = answered.replaceAll(found.id, id)
  client.collect(text.length)
  const { usage } = found
  const run = {
    id,
    kind,
    requestId,
    stream,
    policy: key.policy,
    model: usage.model,
    provider: usage.provider,
    mode: usage.mode ?? '',
    attempts: 0,
    startedMs,
    marginPpm: 0n,
    routing: null,
    firstByteMs: stream ? elapsedMs(beganMs, monotonic.now()) : null,
    durationMs: elapsedMs(beganMs, monotonic.now()),
    facts: factsOf(body, session, labels),
  }
  const { finishReason, upstreamId } = usage
  const outcome: RunOutcome = { ...noOutcome, status: 200, errorCode: null, finishReason, upstreamId }
  const event: UsageEvent = { ...usageEvent(run, reservation, outcome), ...usage, cached: true }
  if (key.policy.spendsMoney) event.waiver = 'cached'
  const settle = () => admission.settle(reservation, 0, 0, event)
  if (client.defer) client.defer({ event, settle, release: () => admission.release(reservation) })
  else settle()
  if (stream) {
    client.open(headers)
    for (const frame of text.split(/(?<=\n\n)/)) client.write(frame, 'utf8')
    client.end()
  } else client.answer({ ...headers, 'x-gateway-cost-usd': '0' }, text)
  return reportOf(run, outcome)
}

/** The key's policy no longer allows the answer that was found. */
class NoLongerAllowed extends Error {}

/**
 * Admits a replay, which counts against the key's rate limits and costs nothing. Null if the key's confirmed policy does not allow
 * the answer that was found, of this age in seconds.
 */
async function admitReplay(
  services: CacheRunServices,
  key: ResolvedKey,
  run: { id: string; startedMs: number },
  found: CachedAnswer,
  ageS: number,
  { maxAgeS = Number.POSITIVE_INFINITY }: CacheDirective,
): Promise<Reservation | null> {
  const access = accessOf(key.policy)
  const isAllowed = (policy: Policy) =>
    policy.cache !== null &&
    ageS < Math.min(policy.cache.ttlS, maxAgeS) &&
    accessOf(policy) === access &&
    services.catalog.models.has(found.usage.model)
  const choose = (policy: Policy) => {
    if (!isAllowed(policy)) throw new NoLongerAllowed()
    return { maxCost: noCost() }
  }
  try {
    return (await admitRequest(services, key, run, choose, withoutMoney)).reservation
  } catch (error) {
    if (error instanceof NoLongerAllowed) return null
    throw error
  }
}

/** The headers of an answer that hold for its replays. */
const keptHeaders = [
  ...['content-type', 'x-gateway-model', 'x-gateway-upstream-model', 'x-gateway-provider', 'x-gateway-mode'],
  ...['x-gateway-dropped', 'x-gateway-adjusted', 'x-gateway-structured-output', 'x-sandbox'],
]

type CacheOutcome = NonNullable<RoutingRecord['cache']>

/** Passes an answer on to its client, keeps a bounded copy of it, and notes in the request log whether the copy was stored. */
class RecordedClient extends ForwardingWriter {
  readonly #state: 'miss' | 'bypass'
  readonly #outcomeOf: (event: UsageEvent, isKept: boolean) => CacheOutcome
  #parts: Buffer[] | null
  #bytes = 0
  headers: Record<string, string> = {}
  /** What is logged of the request. */
  event: UsageEvent | null = null

  constructor(
    client: ResponseWriter,
    state: 'miss' | 'bypass',
    outcomeOf: (event: UsageEvent, isKept: boolean) => CacheOutcome = () => state,
  ) {
    super(client)
    this.#state = state
    this.#outcomeOf = outcomeOf
    this.#parts = state === 'miss' ? [] : null
  }

  /** What the client was sent; null if it is too large. */
  get text(): string | null {
    return this.#parts && Buffer.concat(this.#parts).toString()
  }

  release(): void {
    recording.give(this.#bytes)
    this.#bytes = 0
    this.#parts = null
  }

  override defer(settlement: DeferredSettlement): void {
    const { event } = settlement
    if (event) {
      event.routing = { ...event.routing, cache: this.#outcomeOf(event, this.#parts !== null) }
      this.event = event
    }
    super.defer(settlement)
  }

  override answer(headers: Record<string, string>, body: string): void {
    this.#keep(Buffer.from(body))
    super.answer(this.#named(headers), body)
  }

  override open(headers: Record<string, string>): void {
    super.open(this.#named(headers))
  }

  override write(text: string, encoding: Encoding): boolean {
    // Comments are keep-alives.
    if (this.#parts && !text.startsWith(':')) this.#keep(Buffer.from(text, encoding))
    return super.write(text, encoding)
  }

  override send(bytes: Uint8Array): boolean {
    this.release()
    return super.send(bytes)
  }

  override abandon(): boolean {
    this.release()
    return super.abandon()
  }

  #named(headers: Record<string, string>): Record<string, string> {
    for (const name of keptHeaders) if (headers[name] !== undefined) this.headers[name] = headers[name]
    return { ...headers, 'x-gateway-cache': this.#state }
  }

  #keep(bytes: Buffer): void {
    if (!this.#parts) return
    if (this.#bytes + bytes.length <= maxAnswerBytes && recording.take(bytes.length)) {
      this.#bytes += bytes.length
      this.#parts.push(bytes)
    } else this.release()
  }
}

/** The text of an answer, or of a stream's events, with usage that costs nothing. */
function withoutCost(text: string): string {
  return mapObjects(text, '"cost":', value => {
    for (const usage of [value.usage, value.response?.usage, value.message?.usage])
      if (typeof usage?.cost === 'number') usage.cost = 0
  })
}

/** A Responses answer, or its events, with what this request says of itself, in place of what the first one said. */
function withOwnAttribution(text: string, request: ResponsesRequest): string {
  const own = {
    metadata: request.metadata ?? {},
    user: request.user ?? null,
    safety_identifier: request.safety_identifier ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
  }
  return mapObjects(text, '"response"', value => {
    const response = value.response ?? value
    for (const [name, given] of Object.entries(own)) if (Object.hasOwn(response, name)) response[name] = given
  })
}

// biome-ignore lint/suspicious/noExplicitAny: answers and events of every dialect
type Answered = Record<string, any>

/** A JSON text, or the events of a stream, with the objects changed that contain a text. */
function mapObjects(text: string, mark: string, change: (value: Answered) => void): string {
  const changed = (json: string) => {
    if (!json.includes(mark)) return json
    const value = parseWithCalls(json) as Answered
    change(value)
    return JSON.stringify(value)
  }
  if (text.startsWith('{')) return changed(text)
  return text.replace(/^data: ?(\{.*\})\r?$/gm, (_, json: string) => `data: ${changed(json)}`)
}
