import { isObject } from '../../../base/is-object.ts'
import { unsupported } from '../../../kinds/media.ts'
import type { PollReport, QueuedAdapter, QueuedCall, Source } from '../../contract.ts'
import { invalidResponse, readOptionalNumber, readOptionalText, readText, valueAt } from '../../toolkit/json-fields.ts'
import { sourcesIn } from '../../toolkit/list-sources.ts'
import { completedReport, pendingReport, videosAt } from '../../toolkit/poll-reports.ts'
import { refusal } from '../../toolkit/refusal.ts'
import { statusFailure } from './failure.ts'

/** The only duration with references, with a last frame, and above 720p. */
const fixedSeconds = 8
const takenFiles = /^(?:start_image_url|end_image_url|input_references\.\d+)$/

const operationName = /^models\/[\w.-]{1,100}\/operations\/[\w-]{1,200}$/
const responsePath = 'response.generateVideoResponse'

/**
 * Veo (`predictLongRunning`). Images are inlined as base64. Google documents neither cancellation nor its callbacks'
 * format, so operations are only polled.
 */
export const video: QueuedAdapter<'video'> = {
  poll: { firstMs: 10_000, maxMs: 20_000 },
  async start(call, connection) {
    const settings = parameters(call)
    const body = { instances: [await instance(call)], parameters: settings }
    const path = `/v1beta/models/${call.target.deployment.upstream_model}:predictLongRunning`
    const { json } = await connection.send({ method: 'POST', path, json: body })
    return { name: nameIn(json) }
  },
  async check({ name }, connection) {
    const { json } = await connection.send({ method: 'GET', path: `/v1beta/${name}` })
    if (nameIn(json) !== name) throw invalidResponse('it is about another operation')
    return valueAt(json, 'done') === true ? reportOf(json) : pendingReport()
  },
}

/** An operation's name, which is also its polling path. */
function nameIn(json: unknown): string {
  const name = readText(json, 'name')
  if (!operationName.test(name)) throw invalidResponse('its `name` is none of an operation')
  return name
}

async function instance({ input, sources }: QueuedCall<'video'>) {
  const { prompt } = input
  const first = sources.get('start_image_url')
  const last = sources.get('end_image_url')
  const references = sourcesIn(sources, 'input_references')
  return {
    ...(prompt !== null && { prompt }),
    ...(first && { image: await inline(first) }),
    ...(last && { lastFrame: await inline(last) }),
    ...(references.length > 0 && {
      referenceImages: await Promise.all(
        references.map(async source => ({ image: await inline(source), referenceType: 'asset' })),
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

/** The result of an ended operation; the safety filter may have removed the video. */
function reportOf(json: unknown): PollReport<'video'> {
  const error = valueAt(json, 'error')
  if (isObject(error)) return { status: 'failed', error: statusFailure(error) }
  const samples = valueAt(json, `${responsePath}.generatedSamples`)
  const isEmpty = samples === undefined || (Array.isArray(samples) && samples.length === 0)
  if (isEmpty && (readOptionalNumber(json, `${responsePath}.raiMediaFilteredCount`) ?? 0) > 0) {
    const reason = readOptionalText(json, `${responsePath}.raiMediaFilteredReasons.0`)
    return { status: 'failed', error: refusal('content_filter', reason ?? 'The video was filtered.') }
  }
  return completedReport(() => videosAt(json, `${responsePath}.generatedSamples`, 'video.uri'))
}
