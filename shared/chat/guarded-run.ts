import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { elapsedMs } from '../base/time.ts'
import type { RunServices } from '../engine/base-run.ts'
import type { Report } from '../engine/report.ts'
import { goneSignal, type ResponseWriter } from '../engine/response-writer.ts'
import { failedResponse } from '../engine/responses-error.ts'
import { Placeholders } from '../guardrails/placeholders.ts'
import { TextGuard } from '../guardrails/text-guard.ts'
import { hasTokenInput, mapTexts, type Place } from '../guardrails/texts.ts'
import { type DetectorType, type Guardrails, notCovered } from '../keys/guardrails.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { StreamInfo } from './chat-format.ts'
import { chatFormats } from './chat-formats.ts'
import { AnswerGuard, answerTextsOf, Guard } from './guard.ts'
import { GuardedClient, type StreamForm } from './guarded-client.ts'
import { type ChatRunInput, GuardrailsChanged, type ResponseStorage, type Serve } from './run-input.ts'

/** How often guardrails may change while a request is checked. */
const maxRounds = 3
/** Characters of text that are checked in one turn of the event loop. */
const charactersPerTurn = 128 * 1024

/**
 * Runs a request within the guardrails of its key: checks its texts, serves what is left of them, and checks the answer
 * (docs/guardrails.md). Nothing was admitted, sent or charged when the request is refused. Throws what `serve` throws, and
 * `guardrail_blocked` and `guardrail_unavailable`.
 */
export async function runGuarded<K extends DirectKind>(
  services: RunServices,
  input: ChatRunInput<K>,
  client: ResponseWriter,
  serve: Serve<K>,
): Promise<Report> {
  const beganMs = services.monotonic.now()
  for (let round = 0; round < maxRounds; round++) {
    await services.policies.confirm(input.key)
    const { guardrails } = input.key.policy
    try {
      if (!guardrails) return await serve(services, input, client)
      const guarded = new GuardedRun(services, input, guardrails, client)
      const checked = await guarded.checkInput()
      // Time has passed since its policy was confirmed.
      input.key.forget()
      return await guarded.serve(withinTime(checked, elapsedMs(beganMs, services.monotonic.now())), serve)
    } catch (error) {
      if (!(error instanceof GuardrailsChanged)) throw error
    }
  }
  throw new GatewayError('service_unavailable', 'The guardrails of this key are changing right now. Try again.', {
    headers: { 'retry-after': '1' },
  })
}

/** A request with what is left of its caller's own time. */
function withinTime<K extends DirectKind>(input: ChatRunInput<K>, spentMs: number): ChatRunInput<K> {
  const { timeouts } = input
  if (timeouts?.totalMs === undefined) return input
  return { ...input, timeouts: { ...timeouts, totalMs: Math.max(1, timeouts.totalMs - spentMs) } }
}

type FoundText = Place & { text: string; shown: string }

class GuardedRun<K extends DirectKind> {
  readonly #services: RunServices
  readonly #input: ChatRunInput<K>
  readonly #client: ResponseWriter
  readonly #guard: Guard
  readonly #placeholders = new Placeholders()

  constructor(services: RunServices, input: ChatRunInput<K>, guardrails: Guardrails, client: ResponseWriter) {
    const { kind, key, body, requestId } = input
    const { keyId, organisationId } = key.policy
    this.#services = services
    this.#input = input
    this.#client = client
    this.#guard = new Guard(services, guardrails, { requestId, kind, model: body.model, keyId, organisationId })
  }

