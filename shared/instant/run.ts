import type { ModelRow } from '../catalog/schema.ts'
import { ClientGone } from '../chat/attempt.ts'
import { BaseRun, left as clientLeft, nothing, type Way } from '../chat/base-run.ts'
import type { Client } from '../chat/client.ts'
import { failover } from '../chat/failover.ts'
import type { Silent } from '../chat/keep-alive.ts'
import { decimal, type Ended, type Report } from '../chat/report.ts'
import type { Watch } from '../chat/watch.ts'
import type { Known } from '../keys/policies.ts'
import { authorise, type Policy } from '../keys/policy.ts'
import { type InstantKind, instantKinds, type WorkKinds } from '../kinds/index.ts'
import { type InstantKindRow, priceNano, type Quantity } from '../kinds/instant.ts'
import type { References } from '../kinds/media.ts'
import { chooseTargets } from '../media/choose.ts'
import { dropReferences, stageReferences } from '../media/references.ts'
import { sourcesOf } from '../media/sources.ts'
import type { ProviderError, Target } from '../providers/contract.ts'
import { trackedLine } from '../providers/tracked-line.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'
import { spenderOf } from '../wallet/spender.ts'
import type { Delivered, Delivery } from './delivery.ts'
import { failedEvent } from './events.ts'
import { inOrder, type Offer } from './order.ts'
import type { Work } from './work.ts'

/** One request for media, already validated, and how it is delivered. */
export type InstantOrder<K extends InstantKind> = {
  kind: K
  known: Known
  requestId: string
  body: { model?: string | undefined }
  /** Whether the answer is sent as it is made, and whether as server-sent events. */
  stream: boolean
  events: boolean
  /** Fields of the body that have no effect: named in the answer's `x-gateway-dropped`. */
  dropped?: readonly string[]
  /** Looks at the references once they are in storage. Throws a GatewayError naming the field. */
  check?(references: References): Promise<void>
  deliver(delivery: Delivery<K>): Promise<Delivered>
}

/**
 * Runs one request for media from its references to its settlement: brings them into storage, chooses, reserves, tries
 * providers until one delivers, charges. Throws the GatewayError to answer with as long as the client has seen nothing;
 * whatever happens, the reservation is resolved once and no reference stays.
 */
export async function runInstant<K extends InstantKind>(
  services: Services,
  order: InstantOrder<K>,
  client: Client,
): Promise<Report> {
  return new InstantRun(services, order, client).start()
}

/** Who serves a model for an environment. */
export function instantTargets(
  { upstreams }: Services,
  kind: InstantKind,
  model: ModelRow,
  environment: 'live' | 'test',
): Target[] {
  return upstreams
    .targets(model, environment)
    .filter(({ provider }) => upstreams.instant(kind, provider, environment) !== null)
}

/** Whether a model is served by a kind's route: a chat model may draw, too. */
export function servesInstant(kind: InstantKind, model: ModelRow): boolean {
  const { type, path } = instantKinds[kind]
  const { endpoints } = model.kind ?? {}
  return model.type === type || (Array.isArray(endpoints) && endpoints.includes(path))
}

/** Whether what a request gives is stored, and its address given in its place. */
function keepsResults({ kind, body }: InstantOrder<InstantKind>): boolean {
  return kind === 'image' && (body as { response_format?: string }).response_format !== 'b64_json'
}

class InstantRun<K extends InstantKind> extends BaseRun<Services> {
  readonly #order: InstantOrder<K>
  readonly #row: InstantKindRow<{ model?: string | undefined }, WorkKinds[K]['input']>

  constructor(services: Services, order: InstantOrder<K>, client: Client) {
    const row = instantKinds[order.kind] as unknown as InstantKindRow<InstantOrder<K>['body'], WorkKinds[K]['input']>
    super(services, client, row.idPrefix, order.known.policy, order)
    this.#order = order
    this.dropped = order.dropped ?? []
    this.#row = row
  }

  async start(): Promise<Report> {
    const { services } = this
    const { known, body, check } = this.#order
    await services.policies.decide(known, ({ policy, scope }) => {
      authorise(policy, scope, services.clock.now())
      return this.#choose(policy, null)
    })
    if (keepsResults(this.#order)) await services.files.quota.assertRoom(known.policy)
    const fields = this.#row.references(body)
    const references = await stageReferences(services, known.policy, fields)
    // Files take their time: what was just read of the key no longer is.
    if (fields.length > 0) known.fresh = ''
    try {
      await check?.(references)
      const { way, ticket } = await this.#admit(references)
      return await this.#served(way, ticket, references)
    } finally {
      await dropReferences(services, references)
    }
  }

  #choose(policy: Policy, references: References | null): Target[] {
    const { kind, body } = this.#order
    return chooseTargets(this.services.catalog, policy, {
      slug: body.model,
      list: kind === 'image' || kind === 'music' || kind === 'sfx' ? `${this.#row.path}/models` : '/v1/models',
      serves: model => servesInstant(kind, model),
      targets: model => instantTargets(this.services, kind, model, policy.environment),
      check: model => this.#row.input(body, model, references),
      every: true,
    })
  }

  async #admit(references: References): Promise<{ way: Way; ticket: Ticket }> {
    const { services } = this
    const { known } = this.#order
    const admitted = await services.policies.decide(known, async ({ policy, fresh, scope }) => {
      authorise(policy, scope, services.clock.now())
      const offers = this.#choose(policy, references).map(target => this.#offer(target, references))
      const chosen = inOrder(services, policy.mode, offers)
      const targets = chosen.map(({ target }) => target)
      const fixedNano = Math.max(...chosen.map(({ mostNano }) => mostNano))
      const bound = { estimatedTokens: 0, fixedNano, picoPerOutputToken: 0, outputTokens: 0, explicit: true }
      const ticket = await services.admission.admit(spenderOf(policy), fresh, this.id, bound)
      return 'stale' in ticket ? ticket : { way: { mode: policy.mode, targets }, ticket }
    })
    this.policy = known.policy
    return admitted
  }

