import { lookup } from 'node:dns/promises'
import { presentDelayed } from '../shared/async/present.ts'
import { presentBatch } from '../shared/batches/present.ts'
import type { Batch, Job } from '../shared/generated/prisma/client.ts'
import { PinnedPools } from '../shared/io/pinned-pools.ts'
import { assertPublicUrl, type CheckedUrl, type Door, type Resolver } from '../shared/io/safe-url.ts'
import { delayedKind } from '../shared/jobs/jobs.ts'
import { givenUp, maxOpenStarts } from '../shared/jobs/suspects.ts'
import { nextPauseMs, retryAfterMs } from '../shared/jobs/webhook-schedule.ts'
import { webhookSignature } from '../shared/jobs/webhook-signature.ts'
import type { AttemptResult, Claim } from '../shared/jobs/webhooks.ts'
import { signingSecrets } from '../shared/keys/webhook-secrets.ts'
import { presentJob } from '../shared/media/present.ts'
import type { Services } from '../shared/services.ts'
import { Batcher } from './batch.ts'
import { type Owner, Places } from './places.ts'
import { done, later, type Outcome, placesOf } from './run.ts'
import { SlowReceivers } from './slow-receivers.ts'
import { failed, type Post, post, type Reply } from './webhook-post.ts'

/** Beyond the time-out: for writing down what came of an attempt before anybody else may take the delivery up. */
const leaseMarginMs = 15_000
const connectTimeoutMs = 5_000
const mostBatched = 500
/** So much of what was posted is kept for the log. */
const mostKeptBytes = 16 * 1_024

type Loaded =
  | Exclude<Claim, { state: 'claimed' }>
  | (Extract<Claim, { state: 'claimed' }> & { subject: Subject; secrets: readonly string[] })
/** What an event is about. */
type Subject = { job: Job } | { batch: Batch } | { data: object }
type Ready = Extract<Loaded, { state: 'claimed' }>

/** What an attempt came to; `message` is null where nothing was sent. */
type Attempt = { message: Post | null; reply: Reply; isLast: boolean }

export type DeliveryOptions = {
  /** For one attempt in all. */
  timeoutMs?: number
}

/** Delivers webhooks (contract §8): one visit is one attempt. Reading and writing is done for many deliveries at once. */
export class WebhookDeliveries {
  readonly #services: Services
  readonly #timeoutMs: number
  readonly #rules: Door
  readonly #pools = new PinnedPools(connectTimeoutMs)
  readonly #places: Places
  readonly #receivers: SlowReceivers
  readonly #loading: Batcher<string, Loaded>
  readonly #recording: Batcher<AttemptResult, true>

