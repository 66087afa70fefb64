import { GatewayError } from '../base/errors.ts'
import type { RunServices } from '../engine/base-run.ts'
import type { Placeholders } from '../guardrails/placeholders.ts'
import { GuardedText, type TextForm, TextGuard } from '../guardrails/text-guard.ts'
import { mapTexts, type Place } from '../guardrails/texts.ts'
import { checks, type DetectorType, type Guardrails, type GuardWebhook, type Side } from '../keys/guardrails.ts'
import type { GuardRecord } from '../wallet/routing-record.ts'
import { GuardFailed, type GuardQuestion, QuestionTooLarge, TooManyCalls } from '../webhooks/guard-calls.ts'

/** A text with its name in the question to a guard. */
export type NamedText = { id: string; text: string; role: string; isJson: boolean }

const nameOf: Record<DetectorType, string> = {
  card: 'a payment card number',
  iban: 'an IBAN',
  secret: 'an API key or another secret',
  email: 'an email address',
  phone: 'a phone number',
}

/** Which request is guarded. */
type GuardedRequest = Omit<GuardQuestion, 'side' | 'texts'>

/** Where texts of requests and answers are checked: asks the guard of an organisation, and notes what happened. */
export class Guard {
  readonly #services: Pick<RunServices, 'guardCalls' | 'metrics' | 'log'>
  readonly #request: GuardedRequest
  readonly guardrails: Guardrails
  readonly record: GuardRecord = {}

  constructor(
    services: Pick<RunServices, 'guardCalls' | 'metrics' | 'log'>,
    guardrails: Guardrails,
    request: GuardedRequest,
  ) {
    this.#services = services
    this.guardrails = guardrails
    this.#request = request
  }

  /** The webhook, if it is asked about a side. */
  webhookOf(side: Side): GuardWebhook | null {
    const { webhook } = this.guardrails
    return webhook && checks(webhook, side) ? webhook : null
  }

  /** Notes that a detector found what it blocks; returns the error. `place` is a field of the request. */
  blocked(side: Side, type: DetectorType, place: string | null = null): GatewayError {
    this.#note(side, { blocked: type }, type, 'blocked')
    const where = place !== null && isShown(place) ? ` in \`${place}\`` : ''
    const message = `The guardrails of this key refuse the ${side === 'input' ? 'request' : 'answer'}: it has ${nameOf[type]}${where}.`
    return blockedError(side, message, type, where === '' ? null : place)
  }

  /** Notes how many values were masked, and forgets the counts. */
  noteMasked(side: Side, counts: Map<DetectorType, number>): void {
    let masked = this.record[side]?.masked ?? 0
    for (const [type, count] of counts) {
      masked += count
      this.#services.metrics?.recordGuard(side, type, 'masked', count)
    }
    counts.clear()
    if (masked > 0) this.record[side] = { ...this.record[side], masked }
  }

  /**
   * Asks the webhook about texts; returns those that it replaces, by their id. Throws a GatewayError when it blocks, or fails and
   * must not.
   */
  async ask(webhook: GuardWebhook, side: Side, texts: readonly NamedText[], signal?: AbortSignal) {
    const named = texts.map(({ id, role, text }) => ({ id, role, text }))
    try {
      const verdict = await this.#services.guardCalls.ask(webhook, { ...this.#request, side, texts: named }, signal)
      if (verdict.action === 'allow') return this.#noteWebhook(side, 'allowed')
      if (verdict.action === 'replace') {
        this.#noteWebhook(side, 'replaced')
        return verdict.texts
      }
      this.#noteWebhook(side, 'blocked')
      const reason = verdict.reason ?? 'it gave no reason'
      const message = `The guard of this key refuses the ${side === 'input' ? 'request' : 'answer'}: ${reason}`
      throw blockedError(side, message, 'webhook', null)
    } catch (error) {
      if (!(error instanceof GuardFailed)) throw error
      // Fails closed: the caller controls the size, and could otherwise skip the check.
      if (error instanceof QuestionTooLarge && side === 'input') {
        this.#noteWebhook(side, 'blocked')
        throw blockedError(
          side,
          `The guard of this key cannot be asked about the request: ${error.message}.`,
          'webhook',
          null,
        )
      }
      // Never fails open here: the caller controls its own concurrency.
      const isOpen = webhook.on_failure === 'fail_open' && !(error instanceof TooManyCalls)
      const outcome = isOpen ? 'failed_open' : 'failed_closed'
      this.#services.log.warn({ err: error, organisation: this.#request.organisationId, outcome }, 'a guard failed')
      this.#noteWebhook(side, outcome)
      if (outcome === 'failed_open') return noTexts
      throw new GatewayError('guardrail_unavailable', `The guard of this key gave no valid answer: ${error.message}.`, {
        metadata: { guardrail: { side, guard: 'webhook' } },
        // An answer was paid for: a repetition pays again.
        ...(side === 'output' && { headers: { 'x-should-retry': 'false' } }),
      })
    }
  }

