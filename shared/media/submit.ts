import { newId } from '../base/ids.ts'
import type { ModelRow } from '../catalog/schema.ts'
import type { Beside } from '../io/db.ts'
import { assertPublicUrl } from '../io/safe-url.ts'
import type { Job, NewJob } from '../jobs/jobs.ts'
import type { Known } from '../keys/policies.ts'
import { authorise, type Policy } from '../keys/policy.ts'
import { type QueuedKind, queuedKinds } from '../kinds/index.ts'
import type { QueuedKindRow, Quote, References } from '../kinds/media.ts'
import type { Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import type { Ticket } from '../wallet/admission.ts'
import { spenderOf } from '../wallet/spender.ts'
import { chooseTargets } from './choose.ts'
import { dropReferences, stageReferences } from './references.ts'
import { takeOn } from './take-on.ts'

/** What every kind's body has. */
type Common = { model?: string; webhook_url?: string; metadata?: Record<string, string> }
export type Submitted = { job: Job; ticket: Ticket; target: Target }
/** What a worker needs to know of a job, as its row keeps it. */
export type JobInput = { input: object; references: References }

/**
 * Takes a job on: chooses the model, brings its references into storage, prices it, reserves, and writes it with its charge
 * and whatever `beside` writes.
 * What it cannot take is refused before anything is reserved or charged. Throws GatewayErrors: 400, 401, 402, 403, 404, 413,
 * 415, 429, 503.
 */
export async function submitJob(
  services: Services,
  known: Known,
  kind: QueuedKind,
  body: Common,
  requestId: string,
  beside?: Beside<Submitted>,
): Promise<Submitted> {
  const row = queuedKinds[kind] as unknown as QueuedKindRow<Common, object>
  const choose = (policy: Policy, references: References | null) =>
    chooseTargets(services.catalog, policy, {
      slug: body.model,
      list: listOf(row),
      serves: model => model.type === row.type,
      targets: model => queuedTargets(services, kind, model, policy.environment),
      check: model => row.input(body, model, references),
    })
  await services.policies.decide(known, ({ policy, scope }) => {
    authorise(policy, scope, services.clock.now())
    return choose(policy, null)
  })
  await checkWebhook(services, body)
  await services.files.quota.assertRoom(known.policy)
  const fields = row.references(body)
  const references = await stageReferences(services, known.policy, fields)
  // Files take their time: what was just read of the key no longer is.
  if (fields.length > 0) known.fresh = ''
  const id = newId(row.idPrefix)
  const admit = async ({ policy, fresh, scope }: Known) => {
    authorise(policy, scope, services.clock.now())
    const [target] = choose(policy, references)
    const input = row.input(body, target!.model, references)
    const quote = row.quote(input, target!.deployment, services.config.marginPpm, references)
    const ticket = await services.admission.admit(spenderOf(policy), fresh, id, boundOf(quote))
    return 'stale' in ticket ? ticket : { ticket, target: target!, quote, input }
  }
  const { ticket, target, quote, input } = await services.policies.decide(known, admit).catch(async error => {
    await dropReferences(services, references)
    throw error
  })
  const submitted = (job: Job) => ({ job, ticket, target })
  const admitted = { id, requestId, body, input, references, target, quote, ticket }
  return submitted(await written(services, known.policy, kind, admitted, (tx, job) => beside?.(tx, submitted(job))))
}

/** Who serves a model of a queued kind for an environment. */
export function queuedTargets(
  { upstreams }: Services,
  kind: QueuedKind,
  model: ModelRow,
  environment: 'live' | 'test',
): Target[] {
  return upstreams.targets(model, environment).filter(({ provider }) => upstreams.queued(kind, provider, environment))
}

function listOf({ path }: { path: string }): string {
  return path.endsWith('/videos') && path !== '/v1/videos' ? path.replace('/videos', '/models') : `${path}/models`
}

async function checkWebhook({ door }: Services, { webhook_url }: Common): Promise<void> {
  if (webhook_url !== undefined) await assertPublicUrl(webhook_url, { ...door, param: 'webhook_url' })
}

function boundOf(quote: Quote) {
  const fixedNano = Number('chargeNano' in quote ? quote.chargeNano : quote.holdNano)
  return { estimatedTokens: 0, fixedNano, picoPerOutputToken: 0, outputTokens: 0, explicit: true }
}

type Admitted = {
  id: string
  requestId: string
  body: Common
  input: object
  references: References
  target: Target
  quote: Quote
  ticket: Ticket
}

/** Writes an admitted job; its money passes from the reservation to the row, and the row into the queue. */
async function written(
  services: Services,
  policy: Policy,
  kind: QueuedKind,
  admitted: Admitted,
  beside: Beside<Job>,
): Promise<Job> {
  const { clock, config } = services
  const { id, requestId, body, target, quote, ticket } = admitted
  const { organisationId, keyId, environment, capNano } = policy
  const free = environment === 'test'
  const chargeNano = 'chargeNano' in quote ? (free ? 0n : quote.chargeNano) : null
  const newJob: NewJob = {
    ...{ id, requestId, organisationId, keyId, environment, kind, chargeNano },
    model: target.model.id,
    month: ticket.month,
    capNano: capNano === null ? null : BigInt(capNano),
    holdNano: 'holdNano' in quote && !free ? quote.holdNano : 0n,
    webhookUrl: body.webhook_url ?? null,
    metadata: body.metadata ?? {},
    input: { input: admitted.input, references: admitted.references } satisfies JobInput,
    deadlineAt: new Date(clock.now() + config.jobDeadlineMs),
  }
  const job = await takeOn(services, ticket, newJob, beside)
  await services.tasks
    .add('start', id)
    .catch(error => services.log.warn({ err: error, job: id }, 'new job is queued later'))
  return job
}
