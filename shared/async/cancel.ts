import { GatewayError } from '../base/errors.ts'
import { abandonedUsage, broughtBy } from '../chat/abandoned.ts'
import { chargeNano, marginOf } from '../chat/pricing.ts'
import { callOf, type DelayedInput, type DelayedJob } from '../jobs/delayed.ts'
import type { End, Job } from '../jobs/jobs.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import { chatFeatures } from '../kinds/features.ts'
import { endJob } from '../media/end.ts'
import type { Services } from '../services.ts'

const maxTries = 10
/** The end of a job that no provider was asked for. */
const uncharged: End = { status: 'cancelled', logStatus: 499, refund: true }

/**
 * Cancels a job, and cuts off a call under way. Nothing is charged before a provider was asked; after that what the call is
 * taken to have used by now, within the job's hold. Throws a GatewayError 409 when it is over.
 */
export async function cancelDelayed(services: Services, id: string): Promise<DelayedJob> {
  for (let tries = 0; tries < maxTries; tries++) {
    const job = await services.jobs.read(id)
    if (!job || job.stage === 'over') break
    // A job that goes on meanwhile is looked at again.
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
  const { body: text, discountPpm, outputTokens } = job.input as DelayedInput
  const body = JSON.parse(text) as ChatRequest
  const features = chatFeatures(body, Buffer.byteLength(text))
  const usage = await abandonedUsage({
    ...({ kind: 'chat', body, features, target } as const),
    elapsedMs: Math.max(0, clock.now() - call.atMs),
    tokensPerSecond: upstreams.figures(target).tokensPerSecond,
    maxOutputTokens: outputTokens * features.choices,
    ...(await broughtBy(null)),
    hidesOutput: true,
  })
  const costNano = BigInt(chargeNano(target.deployment, usage, marginOf(config, 'chat', BigInt(discountPpm))))
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage
  return {
    ...({ status: 'cancelled', logStatus: 499, refund: false } as const),
    costNano: costNano < job.holdNano ? costNano : job.holdNano,
    call: {
      ...{ model: call.model, provider: call.provider, mode: null, upstreamId: null, finishReason: null },
      ...{ attempts: job.attempts, promptTokens, completionTokens, cachedTokens: 0, reasoningTokens: 0 },
      ...{ estimated: true, firstByteMs: null },
    },
  }
}