  #input({ model }: Target, references: References): WorkKinds[K]['input'] {
    return this.#row.input(this.#order.body, model, references)
  }

  #offer(target: Target, references: References): Offer {
    const quantity = this.#row.most(this.#input(target, references), target.model)
    return { target, mostNano: Number(priceNano(target.deployment.price, quantity, this.services.config.marginPpm)) }
  }

  async #served(way: Way, ticket: Ticket, references: References): Promise<Report> {
    const { client, startedMs, tried, services } = this
    const live = this.policy.environment === 'live'
    const { signal } = this.stopping
    const search = { targets: way.targets, live, home: null, startedMs, client, tried, bulk: null, signal }
    const silent = this.silent(way, ticket)
    const unwatch = this.#order.events ? services.keepAlive.watch(silent) : null
    try {
      const ended = await this.unlessRestarted(() =>
        failover(services, search, watch => this.#attempt(watch, way, ticket, references, silent)),
      )
      return this.settle(ticket, way, ended)
    } catch (error) {
      return this.unanswered(error, way, ticket, failedEvent)
    } finally {
      unwatch?.()
    }
  }

  async #attempt(watch: Watch, way: Way, ticket: Ticket, references: References, silent: Silent): Promise<Ended> {
    const { client, services } = this
    const { target } = watch.route
    this.call = watch
    const left = new AbortController()
    const gone = new AbortController()
    client.onGone(() => gone.abort())
    const { signal: stopped } = this.stopping
    const stop = () => left.abort(stopped.reason)
    stopped.addEventListener('abort', stop, { once: true })
    let asked = false
    const work = this.#work(watch, references, left.signal, () => {
      asked = true
    })
    const live = this.policy.environment === 'live'
    const readOnMs = () => (asked && live ? services.config.readOnMs : 0)
    const forget = services.departures.watch(client, readOnMs, () => left.abort())
    const delivery: Delivery<K> = {
      services,
      organisationId: this.policy.organisationId,
      environment: this.policy.environment,
      client,
      gone: gone.signal,
      stopped,
      startedMs: this.startedMs,
      input: work.call.input,
      work,
      costNano: quantity => this.#costNano(target, quantity),
      headers: costNano => ({
        ...this.headers(target, way, ticket, this.tried.length + 1),
        ...(costNano !== null && { 'x-gateway-cost-usd': decimal(costNano) }),
      }),
      began: () => watch.began({ streamed: this.#order.stream }),
      send: event => {
        this.open(target, way, ticket)
        silent.ticks = 0
        return client.write(event, 'utf8')
      },
    }
    const { quantity, error } = await this.#order
      .deliver(delivery)
      .catch(fault => {
        if (!left.signal.aborted) throw fault
        // A restart is not the client's doing: it owes nothing.
        if (stopped.aborted && !client.gone) throw stopped.reason
        if (!asked || !live) throw new ClientGone('the client went away')
        // The provider works, and nobody learns what it makes: it is billed what was asked for.
        return { quantity: this.#row.most(work.call.input, target.model), error: null }
      })
      .finally(() => {
        forget()
        stopped.removeEventListener('abort', stop)
      })
    this.firstByteMs = watch.firstByteMs
    // Where a model is not paid by the token, its tokens are nobody's business.
    const usage = target.deployment.price.unit === 'token' ? quantity.usage : nothing.usage
    const ended = { ...nothing, target, usage, costNano: delivery.costNano(quantity), status: 200, errorCode: null }
    return this.#ending(watch, ended, error)
  }

  /** How an attempt ended whose answer had begun. */
  #ending(watch: Watch, ended: Ended, error: ProviderError | null): Ended {
    if (this.client.gone) {
      watch.abandoned()
      return { ...ended, ...clientLeft }
    }
    if (!error) {
      watch.succeeded(0, { streamed: this.#order.stream })
      return ended
    }
    const failure = this.publicFailure(error, watch.route)
    watch.failed(error)
    return { ...ended, status: failure.status, errorCode: failure.code, finishReason: 'error' }
  }

  #work({ route }: Watch, references: References, signal: AbortSignal, onSend: () => void): Work<K> {
    const { upstreams, config } = this.services
    const { target, credential } = route
    const { environment } = this.policy
    const { adapter } = upstreams.instant(this.#order.kind, target.provider, environment)!
    return {
      adapter,
      line: trackedLine(upstreams.line(target.provider, environment, credential?.id ?? null), onSend),
      mostMs: config.upstream.totalTimeoutMs,
      call: {
        target,
        jobId: this.id,
        input: this.#input(target, references),
        sources: sourcesOf(this.services, references),
        callbackUrl: null,
        signal,
      },
    }
  }

  /** What a quantity costs; a test key nothing. */
  #costNano({ deployment }: Target, quantity: Quantity): number {
    if (this.policy.environment === 'test') return 0
    return Number(priceNano(deployment.price, quantity, this.services.config.marginPpm))
  }
}