  #noteWebhook(side: Side, webhook: NonNullable<NonNullable<GuardRecord['input']>['webhook']>) {
    this.#note(side, { webhook }, 'webhook', webhook)
    return noTexts
  }

  #note(side: Side, noted: GuardRecord['input'], guard: string, outcome: string): void {
    this.record[side] = { ...this.record[side], ...noted }
    this.#services.metrics?.recordGuard(side, guard, outcome, 1)
  }

  /** What the guardrails have done so far, as a header says it (RFC 8941: a list with parameters). */
  get header(): string {
    const sides = Object.entries(this.record) as [Side, NonNullable<GuardRecord['input']>][]
    return sides
      .map(([side, facts]) => [side, ...Object.entries(facts).map(pair => pair.join('='))].join(';'))
      .join(', ')
  }
}

const noTexts: ReadonlyMap<string, string> = new Map()

function blockedError(side: Side, message: string, guard: string, param: string | null): GatewayError {
  const details = { ...(param !== null && { param }), metadata: { guardrail: { side, guard } } }
  return new GatewayError('guardrail_blocked', message, details)
}

/** Names of fields are shown, unless a caller chose them. */
function isShown(place: string): boolean {
  return /^[\w.]{1,100}$/.test(place)
}

/** Checks the texts of one answer, and changes them. */
export class AnswerGuard {
  readonly guard: Guard
  readonly texts: TextGuard
  readonly #webhook: GuardWebhook | null
  /** What replaces whole texts, as the webhook said. */
  readonly #replaced = new Map<string, string>()
  readonly #checked = new Set<string>()
  #failure: GatewayError | null = null

  constructor(guard: Guard, placeholders: Placeholders) {
    this.guard = guard
    this.texts = new TextGuard(guard.guardrails, 'output', placeholders)
    this.#webhook = guard.webhookOf('output')
    if (this.needsWhole || this.texts.masked.size > 0) guard.record.output = {}
  }

  /** Whether nothing may be sent before the whole answer was checked. */
  get needsWhole(): boolean {
    return this.#webhook !== null || this.texts.blocked.size > 0
  }

  /** Whether answers are neither checked nor changed. */
  get isOff(): boolean {
    return !this.needsWhole && !this.texts.changes
  }

  /** Checks whole texts of the answer, each once. Throws a GatewayError that refuses the answer. */
  async check(texts: readonly NamedText[]): Promise<void> {
    if (this.#failure) throw this.#failure
    const fresh = new Map(texts.filter(({ text }) => !this.#checked.has(text)).map(one => [one.text, one]))
    for (const text of fresh.keys()) this.#checked.add(text)
    try {
      await this.#check([...fresh.values()])
    } catch (error) {
      if (error instanceof GatewayError) this.#failure = error
      throw error
    }
  }

  async #check(texts: readonly NamedText[]): Promise<void> {
    const { guard } = this
    for (const { text, isJson } of texts) {
      const type = this.texts.findBlocked(text, { isJson })
      if (type) throw guard.blocked('output', type)
    }
    if (!this.#webhook || texts.length === 0) return
    const masked = texts.map(one => ({ ...one, text: this.texts.mask(one.text, one) }))
    const answered = await guard.ask(this.#webhook, 'output', masked)
    for (const { id, text } of texts) if (answered.has(id)) this.#replaced.set(text, answered.get(id)!)
  }

  /** What replaces a whole text, as the webhook said; null = nothing. */
  replacementOf(text: string, { isJson }: Pick<TextForm, 'isJson'>): string | null {
    const replaced = this.#replaced.get(text)
    return replaced === undefined ? null : this.texts.placeholders.restore(replaced, isJson)
  }

  /** A whole text as the client is to see it. */
  present(text: string, form: TextForm): string {
    return this.replacementOf(text, form) ?? this.texts.apply(text, form)
  }

  /** A text of the answer that comes in parts. */
  open(form: TextForm): GuardedText {
    return new GuardedText(this.texts, form)
  }

  /** An object of the answer as its client is to see it. It is not checked again. */
  presentObject<T extends object>(answer: T): T {
    const shown = mapTexts(answer, (text, place) => {
      if (place.isToken) return text
      const presented = this.present(text, place)
      if (this.needsWhole) {
        this.#checked.add(presented)
        if (presented !== text) this.#replaced.set(presented, presented)
      }
      return presented
    })
    return this.needsWhole || this.texts.masked.size > 0 ? withoutLogprobs(shown) : shown
  }
}

/** Where the texts of answers are, and not what answers repeat of their requests. */
const answerTexts =
  /^(?:choices|content|candidates|output|item|part|content_block|delta|response\.output|response\.content)(?:\.|$)/

/** The texts of an answer, or of an event of it. */
export function answerTextsOf(answer: object): NamedText[] {
  const texts: NamedText[] = []
  mapTexts(answer, (text, { path, isJson, isToken }: Place) => {
    if (!isToken && answerTexts.test(path)) texts.push({ id: path, text, role: 'assistant', isJson })
    return text
  })
  return texts
}

/** The probabilities of tokens repeat the text that was checked. */
function withoutLogprobs<T extends object>(answer: T): T {
  const { choices } = answer as { choices?: { logprobs?: unknown }[] }
  if (!Array.isArray(choices) || !choices.some(choice => choice?.logprobs)) return answer
  return { ...answer, choices: choices.map(choice => (choice?.logprobs ? { ...choice, logprobs: null } : choice)) }
}
