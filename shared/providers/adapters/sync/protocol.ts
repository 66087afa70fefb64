import { unsupported } from '../../../kinds/media.ts'
import type { Operation, PollReport, Protocol, ProviderConnection, QueuedAdapter, QueuedCall } from '../../contract.ts'
import { assertOneResolution } from '../../toolkit/assert-one-resolution.ts'
import { classifyResponse, classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import {
  type Headers,
  invalidResponse,
  parseJsonOrNull,
  readHandle,
  readOptionalAmount,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { completedReport, noInvoice, pendingReport, videoAt } from '../../toolkit/poll-reports.ts'

const lipsync: QueuedAdapter<'lipsync'> = { poll: { firstMs: 5_000, maxMs: 10_000 }, start, check }

/**
 * Sync's API v2 (as in the npm package @sync.so/sdk). The trait `sync_mode` handles audio and video of different
 * durations, `loop` by default. The signature of its callbacks is not documented, so none are requested.
 */
export const sync: Protocol = {
  direct: {},
  queued: { lipsync },
  credentialCheck: () => ({ path: '/v2/models' }),
  failure,
}

async function start(call: QueuedCall<'lipsync'>, connection: ProviderConnection): Promise<Operation> {
  const { json } = await connection.send({ method: 'POST', path: '/v2/generate', json: await generation(call) })
  return { id: readHandle(json, 'id') }
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

async function check({ id }: Operation, connection: ProviderConnection): Promise<PollReport<'lipsync'>> {
  const { json } = await connection.send({ method: 'GET', path: `/v2/generate/${id}` })
  switch (readText(json, 'status')) {
    case 'PENDING':
    case 'PROCESSING':
      return pendingReport()
    case 'COMPLETED':
      return completedReport(
        () => videoAt(json, 'outputUrl', readOptionalAmount(json, 'outputDuration')),
        ({ durationS }) => ({ ...noInvoice, seconds: durationS }),
      )
    case 'FAILED':
      return {
        status: 'failed',
        error: classifyWorkFailure(readOptionalText(json, 'error'), readOptionalText(json, 'error_code')),
      }
    case 'REJECTED': {
      const error = classifyWorkFailure(
        readOptionalText(json, 'error'),
        readOptionalText(json, 'error_code'),
        'invalid_request',
      )
      return { status: 'failed', error }
    }
    default:
      throw invalidResponse('its `status` is unknown')
  }
}

/** `{"message":"…","statusCode":400}`; several errors are a list of strings. */
function failure(status: number, headers: Headers, body: string) {
  const message = valueAt(parseJsonOrNull(body), 'message')
  const words = (Array.isArray(message) ? message : [message]).filter(part => typeof part === 'string')
  return classifyResponse(status, headers, words.join('; '))
}
