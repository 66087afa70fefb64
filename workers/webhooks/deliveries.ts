import { lookup } from 'node:dns/promises'
import { type RuleEvent, ruleText } from '../../shared/alerts/rule-events.ts'
import { listSlackTargets, type SlackTarget } from '../../shared/alerts/rules.ts'
import { redactMessage } from '../../shared/base/redact.ts'
import { elapsedMs, type MonotonicMs } from '../../shared/base/time.ts'
import { presentBatch } from '../../shared/batches/present.ts'
import { presentDelayed } from '../../shared/delayed/present.ts'
import type { Batch, Job } from '../../shared/generated/prisma/client.ts'
import { isSuccess } from '../../shared/io/http.ts'
import { PinnedPools } from '../../shared/io/pinned-pools.ts'
import { assertPublicUrl, type CheckedUrl, type Resolver, type UrlPolicy } from '../../shared/io/safe-url.ts'
import type { JobServices } from '../../shared/jobs/job-services.ts'
import { delayedKind } from '../../shared/jobs/jobs.ts'
import { presentJob } from '../../shared/jobs/present.ts'
import { maxOpenStarts, poisonError } from '../../shared/queues/crash-suspect-limiter.ts'
import { deliveryAttributes } from '../../shared/traces/attributes.ts'
import { SpanKind } from '../../shared/traces/trace.ts'
import { failedReply, postWebhook, type Reply } from '../../shared/webhooks/post.ts'
import { nextPauseMs, retryAfterMs } from '../../shared/webhooks/schedule.ts'
import { type SigningSecrets, signatureHeaders } from '../../shared/webhooks/secrets.ts'
import { type Post, slackMessage } from '../../shared/webhooks/slack.ts'
import type { AttemptResult, Claim } from '../../shared/webhooks/webhooks.ts'
import { done, type Outcome, retryIn, slotsOf } from '../run-queue.ts'
import { type Owner, WorkerSlots } from '../worker-slots.ts'
import { Batcher } from './batcher.ts'
import { SlowReceivers } from './slow-receivers.ts'

/** Lease time beyond the timeout, for recording the attempt before another worker may claim the delivery. */
const leaseMarginMs = 15_000
const connectTimeoutMs = 5_000
const maxBatched = 500
/** How much of a request body is read for the log: a secret at the end of what is stored is read as a whole. */
const maxReadCharacters = 32 * 1024
/** How much of a request body is stored in the log. */
const maxLoggedBytes = 16 * 1_024

type Loaded =
  | Exclude<Claim, { state: 'claimed' }>
  | (Extract<Claim, { state: 'claimed' }> & { subject: Subject; secrets: SigningSecrets; slack: SlackTarget | null })
/** The subject of an event. */
type Subject = { job: Job } | { batch: Batch } | { data: object }
type Ready = Extract<Loaded, { state: 'claimed' }>

function traceparentOf(subject: Subject): string | null {
  if ('job' in subject) return subject.job.traceparent
  return 'batch' in subject ? subject.batch.traceparent : null
}

/** When an attempt began: its date, and the time from which its duration is measured. */
type Begin = { at: Date; startedMs: MonotonicMs }
/** The outcome of an attempt; `message` is null if nothing was sent. */
type Attempt = Sent & { isLast: boolean }
type Sent = { message: Post | null; reply: Reply }

type DeliveryOptions = {
  /** Total timeout of one attempt. */
  timeoutMs?: number
}

/** Delivers webhooks (docs/webhooks.md): one queue entry is one attempt. Database reads and writes are batched. */
export class WebhookDeliveries {
  readonly #services: JobServices
  readonly #timeoutMs: number
  readonly #rules: UrlPolicy
  readonly #pools: PinnedPools
  readonly #slots: WorkerSlots
  readonly #receivers: SlowReceivers
  readonly #loading: Batcher<string, Loaded>
  readonly #recording: Batcher<AttemptResult, true>

