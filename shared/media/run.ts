import { GatewayError } from '../base/errors.ts'
import type { ModelRow } from '../catalog/schema.ts'
import { admitRequest, BaseRun, type CallMonitor, clientLeft, noOutcome, type RoutingPlan } from '../engine/base-run.ts'
import { type CallerTimeouts, isOwnTimeout } from '../engine/caller-timeouts.ts'
import type { EngineServices } from '../engine/engine-services.ts'
import { failover, withoutSecret } from '../engine/failover.ts'
import { ClientGone } from '../engine/failures.ts'
import { failureOutcome, formatUsd, type Report, type RequestLabels, type RunOutcome } from '../engine/report.ts'
import { goneSignal, type ResponseWriter } from '../engine/response-writer.ts'
import { InlineFiles } from '../files/inline-files.ts'
import { dropReferences, stageReferences } from '../files/references.ts'
import { SoundConversion } from '../files/sound-conversion.ts'
import { sourcesOf } from '../files/sources.ts'
import type { Heartbeat } from '../io/keep-alive.ts'
import { assertUnguarded } from '../keys/guardrails.ts'
import type { OwnKeys } from '../keys/own-keys.ts'
import type { ResolvedKey } from '../keys/policies.ts'
import type { Mode, Policy } from '../keys/policy.ts'
import { type SyncKind, syncKinds, type WorkKinds } from '../kinds/index.ts'
import { membersWithoutEffect, type OfOpenRouter, type References } from '../kinds/media.ts'
import { priceNano, type Quantity, type SyncKindRow } from '../kinds/sync-kind.ts'
import type { Platform } from '../platform.ts'
import type { Source, Target } from '../providers/contract.ts'
import { trackConnection } from '../providers/open-connection.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { chooseTargets } from '../routing/choose-targets.ts'
import { marginAt } from '../routing/pricing.ts'
import { missesThreshold, type Preferences, placeOf, preferencesOf } from '../routing/provider-preferences.ts'
import { rate, scaleOf, scoreOf, usual } from '../routing/score.ts'
import type { Reservation } from '../wallet/admission.ts'
import { flatCost } from '../wallet/reservation.ts'
import type { Delivery, DeliveryResult } from './delivery.ts'
import { failedEvent } from './events.ts'
import type { Work } from './work.ts'

/** One validated media request and its delivery. */
export type MediaRunInput<K extends SyncKind> = {
  kind: K
  key: ResolvedKey
  requestId: string
  body: { model?: string | undefined } & OfOpenRouter
  /** What the request is attributed to in the request log. */
  labels?: RequestLabels | null
  timeouts?: CallerTimeouts | null
  /** Whether the answer is streamed, and whether as server-sent events. */
  stream: boolean
  events: boolean
  /** Body fields without effect: listed in the answer's `x-gateway-dropped`. */
  dropped?: readonly string[]
  /** Checks the references once they are in storage. Throws a GatewayError naming the field. */
  check?(references: References): Promise<void>
  deliver(delivery: Delivery<K>): Promise<DeliveryResult>
}

/**
 * Runs one media request from staging to settlement: stages references, routes, reserves, calls providers until one
 * delivers, charges. Throws a GatewayError if nothing was sent to the client yet. In every case the reservation is
 * resolved once and the staged references are removed.
 */
export async function runMedia<K extends SyncKind>(
  services: EngineServices,
  input: MediaRunInput<K>,
  client: ResponseWriter,
): Promise<Report> {
  return new MediaRun(services, input, client).start()
}

/** The targets of a model in an environment. */
export function mediaTargets(
  { upstreams }: Pick<EngineServices, 'upstreams'>,
  kind: SyncKind,
  model: ModelRow,
  environment: 'live' | 'test',
  ownKeys: OwnKeys | null = null,
): Target[] {
  return upstreams
    .targets(model, environment, ownKeys)
    .filter(({ provider }) => upstreams.synchronous(kind, provider, environment) !== null)
}

