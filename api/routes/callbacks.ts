import { z } from 'zod'
import { type ErrorCode, GatewayError } from '../../shared/base/errors.ts'
import { parseJson } from '../../shared/base/json.ts'
import { boundTtl } from '../../shared/io/redis.ts'
import { isCallbackToken, jobProviderOf } from '../../shared/jobs/job-provider.ts'
import type { Job } from '../../shared/jobs/jobs.ts'
import type { Platform } from '../../shared/platform.ts'
import { readJsonBody } from '../body/read-body.ts'
import { type Context, endpoint } from '../endpoint.ts'

const shared = { method: 'post', tag: 'Service', access: 'public' } as const
const answers = { 200: { description: 'Acknowledged.', schema: z.strictObject({ status: z.literal('ok') }) } }
const errors: ErrorCode[] = [
  'not_found',
  'invalid_json',
  'invalid_request',
  'request_too_large',
  'request_timeout',
  'rate_limit_exceeded',
  'unsupported_media_type',
]
const cacheS = 6 * 3_600
/** Maximum size of a provider callback: reports contain a job and its outcome, and are far smaller. */
const maxReportBytes = 256 * 1024
/** An id that a job may have. Any sender may name one, and PostgreSQL takes no NUL character. */
const jobIdForm = /^[\w-]{1,100}$/

export const jobCallback = endpoint({
  ...shared,
  path: '/callbacks/{id}/{token}',
  operationId: 'receiveJobCallback',
  summary: 'Receive a provider callback for a job',
  description: 'The URL is specific to one job, and the callback is verified by the provider’s signature.',
  answers,
  errors,
  async handle({ services, params, ctx }) {
    // The body is read only after the secret URL was verified.
    if (!(await isCallbackToken(services, params.id!, params.token!))) throw unknownCallback()
    const job = await services.jobs.read(params.id!)
    if (!job) throw unknownCallback()
    const raw = await readJsonBody(ctx.state, maxReportBytes)
    if (!(await isGenuine(services, job, raw, ctx))) throw unknownCallback()
    await services.pollSchedule.wake(job.id, services.clock.now())
    return { status: 'ok' }
  },
})

export const accountCallback = endpoint({
  ...shared,
  path: '/callbacks/{provider}',
  operationId: 'receiveProviderCallback',
  summary: 'Receive a provider callback at its registered URL',
  description: 'For providers that report to one registered URL. Verified by the provider’s signature.',
  answers,
  errors,
  async handle({ services, params, ctx }) {
    const { catalog, upstreams } = services
    const provider = catalog.providers.get(params.provider!)
    const protocol = provider && upstreams.isConfigured(provider.name, 'live') ? upstreams.protocol(provider) : null
    if (!protocol?.callbackJobId) throw unknownCallback()
    const raw = await readJsonBody(ctx.state, maxReportBytes)
    const jobId = protocol.callbackJobId(parseJson(raw, 'The body', maxReportBytes, ctx.state.heldBody))
    const job = jobId && jobIdForm.test(jobId) ? await services.jobs.read(jobId) : null
    if (job?.provider !== provider?.name || !job || !(await isGenuine(services, job, raw, ctx))) throw unknownCallback()
    await services.pollSchedule.wake(job.id, services.clock.now())
    return { status: 'ok' }
  },
})

/** Whether a callback is authentic. It only triggers a poll: the outcome is read from the provider. */
async function isGenuine(services: Platform, job: Job, raw: Buffer, ctx: Context): Promise<boolean> {
  const jobProvider = job.environment === 'live' ? await jobProviderOf(services, job) : null
  if (jobProvider === null || jobProvider === 'own_key_gone') return false
  const { verify } = jobProvider.protocol
  if (!verify) return false
  const { config, clock, redis, log } = services
  const { connection } = jobProvider
  const cacheSecret = async (name: string, load: () => Promise<string>) => {
    const key = `callback-key:${job.provider}:${job.credentialId}:${name}`
    const cached = await redis.get(key)
    if (cached !== null) {
      await boundTtl(redis, key, cacheS * 1_000)
      return cached
    }
    const loaded = await load()
    await redis.set(key, loaded, 'EX', cacheS)
    return loaded
  }
  const secret = config.providers.get(job.provider!)?.webhookSecret ?? null
  const callback = { headers: ctx.req.headers, raw, nowMs: clock.now(), secret, connection, remember: cacheSecret }
  return verify(callback).catch((error: unknown) => {
    log.warn({ err: error, job: job.id }, 'a callback could not be verified')
    return false
  })
}

function unknownCallback(): GatewayError {
  return new GatewayError('not_found', 'The callback matches no job, or its signature is invalid.')
}