  constructor(services: JobServices, { timeoutMs = 15_000 }: DeliveryOptions = {}) {
    this.#services = services
    this.#timeoutMs = timeoutMs
    const slots = slotsOf('webhooks', services.config)
    this.#slots = new WorkerSlots(slots)
    this.#receivers = new SlowReceivers(slots)
    this.#rules = { resolve: sharedLookup(), ...services.urlPolicy }
    this.#pools = new PinnedPools(connectTimeoutMs, services.urlPolicy.proxies)
    this.#loading = new Batcher(ids => this.#load(ids), maxBatched)
    this.#recording = new Batcher(async results => {
      await services.webhooks.record(results)
      return results.map(() => true)
    }, maxBatched)
  }

  /** Makes the next attempt of a delivery if it is due and not claimed elsewhere. */
  async attempt(id: string): Promise<Outcome> {
    const loaded = await this.#loading.add(id)
    if (loaded.state === 'over') return done
    if (loaded.state === 'waiting') return retryIn(loaded.delayMs)
    const { delivery } = loaded
    const { crashSuspects, monotonic } = this.#services
    const owner = ownerOf(loaded)
    const isSuspect = delivery.openStarts > 0
    if (!this.#slots.hasRoom(owner) || (isSuspect && crashSuspects.isBusy))
      return this.#releaseFor(loaded, this.#slots.pauseMs(monotonic.now()))
    const uncount = () => this.#services.webhooks.release(delivery, this.#leaseMs)
    const outcome = await crashSuspects.run(
      delivery.openStarts,
      () => this.#slots.run(owner, () => this.#countAndSend(loaded)),
      uncount,
    )
    // The random delay spreads deliveries that wait for a slow receiver.
    return outcome ?? this.#releaseFor(loaded, this.#leaseMs * (1 + Math.random()))
  }

  async #releaseFor({ delivery }: Ready, delayMs: number): Promise<Outcome> {
    await this.#services.webhooks.release(delivery, delayMs)
    return retryIn(delayMs)
  }

  /** Makes the attempt, counting it first for a suspect; null when the receiver's limit is reached. */
  async #countAndSend(loaded: Ready): Promise<Outcome | null> {
    const { delivery } = loaded
    const { clock, monotonic, webhooks } = this.#services
    const begin = { at: new Date(clock.now()), startedMs: monotonic.now() }
    if (delivery.openStarts >= maxOpenStarts)
      return this.#record(loaded, begin, {
        message: null,
        reply: failedReply(new Error(poisonError.message)),
        isLast: true,
      })
    if (delivery.openStarts > 0) await webhooks.begin(delivery)
    const sent = await this.#send(loaded, begin)
    return sent && this.#record(loaded, begin, { ...sent, isLast: false })
  }

  async #send(loaded: Ready, { at, startedMs }: Begin): Promise<Sent | null> {
    const { id, organisationId } = loaded.delivery
    const { monotonic, log } = this.#services
    const entered = this.#receivers.ofOrganisation(organisationId)
    if (!this.#receivers.enter(entered, monotonic.now())) return null
    try {
      const message = await this.#message(loaded, at).catch((err: unknown) => {
        log.warn({ err, delivery: id }, 'the event of a webhook cannot be read')
        return null
      })
      // Recorded as a failed attempt: one that is left open would count as a crash of its worker.
      if (!message) return { message, reply: failedReply(new Error('the gateway could not read the event')) }
      const target = await assertPublicUrl(message.url, this.#rules).catch(failedReply)
      if ('error' in target) return { message, reply: target }
      const addresses = target.addresses.map(({ address }) => address)
      const limits = this.#receivers.ofAddresses(organisationId, addresses)
      if (!this.#receivers.enter(limits, monotonic.now())) return null
      entered.push(...limits)
      return { message, reply: await this.#tracePost(loaded, message, target, startedMs) }
    } finally {
      const endedMs = monotonic.now()
      this.#receivers.leave(entered, endedMs, elapsedMs(startedMs, endedMs))
    }
  }

  /** Posts in the trace of the job or batch. */
  async #tracePost(
    { delivery, subject }: Ready,
    message: Post,
    target: CheckedUrl,
    startedMs: MonotonicMs,
  ): Promise<Reply> {
    const { id, type, attempts } = delivery
    const traceparent = traceparentOf(subject)
    const attributes = deliveryAttributes(id, type, target.url.hostname, attempts + 1)
    const trace = this.#services.tracing?.resume(traceparent, `POST ${type}`, SpanKind.CLIENT, attributes)
    if (!trace) return this.#post(message, target, startedMs)
    const headers = { ...message.headers, traceparent: trace.root.traceparent }
    const reply = await this.#post({ ...message, headers }, target, startedMs)
    if (reply.status !== null) trace.root.set({ 'http.response.status_code': reply.status })
    trace.end(reply.error ? 'connection' : (reply.status ?? 0) >= 400 ? String(reply.status) : null)
    return reply
  }

  #post(message: Post, target: CheckedUrl, startedMs: MonotonicMs): Promise<Reply> {
    const passedMs = elapsedMs(startedMs, this.#services.monotonic.now())
    return postWebhook(message, target, this.#pools, { timeoutMs: this.#timeoutMs, passedMs })
  }

  async #record({ delivery }: Ready, { at, startedMs }: Begin, { message, reply, isLast }: Attempt): Promise<Outcome> {
    const { clock, monotonic, metrics } = this.#services
    const decision = decideNext(reply, delivery.attempts + 1, clock.now())
    const { outcome, delayMs } = isLast ? { outcome: 'failed' as const, delayMs: 0 } : decision
    const { status, error, response } = reply
    await this.#recording.add({
      deliveryId: delivery.id,
      at,
      ...redact(message),
      durationMs: elapsedMs(startedMs, monotonic.now()),
      status,
      error,
      response,
      outcome,
      nextAttemptAt: new Date(clock.now() + delayMs),
    })
    metrics?.recordDelivery(outcome === 'pending' ? 'retried' : outcome)
    return outcome === 'pending' ? retryIn(delayMs) : done
  }

  /** Closes the connections to receivers; attempts under way fail and are retried. */
  close(): Promise<void> {
    return this.#pools.close()
  }

  get #leaseMs(): number {
    return this.#timeoutMs + leaseMarginMs
  }

  async #load(ids: string[]): Promise<Loaded[]> {
    const { db, webhooks } = this.#services
    const claims = await webhooks.claim(ids, this.#leaseMs)
    const claimed = claims.flatMap(claim => (claim.state === 'claimed' ? [claim.delivery] : []))
    const [jobs, batches, signing, slack] = await Promise.all([
      db.job.findMany({ where: { id: { in: claimed.flatMap(({ jobId }) => jobId ?? []) } } }),
      db.batch.findMany({ where: { id: { in: claimed.flatMap(({ batchId }) => batchId ?? []) } } }),
      this.#services.webhookEndpoints.listDeliverySecrets(claimed),
      listSlackTargets(this.#services, claimed),
    ])
    const subjects = new Map<string, Subject>([
      ...jobs.map(job => [job.id, { job }] as const),
      ...batches.map(batch => [batch.id, { batch }] as const),
    ])
    const secrets = new Map(claimed.map(({ id }, i) => [id, signing[i]!]))
    return claims.map(claim => {
      if (claim.state !== 'claimed') return claim
      const { id, jobId, batchId, alertRuleId, data } = claim.delivery
      const subject = subjects.get((jobId ?? batchId)!) ?? { data: data as object }
      return { ...claim, subject, secrets: secrets.get(id)!, slack: slack.get(alertRuleId!) ?? null }
    })
  }

  async #present(subject: Subject): Promise<object> {
    if ('data' in subject) return subject.data
    if ('batch' in subject) return presentBatch(this.#services, subject.batch, 'pending')
    const { job } = subject
    return (job.kind === delayedKind ? presentDelayed : presentJob)(this.#services, job, 'pending')
  }

  async #message({ delivery, subject, secrets, slack }: Ready, at: Date): Promise<Post> {
    const { id, type, createdAt, url, organisationId } = delivery
    const data = await this.#present(subject)
    if (slack) {
      const { subject, text, path } = ruleText(data as RuleEvent, slack.organisation)
      const link = `${this.#services.config.publicUrl}/dashboard/${organisationId}/${path}`
      return slackMessage(slack.url(), { subject, text, link })
    }
    const body = JSON.stringify({ type, timestamp: createdAt.toISOString(), data })
    const signed = signatureHeaders(secrets(), id, at.getTime(), body)
    const headers = { 'content-type': 'application/json', 'user-agent': 'headgate', ...signed }
    return { url, headers, body }
  }
}

