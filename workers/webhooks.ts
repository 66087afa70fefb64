import { lookup } from 'node:dns/promises'
import { presentDelayed } from '../shared/async/present.ts'
import { presentBatch } from '../shared/batches/present.ts'
import type { Batch, Job } from '../shared/generated/prisma/client.ts'
import { PinnedPools } from '../shared/io/pinned-pools.ts'
import type { Door, Resolver } from '../shared/io/safe-url.ts'
import { delayedKind } from '../shared/jobs/jobs.ts'
import { nextPauseMs, retryAfterMs } from '../shared/jobs/webhook-schedule.ts'
import { webhookSignature } from '../shared/jobs/webhook-signature.ts'
import type { AttemptResult, Claim } from '../shared/jobs/webhooks.ts'
import { signingSecrets } from '../shared/keys/webhook-secrets.ts'
import { presentJob } from '../shared/media/present.ts'
import type { Services } from '../shared/services.ts'
import { Batcher } from './batch.ts'
import { done, later, type Outcome } from './run.ts'
import { SlowOrigins } from './slow-origins.ts'
import { type Post, post, type Reply } from './webhook-post.ts'

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
  readonly #origins = new SlowOrigins()
  readonly #loading: Batcher<string, Loaded>
  readonly #recording: Batcher<AttemptResult, true>

  constructor(services: Services, { timeoutMs = 15_000 }: DeliveryOptions = {}) {
    this.#services = services
    this.#timeoutMs = timeoutMs
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
    const { clock } = this.#services
    const origin = originOf(loaded.delivery.url)
    // The claim keeps it from others meanwhile, and the delay spreads those that wait.
    if (!this.#origins.enter(origin, clock.now())) return later(this.#leaseMs * (1 + Math.random()))
    const at = new Date(clock.now())
    const tookMs = () => Math.max(0, clock.now() - at.getTime())
    let sent: { message: Post; reply: Reply }
    try {
      sent = await this.#send(loaded, at)
    } finally {
      this.#origins.leave(origin, clock.now(), tookMs())
    }
    const durationMs = tookMs()
    const { message, reply } = sent
    const { outcome, delayMs } = judge(reply, loaded.delivery.attempts + 1, clock.now())
    const nextAttemptAt = new Date(clock.now() + delayMs)
    const { status, error, response } = reply
    const came = { durationMs, status, error, response, outcome, nextAttemptAt }
    await this.#recording.add({ deliveryId: id, at, ...kept(message), ...came })
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

  async #send({ delivery, subject, secrets }: Ready, at: Date): Promise<{ message: Post; reply: Reply }> {
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
    const message = { url, headers, body }
    return { message, reply: await post(message, this.#pools, this.#rules, this.#timeoutMs) }
  }
}

/** What the log keeps of a message: nothing that could be sent again and believed. */
function kept({ headers, body }: Post): Pick<AttemptResult, 'headers' | 'body'> {
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

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : ''
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
