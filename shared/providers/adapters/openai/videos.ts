import { isObject } from '../../../base/is-object.ts'
import { unsupported } from '../../../kinds/media.ts'
import type {
  FormPart,
  Operation,
  PollReport,
  ProviderCallback,
  ProviderConnection,
  ProviderRequest,
  QueuedAdapter,
  QueuedCall,
  Source,
} from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import { header, isFresh, isHmac } from '../../toolkit/callback-signatures.ts'
import { classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import {
  invalidResponse,
  readHandle,
  readOptionalAmount,
  readOptionalNumber,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'
import { completedReport, noInvoice, pendingReport, videoAt, videosAt } from '../../toolkit/poll-reports.ts'
import { refusal } from '../../toolkit/refusal.ts'
import { reportedFailure } from './failure.ts'

type VideoCall = QueuedCall<'video'>
type Dialect = {
  request(call: VideoCall): Promise<ProviderRequest>
  report(json: unknown, connection: ProviderConnection): PollReport<'video'>
}

/**
 * `POST /videos` and `GET /videos/{id}` in OpenRouter's format (JSON, references, callbacks) or in OpenAI's former one
 * (multipart, one image), as the provider's quirk `videos` says. Neither has cancellation.
 */
export const videos: QueuedAdapter<'video'> = {
  // OpenRouter recommends polling every 30 seconds.
  poll: { firstMs: 15_000, maxMs: 30_000 },
  async start(call, connection) {
    const { json } = await connection.send(await dialectOf(connection).request(call))
    return { id: readHandle(json, 'id') }
  },
  async check({ id }: Operation, connection) {
    const { json } = await connection.send({ method: 'GET', path: `/videos/${id}` })
    return dialectOf(connection).report(json, connection)
  },
}

const maxInlineBytes = 4 * 1024 * 1024

const openrouter: Dialect = {
  async request(call) {
    const { input, target, callbackUrl } = call
    refuseFields(call, {
      negative_prompt: input.negativePrompt !== null,
      input_video_url: call.sources.has('input_video_url'),
    })
    const frames = [
      ...(await parts(call, 'start_image_url', 'image_url', { frame_type: 'first_frame' })),
      ...(await parts(call, 'end_image_url', 'image_url', { frame_type: 'last_frame' })),
    ]
    const references = [
      ...(await parts(call, 'input_references', 'image_url')),
      ...(await parts(call, 'input_video_references', 'video_url')),
      ...(await parts(call, 'input_audio_references', 'audio_url')),
    ]
    const json = {
      model: target.deployment.upstream_model,
      prompt: promptOf(call),
      duration: input.seconds,
      ...(input.resolution !== null && { resolution: input.resolution.replace('k', 'K') }),
      ...(input.aspectRatio !== null && { aspect_ratio: input.aspectRatio }),
      ...(frames.length > 0 && { frame_images: frames }),
      ...(references.length > 0 && { input_references: references }),
      ...(input.audio !== null && { generate_audio: input.audio }),
      ...(input.seed !== null && { seed: input.seed }),
      ...(callbackUrl !== null && { callback_url: callbackUrl }),
    }
    return { method: 'POST', path: '/videos', json }
  },
  report(json, connection) {
    const status = readText(json, 'status')
    if (status === 'pending' || status === 'in_progress') return pendingReport()
    if (status === 'failed') return { status: 'failed', error: errorIn(json) }
    if (status === 'cancelled' || status === 'expired')
      return { status: 'failed', error: refusal('server_error', `The provider reports the work as ${status}.`) }
    if (status !== 'completed') throw invalidResponse('it has an unknown `status`')
    const id = readHandle(json, 'id')
    const content = { url: `${connection.baseUrl}/videos/${id}/content?index=0` }
    return completedReport(
      () =>
        valueAt(json, 'unsigned_urls.0') === undefined ? videoAt(content, 'url') : videosAt(json, 'unsigned_urls', ''),
      // OpenRouter's charge in dollars; a video's price was fixed at its start.
      () => ({ ...noInvoice, credits: readOptionalAmount(json, 'usage.cost') }),
    )
  },
}

const openai: Dialect = {
  async request(call) {
    const { input, target, sources } = call
    refuseFields(call, {
      negative_prompt: input.negativePrompt !== null,
      seed: input.seed !== null,
      audio: input.audio === false,
      // OpenAI has a field for the size only.
      aspect_ratio: input.aspectRatio !== null && input.resolution === null,
      end_image_url: sources.has('end_image_url'),
      input_references: input.mode === 'reference',
      input_video_url: sources.has('input_video_url'),
    })
    const size = sizeOf(input.resolution, input.aspectRatio)
    const image = sources.get('start_image_url')
    const parts: FormPart[] = [
      { name: 'model', value: target.deployment.upstream_model },
      { name: 'prompt', value: promptOf(call) },
      { name: 'seconds', value: String(input.seconds) },
      ...(size ? [{ name: 'size', value: size }] : []),
      ...(image ? [{ name: 'input_reference', file: image }] : []),
    ]
    return { method: 'POST', path: '/videos', parts }
  },
  report(json, connection) {
    const status = readText(json, 'status')
    if (status === 'queued' || status === 'in_progress') return pendingReport(readOptionalNumber(json, 'progress') ?? 0)
    if (status === 'failed') return { status: 'failed', error: errorIn(json) }
    if (status !== 'completed') throw invalidResponse('it has an unknown `status`')
    const content = { url: `${connection.baseUrl}/videos/${readHandle(json, 'id')}/content` }
    return completedReport(
      () => videoAt(content, 'url', readOptionalAmount(json, 'seconds')),
      ({ durationS }) => ({ ...noInvoice, seconds: durationS }),
    )
  },
}

const dialects: Record<string, Dialect> = { openrouter, openai }

function dialectOf({ provider }: ProviderConnection): Dialect {
  const dialect = dialects[provider.quirks?.videos ?? '']
  if (!dialect) throw new ProviderError('model_unavailable', 'The provider has no videos.', { unsent: true })
  return dialect
}

/** Throws 400 for the first of these fields that is set and cannot be expressed. */
function refuseFields({ target: { model, provider } }: VideoCall, fields: Record<string, boolean>): void {
  for (const [param, used] of Object.entries(fields))
    if (used) throw unsupported(model, param, `at ${provider.name} does not take \`${param}\``)
}

/** Both formats require one. Throws 400 without it. */
function promptOf({ input: { prompt }, target: { model, provider } }: VideoCall): string {
  if (prompt === null) throw unsupported(model, 'prompt', `at ${provider.name} needs a \`prompt\``)
  return prompt
}

/** The file of a field, or the files of a list field, as content parts. */
async function parts(call: VideoCall, field: string, type: 'image_url' | 'video_url' | 'audio_url', more: object = {}) {
  const part = async (source: Source) => {
    const url = source.bytes <= maxInlineBytes ? await source.link() : await source.url()
    return { type, [type]: { url }, ...more }
  }
  const single = call.sources.get(field)
  return Promise.all((single ? [single] : sourcesIn(call.sources, field)).map(part))
}

/** `WIDTHxHEIGHT` of a resolution (its shorter side) and a ratio (16:9 by default); null = the model's default. */
function sizeOf(resolution: string | null, aspectRatio: string | null): string | null {
  const short =
    resolution === null ? Number.NaN : Number.parseInt(resolution, 10) * (resolution.endsWith('k') ? 540 : 1)
  if (Number.isNaN(short)) return null
  const [width, height] = (aspectRatio ?? '16:9').split(':').map(Number) as [number, number]
  const long = 2 * Math.round((short * Math.max(width, height)) / Math.min(width, height) / 2)
  return width >= height ? `${long}x${short}` : `${short}x${long}`
}

/** OpenRouter's `error` is a string, OpenAI's an object. */
function errorIn(json: unknown): ProviderError {
  const error = valueAt(json, 'error')
  return isObject(error) ? reportedFailure({ error }) : classifyWorkFailure(readOptionalText(json, 'error'))
}

/** OpenRouter's `X-OpenRouter-Signature: t=<seconds>,v1=<hex>` over `<t>,<body>`; needs the workspace's signing secret. */
export async function verify({ headers, raw, nowMs, secret, connection }: ProviderCallback): Promise<boolean> {
  if (connection.provider.quirks?.videos !== 'openrouter' || secret === null) return false
  const signature = header(headers, 'x-openrouter-signature') ?? ''
  const [, timestamp, hex] = /^t=(\d{1,12}),\s?v1=([\da-f]{64})$/.exec(signature) ?? []
  if (!timestamp || !hex || !isFresh(timestamp, nowMs)) return false
  return isHmac(hex, 'hex', secret, `${timestamp},`, raw)
}