/** The logged part of a message, with a shortened signature, so that it cannot be replayed. */
function redact(message: Post | null): Pick<AttemptResult, 'headers' | 'body'> {
  if (!message) return { headers: null, body: null }
  const { headers, body } = message
  const shortened = headers['webhook-signature']?.replace(/(v1,.{6})\S*/g, '$1…')
  return {
    headers: { ...headers, ...(shortened && { 'webhook-signature': shortened }) },
    body: Buffer.from(redactMessage(body.slice(0, maxReadCharacters)))
      .subarray(0, maxLoggedBytes)
      .toString(),
  }
}

/** The next state of a delivery after a reply: delivered, failed for good (410 or no attempts left), or retried. */
function decideNext(
  { status, retryAfter }: Reply,
  attempts: number,
  nowMs: number,
): { outcome: AttemptResult['outcome']; delayMs: number } {
  if (status !== null && isSuccess(status)) return { outcome: 'delivered', delayMs: 0 }
  const delayMs =
    status === 410 ? null : nextPauseMs(attempts, retryAfter === null ? 0 : retryAfterMs(retryAfter, nowMs))
  return delayMs === null ? { outcome: 'failed', delayMs: 0 } : { outcome: 'pending', delayMs }
}

function ownerOf({ delivery: { organisationId }, subject }: Ready): Owner {
  const of = 'job' in subject ? subject.job : 'batch' in subject ? subject.batch : null
  return { organisationId, environment: of?.environment ?? 'live' }
}

/** The system's resolver; concurrent lookups of the same name share one query. */
function sharedLookup(): Resolver {
  const pending = new Map<string, ReturnType<Resolver>>()
  return hostname => {
    const shared = pending.get(hostname)
    if (shared) return shared
    const query = lookup(hostname, { all: true, verbatim: true }).finally(() => pending.delete(hostname))
    pending.set(hostname, query)
    return query
  }
}
