import { z } from 'zod'
import { unsupported } from '../../kinds/media.ts'
import {
  type Operation,
  ProviderError,
  type QueuedAdapter,
  type QueuedCall,
  type Report,
  type Source,
} from '../contract.ts'
import { failure } from './failure.ts'

/** Videos of one length only: with references, with a last frame, and above 720p. */
const fixedSeconds = 8
const takenFiles = /^(?:start_image_url|end_image_url|input_references\.\d+)$/
const longestReason = 1_000

/** HTTP statuses of the google.rpc codes that operations end with. */
const httpStatus: Record<number, number> = { 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401 }
const refusedByPolicy = /usage guidelines|responsible ai|safety|prohibited/i

const operationName = z.string().regex(/^models\/[\w.-]{1,100}\/operations\/[\w-]{1,200}$/)
const started = z.object({ name: operationName })
const looked = z.object({
  name: operationName,
  done: z.boolean().optional(),
  error: z.object({ code: z.int(), message: z.string().catch(''), status: z.string().optional() }).optional(),
  response: z
    .object({
      generateVideoResponse: z.object({
        generatedSamples: z.array(z.object({ video: z.object({ uri: z.url({ protocol: /^https?$/ }) }) })).optional(),
        raiMediaFilteredCount: z.int().optional(),
        raiMediaFilteredReasons: z.array(z.string()).optional(),
      }),
    })
    .optional(),
})

/**
 * Veo (`predictLongRunning`). Images go along as base64. Google documents neither a way to cancel nor the form of its
 * callbacks, so operations are only looked at.
 */
export const video: QueuedAdapter<'video'> = {
  poll: { firstMs: 10_000, mostMs: 20_000 },
  async start(call, line) {
    const settings = parameters(call)
    const body = { instances: [await instance(call)], parameters: settings }
    const path = `/v1beta/models/${call.target.deployment.upstream_model}:predictLongRunning`
    const { json } = await line.send({ method: 'POST', path, json: body })
    return understood(started, json)
  },
  async check(operation, line) {
    const { json } = await line.send({ method: 'GET', path: `/v1beta/${operation.name}` })
    const answer = understood(looked, json)
    if (answer.name !== operation.name) throw notUnderstood('name')
    return answer.done ? ended(answer) : { status: 'pending', progress: null }
  },
}

async function instance({ input, sources }: QueuedCall<'video'>) {
  const { prompt } = input
  const first = sources.get('start_image_url')
  const last = sources.get('end_image_url')
  const references = [...sources].filter(([field]) => field.startsWith('input_references.'))
  return {
    ...(prompt !== null && { prompt }),
    ...(first && { image: await inline(first) }),
    ...(last && { lastFrame: await inline(last) }),
    ...(references.length > 0 && {
      referenceImages: await Promise.all(
        references.map(async ([, source]) => ({ image: await inline(source), referenceType: 'asset' })),
      ),
    }),
  }
}

async function inline(source: Source) {
  return { bytesBase64Encoded: await source.base64(), mimeType: source.contentType }
}

function parameters({ input, target: { model }, sources }: QueuedCall<'video'>) {
  const { mode, seconds, resolution, aspectRatio, negativePrompt } = input
  const stranger = [...sources.keys()].find(field => !takenFiles.test(field))
  if (stranger) throw unsupported(model, stranger, `does not take \`${stranger.split('.')[0]}\` at this provider`)
  const fixed = mode === 'reference' || sources.has('end_image_url') || (resolution !== null && resolution !== '720p')
  if (fixed && seconds !== fixedSeconds)
    throw unsupported(
      model,
      'seconds',
      `takes references, a last frame and resolutions above 720p with ${fixedSeconds} seconds only`,
    )
  if (input.audio === false) throw unsupported(model, 'audio', 'always gives sound at this provider')
  if (input.seed !== null) throw unsupported(model, 'seed', 'does not take `seed` at this provider')
  return {
    sampleCount: 1,
    durationSeconds: seconds,
    ...(resolution !== null && { resolution }),
    ...(aspectRatio !== null && { aspectRatio }),
    ...(negativePrompt !== null && { negativePrompt }),
  }
}

function ended({ error, response }: z.infer<typeof looked>): Report<'video'> {
  if (error) return { status: 'failed', error: faultOf(error) }
  const {
    generatedSamples = [],
    raiMediaFilteredCount = 0,
    raiMediaFilteredReasons = [],
  } = response?.generateVideoResponse ?? {}
  if (generatedSamples.length > 0) {
    const files = generatedSamples.map(({ video: { uri } }) => ({ role: 'video' as const, url: uri }))
    return { status: 'completed', output: { files, durationS: null }, invoice: { seconds: null, credits: null } }
  }
  if (raiMediaFilteredCount === 0) throw notUnderstood('response')
  const reason = raiMediaFilteredReasons.join(' ').slice(0, longestReason)
  return { status: 'failed', error: new ProviderError('content_filter', reason || 'The video was filtered.') }
}

function faultOf(error: { code: number; message: string }): ProviderError {
  const status = httpStatus[error.code] ?? (error.code >= 400 ? error.code : 500)
  const fault = failure(status, {}, JSON.stringify({ error }))
  const refused = fault.reason === 'invalid_request' && refusedByPolicy.test(error.message)
  return refused ? new ProviderError('content_filter', fault.message, { status }) : fault
}

function understood<T extends Operation | z.infer<typeof looked>>(schema: z.ZodType<T>, json: unknown): T {
  const result = schema.safeParse(json)
  if (result.success) return result.data
  throw notUnderstood(result.error.issues[0]?.path.join('.') ?? '')
}

function notUnderstood(path: string): ProviderError {
  return new ProviderError('invalid_response', `Veo's answer is not understood at "${path}"`)
}