/** Whether a kind's route serves a model: chat models may generate images, too. */
export function servesMedia(kind: SyncKind, model: ModelRow): boolean {
  const { type, path } = syncKinds[kind]
  return model.type === type || model.kind?.endpoints?.includes(path) === true
}

/** Whether the result is stored and returned as a URL. */
function keepsResults({ kind, body }: MediaRunInput<SyncKind>): boolean {
  return kind === 'image' && (body as { response_format?: string }).response_format !== 'b64_json'
}

/** What was chosen and reserved for a run. */
type Admitted = { plan: RoutingPlan; reservation: Reservation }

/** A call in progress. */
type OpenCall = {
  /** Ends the call: its client has disconnected, the run was stopped, or the caller's own time is up. */
  ended: AbortController
  /** Whether the caller's own time ended it. */
  isCut: boolean
  /** Whether the provider has received it. */
  isSent: boolean
  /** Ends it when the caller's own time is up; undefined = the caller sets none. */
  cutTimer: NodeJS.Timeout | undefined
}

class MediaRun<K extends SyncKind> extends BaseRun<EngineServices> {
  readonly #input: MediaRunInput<K>
  readonly #row: SyncKindRow<{ model?: string | undefined }, WorkKinds[K]['input']>
  readonly #conversion: SoundConversion
  /** The outcome of a call that the caller's own timeout ended. */
  #stopped: RunOutcome | undefined

  constructor(services: EngineServices, input: MediaRunInput<K>, client: ResponseWriter) {
    const row = syncKinds[input.kind] as unknown as SyncKindRow<MediaRunInput<K>['body'], WorkKinds[K]['input']>
    super(services, client, row.idPrefix, input.key.policy, input)
    if (client.trace) client.trace.operation = input.kind
    this.#input = input
    this.#row = row
    this.#conversion = new SoundConversion(services, input.key.policy)
  }

