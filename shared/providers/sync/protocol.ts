import { unsupported } from '../../kinds/media.ts'
import type { Operation, Protocol, ProviderLine, QueuedAdapter, QueuedCall, Report } from '../contract.ts'
import { at, type Headers, handle, invalid, optionalAmount, optionalText, parsed, text } from '../fields.ts'
import { completion, noInvoice, pending, videoAt } from '../reports.ts'
import { assertOneResolution } from '../resolution.ts'
import { refusalInWords, workFailure } from '../words.ts'

const lipsync: QueuedAdapter<'lipsync'> = { poll: { firstMs: 5_000, mostMs: 10_000 }, start, check }

/**
 * Sync's API v2 (as the npm package @sync.so/sdk has it). The trait `sync_mode` says what happens where audio and video
 * differ in length, `loop` by default. How it signs callbacks is not published, so none are asked for.
 */
export const sync: Protocol = { direct: {}, queued: { lipsync }, failure }

async function start(call: QueuedCall<'lipsync'>, line: ProviderLine): Promise<Operation> {
  const { json } = await line.send({ method: 'POST', path: '/v2/generate', json: await generation(call) })
  return { id: handle(json, 'id') }
}

async function generation({ target, jobId, input, sources }: QueuedCall<'lipsync'>): Promise<object> {
  const { model, deployment } = target
  const [video, audio] = [sources.get('video_url'), sources.get('audio_url')]
  if (!video || !audio) throw unsupported(model, 'image_url', 'takes `video_url` with `audio_url`')
  assertOneResolution(target)
  return {
    model: deployment.upstream_model,
    input: [
      { type: 'video', url: await video.url() },
      { type: 'audio', url: await audio.url() },
    ],
    options: { sync_mode: deployment.traits?.sync_mode ?? 'loop', ...(input.prompt && { prompt: input.prompt }) },
    outputFileName: jobId,
  }
}

async function check({ id }: Operation, line: ProviderLine): Promise<Report<'lipsync'>> {
  const { json } = await line.send({ method: 'GET', path: `/v2/generate/${id}` })
  switch (text(json, 'status')) {
    case 'PENDING':
    case 'PROCESSING':
      return pending()
    case 'COMPLETED':
      return completion(
        () => videoAt(json, 'outputUrl', optionalAmount(json, 'outputDuration')),
        ({ durationS }) => ({ ...noInvoice, seconds: durationS }),
      )
    case 'FAILED':
      return { status: 'failed', error: workFailure(optionalText(json, 'error'), optionalText(json, 'error_code')) }
    case 'REJECTED': {
      const error = workFailure(optionalText(json, 'error'), optionalText(json, 'error_code'), 'invalid_request')
      return { status: 'failed', error }
    }
    default:
      throw invalid('its `status` is unknown')
  }
}

/** `{"message":"…","statusCode":400}`; several faults come as a list of texts. */
function failure(status: number, headers: Headers, body: string) {
  const message = at(parsed(body), 'message')
  const words = (Array.isArray(message) ? message : [message]).filter(part => typeof part === 'string')
  return refusalInWords(status, headers, words.join('; '))
}
