import { GatewayError } from '../base/errors.ts'
import { estimateAbandonedUsage, readDelivered } from '../chat/abandoned-usage.ts'
import { endJob } from '../jobs/end.ts'
import { chargeNano, marginOf } from '../routing/pricing.ts'
import type { Services } from '../services.ts'
import { callOf, type DelayedInput, type DelayedJob } from '../store/delayed-jobs.ts'
import type { End, Job } from '../store/jobs.ts'
import { readWork } from './input.ts'

const maxTries = 10
/** The end of a job for which no provider was called. */
const uncharged: End = { status: 'cancelled', logStatus: 499, refund: true }

/**
 * Cancels a job, and aborts a call under way. Nothing is charged before a provider was called; after that the call's
 * estimated usage so far, capped by the job's hold. Throws a GatewayError 409 when it is over.
 */
export async function cancelDelayed(services: Services, id: string): Promise<DelayedJob> {
  for (let tries = 0; tries < maxTries; tries++) {
    const job = await services.jobs.read(id)
    if (!job || job.stage === 'over') break
    // If its stage changed in the meantime, it is read again.
    const ended = await endJob(services, id, await endOf(services, job), job.stage)
    if (ended) return ended
  }
  throw new GatewayError('not_cancellable', 'This job is over; it can no longer be cancelled.')
}

async function endOf({ catalog, upstreams, clock, config }: Services, job: Job): Promise<End> {
  const call = job.stage === 'running' && job.environment === 'live' ? callOf(job) : null
  const model = call && catalog.models.get(call.model)
  const offer = model && catalog.targets(model).find(({ provider }) => provider.name === call.provider)
  if (!offer) return uncharged
  const target = { model, ...offer }
  const { discountPpm, outputTokens } = job.input as DelayedInput
  const { kind, body, features } = readWork(job)
  const usage = await estimateAbandonedUsage({
    ...{ kind, body, features, target },
    elapsedMs: Math.max(0, clock.now() - call.atMs),
    tokensPerSecond: upstreams.figures(target).tokensPerSecond,
    maxOutputTokens: outputTokens * features.choices,
    ...(await readDelivered(null)),
    hidesOutput: true,
  })
  const marginPpm = marginOf(config, kind, BigInt(discountPpm))
  const costNano = BigInt(chargeNano(target.deployment, usage, marginPpm))
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage
  return {
    ...({ status: 'cancelled', logStatus: 499, refund: false } as const),
    costNano: costNano < job.holdNano ? costNano : job.holdNano,
    discountPpm,
    call: {
      ...{ model: call.model, provider: call.provider, promptTokens, completionTokens, estimated: true },
      marginPpm: Number(marginPpm),
    },
  }
}