  async start(): Promise<Report> {
    const { services } = this
    const { key, body, check } = this.#input
    await services.policies.decide(key, policy => this.#choose(policy, null))
    if (keepsResults(this.#input)) await services.files.quota.assertRoom(key.policy)
    const fields = this.#row.references(body)
    const references = await stageReferences(services, key.policy, fields)
    // Staging takes time, so the cached policy may be outdated.
    if (fields.length > 0) key.forget()
    try {
      await check?.(references)
      return await this.#serve(await this.#admit(references), references)
    } finally {
      await Promise.all([dropReferences(services, references), this.#conversion.drop()])
    }
  }

  #choose(policy: Policy, references: References | null): Target[] {
    assertUnguarded(policy)
    const { kind, body } = this.#input
    return chooseTargets(this.services.catalog, policy, {
      slug: body.model,
      list: this.#row.modelsPath,
      serves: model => servesMedia(kind, model),
      targets: model => mediaTargets(this.services, kind, model, policy.environment, policy.ownKeys),
      check: model => this.#row.input(body, model, references),
      preferences: this.#preferences(policy),
      marginPpm: this.marginPpm,
      nowMs: this.services.clock.now(),
      allModels: true,
    })
  }

  #preferences({ provider }: Policy): Preferences | null {
    return preferencesOf(provider, this.#input.body.provider)
  }

  async #admit(references: References): Promise<Admitted> {
    const { services, id, startedMs } = this
    const { key } = this.#input
    const admitted = await admitRequest(services, key, { id, startedMs }, policy => {
      const offers = this.#choose(policy, references).map(target => this.#offer(target, references))
      const chosen = rankOffers(services, policy.mode, offers, this.#preferences(policy))
      const targets = chosen.map(({ target }) => target)
      const fixedNano = Math.max(...chosen.map(({ maxNano }) => maxNano))
      const factor = services.reservationFactors.of(policy.organisationId, targets)
      return { plan: { mode: policy.mode, targets }, maxCost: { ...flatCost(fixedNano), factor } }
    })
    this.policy = key.policy
    return admitted
  }

  #inputFor({ model }: Target, references: References): WorkKinds[K]['input'] {
    return this.#row.input(this.#input.body, model, references)
  }

  #fieldsWithoutEffect({ model }: Target): string[] {
    const { body, dropped = [] } = this.#input
    const ofModel = this.#row.fieldsWithoutEffect?.(body, model) ?? []
    return [...dropped, ...ofModel, ...membersWithoutEffect(body)]
  }

  #offer(target: Target, references: References): Offer {
    const quantity = this.#row.maxQuantity(this.#inputFor(target, references), target.model)
    const marginPpm = marginAt(target, this.marginPpm)
    return { target, maxNano: Number(priceNano(target.deployment.price, quantity, marginPpm)) }
  }

  async #serve(admitted: Admitted, references: References): Promise<Report> {
    const { plan, reservation } = admitted
    const { client, beganMs, failedAttempts, services } = this
    const live = this.policy.environment === 'live'
    const { signal } = this.abortController
    const { timeouts } = this.#input
    const options = {
      targets: plan.targets,
      live,
      sticky: null,
      beganMs,
      client,
      failedAttempts,
      bulk: null,
      signal,
      maxFirstTokenMs: timeouts?.firstTokenMs,
    }
    const attempt = (monitor: CallMonitor) => this.#attempt(monitor, admitted, references, heartbeat)
    const heartbeat = this.createHeartbeat(plan, reservation)
    const unwatch = this.#input.events ? services.keepAlive.monitor(heartbeat) : null
    try {
      const outcome = await this.abortOnRestart(() =>
        this.withinTimeout(timeouts?.totalMs, () => failover(services, options, attempt)),
      )
      return this.settle(reservation, plan, outcome)
    } catch (error) {
      return this.settleFailure(error, plan, reservation, failedEvent, this.#stopped)
    } finally {
      unwatch?.()
    }
  }

  async #attempt(
    monitor: CallMonitor,
    admitted: Admitted,
    references: References,
    heartbeat: Heartbeat,
  ): Promise<RunOutcome> {
    const { client, services } = this
    const { target, callerWithinMs } = monitor.route
    await this.cuts?.reserve()
    this.monitor = monitor
    this.sent.converted = null
    this.sent.dropped = this.#fieldsWithoutEffect(target)
    this.sent.adjusted = this.#row.adjustedFields?.(this.#input.body, target.model) ?? []
    const call: OpenCall = { ended: new AbortController(), isCut: false, isSent: false, cutTimer: undefined }
    const cut = () => {
      call.isCut = true
      call.ended.abort()
    }
    if (callerWithinMs !== undefined) call.cutTimer = setTimeout(cut, callerWithinMs)
    const { signal: stopped } = this.abortController
    const stop = () => call.ended.abort(stopped.reason)
    stopped.addEventListener('abort', stop, { once: true })
    const work = this.#work(monitor, references, call.ended.signal, () => {
      call.isSent = true
    })
    const readOnMs = () => (call.isSent && this.policy.environment === 'live' ? services.config.readOnMs : 0)
    const unwatchClient = services.disconnectedCalls.track(client, readOnMs, () => call.ended.abort())
    const delivery = this.#deliveryOf(monitor, admitted, call, work, heartbeat)
    const { quantity, error } = await this.#input
      .deliver(delivery)
      .catch(failure => this.#resultOfEnded(failure, monitor, call, work.call.input, admitted.reservation))
      .finally(() => {
        clearTimeout(call.cutTimer)
        unwatchClient()
        stopped.removeEventListener('abort', stop)
      })
    this.firstByteMs = monitor.firstByteMs
    return this.#finishAttempt(monitor, this.#outcomeOf(target, quantity), error)
  }

  #deliveryOf(
    monitor: CallMonitor,
    { plan, reservation }: Admitted,
    call: OpenCall,
    work: Work<K>,
    heartbeat: Heartbeat,
  ): Delivery<K> {
    const { client, services, policy, startedMs } = this
    const { target } = monitor.route
    return {
      services,
      organisationId: policy.organisationId,
      environment: policy.environment,
      client,
      gone: goneSignal(client),
      stopped: this.abortController.signal,
      startedMs,
      input: work.call.input,
      work,
      costNano: quantity => this.#costNano(target, quantity),
      headers: costNano => {
        const headers = this.headers(target, plan, reservation, this.failedAttempts.length + 1)
        if (costNano !== null) headers['x-gateway-cost-usd'] = formatUsd(costNano + (this.cuts?.costNano ?? 0))
        return headers
      },
      failureOf: error => this.#failureOf(monitor, error),
      onFirstByte: () => {
        if (this.#input.stream) clearTimeout(call.cutTimer)
        monitor.recordFirstByte({ streamed: this.#input.stream })
      },
      send: event => {
        clearTimeout(call.cutTimer)
        this.openStream(target, plan, reservation)
        heartbeat.ticks = 0
        return client.write(event, 'utf8')
      },
    }
  }

  /**
   * The result of a call that was ended without one: what its client, who has disconnected, is charged for. Throws the failure of
   * a call that was not ended, and what ends the attempt or the run.
   */
  #resultOfEnded(
    failure: unknown,
    { route: { target } }: CallMonitor,
    { ended, isCut, isSent }: OpenCall,
    input: WorkKinds[K]['input'],
    reservation: Reservation,
  ): DeliveryResult {
    if (!ended.signal.aborted) throw failure
    const { client } = this
    const { signal: stopped } = this.abortController
    const isBilled = isSent && this.policy.environment === 'live'
    // The provider continues and the result is unknown: the requested quantity is billed.
    const quantity = this.#row.maxQuantity(input, target.model)
    if (isCut && !stopped.aborted && !client.gone) {
      const error = new ProviderError('timeout', 'the provider gave no answer in time')
      if (isBilled) this.recordCut(error, this.#outcomeOf(target, quantity), this.#input.key, reservation)
      throw error
    }
    if (stopped.aborted && !client.gone) {
      // A restart is not the client's fault: nothing is charged.
      if (isBilled && stopped.reason instanceof GatewayError && isOwnTimeout(stopped.reason))
        this.#stopped = this.#outcomeOf(target, quantity)
      throw stopped.reason
    }
    if (!isBilled) throw new ClientGone()
    return { quantity, error: null }
  }

  #outcomeOf(target: Target, quantity: Quantity): RunOutcome {
    // Models that are not paid by the token report no tokens.
    const usage = target.deployment.price.unit === 'token' ? quantity.usage : noOutcome.usage
    const upstream = target.own && { upstreamCostNano: Number(priceNano(target.deployment.price, quantity, 0n)) }
    const costNano = this.#costNano(target, quantity)
    return { ...noOutcome, target, usage, costNano, ...upstream, status: 200, errorCode: null }
  }

  /** The outcome of an attempt whose answer had started. */
  #finishAttempt(monitor: CallMonitor, outcome: RunOutcome, error: ProviderError | null): RunOutcome {
    if (this.client.gone) {
      monitor.recordAbandonment()
      return { ...outcome, ...clientLeft }
    }
    if (!error) {
      monitor.recordSuccess(0, { streamed: this.#input.stream })
      return outcome
    }
    const failure = this.#failureOf(monitor, error)
    monitor.recordFailure(error)
    return { ...outcome, ...failureOutcome(failure), finishReason: 'error' }
  }

  #failureOf({ route }: CallMonitor, error: ProviderError): GatewayError {
    return this.toPublicError(withoutSecret(error, route), route)
  }

  #work({ route }: CallMonitor, references: References, signal: AbortSignal, onSend: () => void): Work<K> {
    const { upstreams, config } = this.services
    const { target, credential } = route
    const { environment } = this.policy
    const { adapter } = upstreams.synchronous(this.#input.kind, target.provider, environment)!
    const { provider, deployment } = target
    const connection = upstreams.connectionTo(provider, environment, credential?.id ?? null, deployment, target.own)
    const sources = this.#sources(references)
    return {
      adapter,
      connection: trackConnection(connection, onSend),
      files: new InlineFiles(this.services.budgets.remoteFiles, this.policy.organisationId, sources),
      maxMs: config.upstream.totalTimeoutMs,
      call: {
        target,
        jobId: this.id,
        attempt: 1,
        input: this.#inputFor(target, references),
        sources,
        callbackUrl: null,
        signal,
      },
    }
  }

  /** The files of the request; the sound to transcribe can be converted. */
  #sources(references: References): ReadonlyMap<string, Source> {
    const sources = sourcesOf(this.services, references)
    const sound = references.audio_url
    if (!sound || this.#input.kind !== 'transcription' || !this.services.config.convertMedia) return sources
    const toFlac = async (model: ModelRow) => {
      const flac = await this.#conversion.toFlac(sound, model)
      this.sent.converted = `${sound.contentType}; to=${flac.contentType}`
      return flac
    }
    return new Map(sources).set('audio_url', { ...sources.get('audio_url')!, toFlac })
  }

  /** The charge of a quantity; 0 for a test key. */
  #costNano(target: Target, quantity: Quantity): number {
    if (this.policy.environment === 'test') return 0
    return Number(priceNano(target.deployment.price, quantity, marginAt(target, this.marginPpm)))
  }
}