  constructor(services: Services, { timeoutMs = 15_000 }: DeliveryOptions = {}) {
    this.#services = services
    this.#timeoutMs = timeoutMs
    const places = placesOf('webhooks', services.config)
    this.#places = new Places(places)
    this.#receivers = new SlowReceivers(places)
    this.#rules = { resolve: sharedLookup(), ...services.door }
    this.#loading = new Batcher(ids => this.#load(ids), mostBatched)
    this.#recording = new Batcher(async results => {
      await services.webhooks.record(results)
      return results.map(() => true)
    }, mostBatched)
  }

  /** Makes the next attempt of a delivery if it is due and nobody else does. */
  async attempt(id: string): Promise<Outcome> {
    const loaded = await this.#loading.add(id)
    if (loaded.state === 'over') return done
    if (loaded.state === 'waiting') return later(loaded.delayMs)
    const { delivery } = loaded
    const { suspects, clock } = this.#services
    const owner = ownerOf(loaded)
    const isSuspect = delivery.openStarts > 0
    if (!this.#places.hasRoom(owner) || (isSuspect && suspects.isBusy))
      return this.#later(loaded, this.#places.pauseMs(clock.now()))
    const handBack = () => this.#services.webhooks.release(delivery, this.#leaseMs)
    const outcome = await suspects.run(
      delivery.openStarts,
      () => this.#places.run(owner, () => this.#counted(loaded)),
      handBack,
    )
    // The delay spreads those that wait for a slow receiver.
    return outcome ?? this.#later(loaded, this.#leaseMs * (1 + Math.random()))
  }

  async #later({ delivery }: Ready, delayMs: number): Promise<Outcome> {
    await this.#services.webhooks.release(delivery, delayMs)
    return later(delayMs)
  }

  /** The attempt, counted if it is a suspect's; null when there is no place at its receiver. */
  async #counted(loaded: Ready): Promise<Outcome | null> {
    const { delivery } = loaded
    const { clock, webhooks } = this.#services
    const at = new Date(clock.now())
    if (delivery.openStarts >= maxOpenStarts)
      return this.#record(loaded, at, { message: null, reply: failed(new Error(givenUp.message)), isLast: true })
    if (delivery.openStarts > 0) await webhooks.begin(delivery)
    const sent = await this.#send(loaded, at)
    return sent && this.#record(loaded, at, { ...sent, isLast: false })
  }

  async #send(loaded: Ready, at: Date): Promise<{ message: Post; reply: Reply } | null> {
    const { organisationId, url } = loaded.delivery
    const { clock } = this.#services
    const entered = this.#receivers.ofOrganisation(organisationId)
    if (!this.#receivers.enter(entered, clock.now())) return null
    const startedMs = performance.now()
    try {
      const message = await this.#message(loaded, at)
      const target = await assertPublicUrl(url, this.#rules).catch(failed)
      if ('error' in target) return { message, reply: target }
      const addresses = target.addresses.map(({ address }) => address)
      const limits = this.#receivers.ofAddresses(organisationId, addresses)
      if (!this.#receivers.enter(limits, clock.now())) return null
      entered.push(...limits)
      return { message, reply: await this.#post(message, target, startedMs) }
    } finally {
      this.#receivers.leave(entered, clock.now(), clock.now() - at.getTime())
    }
  }

  #post(message: Post, target: CheckedUrl, startedMs: number): Promise<Reply> {
    const passedMs = performance.now() - startedMs
    return post(message, target, this.#pools, { timeoutMs: this.#timeoutMs, passedMs })
  }

  async #record({ delivery }: Ready, at: Date, { message, reply, isLast }: Attempt): Promise<Outcome> {
    const { clock } = this.#services
    const judged = judge(reply, delivery.attempts + 1, clock.now())
    const { outcome, delayMs } = isLast ? { outcome: 'failed' as const, delayMs: 0 } : judged
    const { status, error, response } = reply
    const nextAttemptAt = new Date(clock.now() + delayMs)
    const durationMs = Math.max(0, clock.now() - at.getTime())
    const came = { durationMs, status, error, response, outcome, nextAttemptAt }
    await this.#recording.add({ deliveryId: delivery.id, at, ...kept(message), ...came })
    return outcome === 'pending' ? later(delayMs) : done
  }

  /** Closes the connections to receivers; what is under way fails and is tried again. */
  close(): Promise<void> {
    return this.#pools.close()
  }

  get #leaseMs(): number {
    return this.#timeoutMs + leaseMarginMs
  }

  async #load(ids: string[]): Promise<Loaded[]> {
    const { db, webhooks, clock } = this.#services
    const claims = await webhooks.claim(ids, this.#leaseMs)
    const claimed = claims.flatMap(claim => (claim.state === 'claimed' ? [claim.delivery] : []))
    const organisationIds = [...new Set(claimed.map(({ organisationId }) => organisationId))]
    const [jobs, batches, secrets] = await Promise.all([
      db.job.findMany({ where: { id: { in: claimed.flatMap(({ jobId }) => jobId ?? []) } } }),
      db.batch.findMany({ where: { id: { in: claimed.flatMap(({ batchId }) => batchId ?? []) } } }),
      signingSecrets(this.#services, organisationIds, clock.now()),
    ])
    const subjects = new Map<string, Subject>([
      ...jobs.map(job => [job.id, { job }] as const),
      ...batches.map(batch => [batch.id, { batch }] as const),
    ])
    return claims.map(claim => {
      if (claim.state !== 'claimed') return claim
      const { jobId, batchId, data, organisationId } = claim.delivery
      const subject = subjects.get((jobId ?? batchId)!) ?? { data: data as object }
      return { ...claim, subject, secrets: secrets.get(organisationId)! }
    })
  }

  async #present(subject: Subject): Promise<object> {
    if ('data' in subject) return subject.data
    if ('batch' in subject) return presentBatch(this.#services, subject.batch, 'pending')
    const { job } = subject
    return (job.kind === delayedKind ? presentDelayed : presentJob)(this.#services, job, 'pending')
  }

  async #message({ delivery, subject, secrets }: Ready, at: Date): Promise<Post> {
    const { id, type, createdAt, url } = delivery
    const data = await this.#present(subject)
    const body = JSON.stringify({ type, timestamp: createdAt.toISOString(), data })
    const timestampS = Math.floor(at.getTime() / 1_000)
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'headgate',
      'webhook-id': id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': webhookSignature(secrets, id, timestampS, body),
    }
    return { url, headers, body }
  }
}

/** What the log keeps of a message: nothing that could be sent again and believed. */
function kept(message: Post | null): Pick<AttemptResult, 'headers' | 'body'> {
  if (!message) return { headers: null, body: null }
  const { headers, body } = message
  const shortened = headers['webhook-signature']!.replace(/(v1,.{6})\S*/g, '$1…')
  return {
    headers: { ...headers, 'webhook-signature': shortened },
    body: Buffer.from(body.slice(0, mostKeptBytes)).subarray(0, mostKeptBytes).toString(),
  }
}

/** What an answer means for its delivery: it was taken, it is never wanted again, or it is tried once more. */
function judge(
  { status, retryAfter }: Reply,
  attempts: number,
  nowMs: number,
): { outcome: AttemptResult['outcome']; delayMs: number } {
  if (status !== null && status >= 200 && status < 300) return { outcome: 'delivered', delayMs: 0 }
  const delayMs =
    status === 410 ? null : nextPauseMs(attempts, retryAfter === null ? 0 : retryAfterMs(retryAfter, nowMs))
  return delayMs === null ? { outcome: 'failed', delayMs: 0 } : { outcome: 'pending', delayMs }
}

function ownerOf({ delivery: { organisationId }, subject }: Ready): Owner {
  const of = 'job' in subject ? subject.job : 'batch' in subject ? subject.batch : null
  return { organisationId, environment: of?.environment ?? 'live' }
}

/** The system's resolver, asked once for a name however many attempts want it at the same moment. */
function sharedLookup(): Resolver {
  const asking = new Map<string, ReturnType<Resolver>>()
  return hostname => {
    const known = asking.get(hostname)
    if (known) return known
    const found = lookup(hostname, { all: true, verbatim: true }).finally(() => asking.delete(hostname))
    asking.set(hostname, found)
    return found
  }
}