  /** The request as it may be run. Throws a GatewayError that refuses it. */
  async checkInput(): Promise<ChatRunInput<K>> {
    const { kind, body } = this.#input
    const { guardrails } = this.#guard
    if (guardrails.other_kinds === 'refuse' && hasTokenInput(kind, body))
      throw notCovered('The guardrails of this key cannot check numbers of tokens. Send text.')
    const texts = new TextGuard(guardrails, 'input', this.#placeholders)
    const webhook = this.#guard.webhookOf('input')
    if (!texts.isOn && !webhook) return { ...this.#input, guardrails }
    this.#guard.record.input = {}
    const found = textsOf(body)
    const blocked = await this.#mask(found, texts)
    this.#guard.noteMasked('input', texts.counts)
    let checked = withTexts(body, found)
    const { copy } = this.#client
    if (copy && (checked !== body || blocked)) copy.masked = this.#maskedContent(texts, checked)
    if (blocked) throw this.#guard.blocked('input', blocked.type, blocked.path)
    if (webhook) {
      await this.#ask(found)
      checked = withTexts(body, found)
    }
    const input = { ...this.#input, releaseRaw: undefined, guardrails }
    return checked === body ? input : { ...input, body: checked, raw: null }
  }

  /** Masks texts; returns what blocks the request. */
  async #mask(found: readonly FoundText[], texts: TextGuard): Promise<{ type: DetectorType; path: string } | null> {
    let blocked: { type: DetectorType; path: string } | null = null
    let characters = 0
    for (const { text } of found) this.#placeholders.reserve(text)
    for (const one of found) {
      characters += one.text.length
      if (characters > charactersPerTurn) {
        characters = 0
        await setImmediate()
      }
      if (one.isToken && !texts.isValue(one.text)) continue
      const type = texts.findBlocked(one.text, one)
      if (type) blocked ??= { type, path: one.path }
      one.shown = texts.apply(one.text, one)
    }
    return blocked
  }

  /** What the log of input and output has of the request: also what blocks it is masked there. */
  #maskedContent({ blocked }: TextGuard, checked: object) {
    const detectors = Array.from(blocked, type => ({ type, action: 'mask' as const, on: 'input' as const }))
    const values = new Placeholders()
    const logged = new TextGuard({ detectors }, 'input', values)
    const body = mapTexts(checked, (text, place) =>
      place.isToken && !logged.isValue(text) ? text : logged.apply(text, place),
    )
    const placeholders = new Map([...this.#placeholders.values].map(([name, value]) => [value, name]))
    return { input: Buffer.from(JSON.stringify(body)), placeholders }
  }

  async #ask(found: readonly FoundText[]): Promise<void> {
    const texts = found
      .filter(({ isContent, isToken }) => isContent && !isToken)
      .map(({ path, role, shown, isJson }) => ({ id: path, role, text: shown, isJson }))
    const webhook = this.#guard.webhookOf('input')!
    const replaced = await this.#guard.ask(webhook, 'input', texts, goneSignal(this.#client))
    for (const one of found) one.shown = replaced.get(one.path) ?? one.shown
  }

  /** Serves the checked request, and checks its answer. */
  async serve(checked: ChatRunInput<K>, serve: Serve<K>): Promise<Report> {
    const answerGuard = new AnswerGuard(this.#guard, this.#placeholders)
    const { storage } = checked
    const input = { ...checked, ...(storage && { storage: guardedStorage(storage, answerGuard) }) }
    const { form, body } = this.#streamForm(input)
    const client = new GuardedClient(this.#client, answerGuard, form, this.#services.monotonic)
    let report: Report
    try {
      report = await serve(this.#services, { ...input, body }, client)
    } catch (error) {
      client.settleAll(null)
      throw error
    }
    const failure = await client.finish()
    return failure ? { ...report, status: failure.status, errorCode: failure.code } : report
  }

  /** How the stream of a request is read and written: where its client wants a JSON array, it is run as events. */
  #streamForm(input: ChatRunInput<K>): { form: StreamForm; body: DirectKinds[K]['request'] } {
    const { kind, stream, body } = input
    const format = chatFormats[kind]
    const other = stream ? format.streamOf?.(body) : null
    const asEvents = other ? { ...body, alt: 'sse' } : body
    const form: StreamForm = {
      kind,
      keepAliveFrame: format.keepAliveFrame,
      shownKeepAlive: other?.keepAliveFrame ?? format.keepAliveFrame,
      events: format.events,
      arrayType: other?.contentType ?? null,
      failureEvents: (failure, id) => format.failureEvent(this.#streamInfo(input, asEvents, id), failure),
    }
    return { form, body: asEvents }
  }

  #streamInfo(input: ChatRunInput<K>, body: DirectKinds[K]['request'], id: string): StreamInfo<K> {
    const { features, includeUsage, requestId, storage } = input
    const created = Math.floor(this.#services.clock.now() / 1_000)
    const named = { id, created, model: body.model, choices: features.choices, includeUsage, requestId, request: body }
    // Of events about failures, which state no usage.
    const info = { ...named, isBilled: () => true }
    return { ...info, ...(storage && { fields: storage.fields }) }
  }
}

/** All texts of a body. */
function textsOf(body: object): FoundText[] {
  const found: FoundText[] = []
  mapTexts(body, (text, place) => {
    found.push({ ...place, text, shown: text })
    return text
  })
  return found
}

/** A body with texts as they are shown; the same object if none differs. */
function withTexts<T extends object>(body: T, found: readonly FoundText[]): T {
  const changed = new Map(found.filter(({ text, shown }) => shown !== text).map(({ path, shown }) => [path, shown]))
  return changed.size === 0 ? body : mapTexts(body, (text, { path }) => changed.get(path) ?? text)
}

/** Stores responses as their clients see them; one that is refused as failed, without its output. */
function guardedStorage(storage: ResponseStorage, answerGuard: AnswerGuard): ResponseStorage {
  return {
    fields: storage.fields,
    async store(response) {
      try {
        if (answerGuard.needsWhole) await answerGuard.check(answerTextsOf(response))
        return await storage.store(answerGuard.presentObject(response))
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        return storage.store(failedResponse({ ...response, output: [] }, error))
      }
    },
  }
}