/** A target and the maximum cost of the request there, in nano-dollars. */
type Offer = { target: Target; maxNano: number }

/** Maximum targets of one request. */
const maxTargets = 5
/** The difficulty by which image and audio requests are scored. */
const assumedDifficulty = 0.5

/**
 * Ranks targets by quality, price and live figures, weighted by the mode, or as the preferences say. Ties keep the catalog's
 * order.
 */
function rankOffers(
  { upstreams }: Platform,
  mode: Mode,
  offers: readonly Offer[],
  preferences: Preferences | null,
): Offer[] {
  const priced = offers.map(offer => {
    const quality = offer.target.model.quality ?? 0
    return { offer, quality, listedQuality: quality, costNano: offer.maxNano, qualityScore: 0, normalisedPrice: 0 }
  })
  const scale = scaleOf(priced, assumedDifficulty)
  for (const one of priced) rate(one, upstreams.figures(one.offer.target), scale)
  priced.sort((a, b) => scoreOf(b, mode) - scoreOf(a, mode))
  if (preferences) {
    const figuresOf = ({ offer }: { offer: Offer }) => upstreams.figures(offer.target)
    const byWait = (one: { offer: Offer }) => figuresOf(one).firstByteMs ?? usual.firstByteMs
    const late = (one: { offer: Offer }) => Number(missesThreshold(preferences, figuresOf(one)))
    const place = ({ offer }: { offer: Offer }) =>
      placeOf(preferences, offer.target.provider.name) ?? Number.MAX_SAFE_INTEGER
    const { sort } = preferences
    if (sort === 'price') priced.sort((a, b) => a.costNano - b.costNano)
    else if (sort === 'latency' || sort === 'speed') priced.sort((a, b) => byWait(a) - byWait(b))
    priced.sort((a, b) => place(a) - place(b) || late(a) - late(b))
  }
  // Own keys first; one with the operator's keys remains for when they fail.
  priced.sort((a, b) => Number(!a.offer.target.own) - Number(!b.offer.target.own))
  return priced.slice(0, preferences?.fallsBack === false ? 1 : maxTargets).map(({ offer }) => offer)
}
