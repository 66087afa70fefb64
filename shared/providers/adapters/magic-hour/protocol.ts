import { unsupported } from '../../../kinds/media.ts'
import type { Operation, PollReport, Protocol, ProviderConnection, QueuedAdapter, QueuedCall } from '../../contract.ts'
import { classifyResponse, classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import {
  type Headers,
  invalidResponse,
  parseJsonOrNull,
  readHandle,
  readOptionalAmount,
  readOptionalText,
  readText,
} from '../../toolkit/json-fields.ts'
import { completedReport, noInvoice, pendingReport, videosAt } from '../../toolkit/poll-reports.ts'

const faceSwap: QueuedAdapter<'face_swap'> = { poll: { firstMs: 3_000, maxMs: 10_000 }, start, check }

/**
 * Magic Hour (as in the npm package magic-hour). The trait `version` is the face swap's `style.version`, `default` by
 * default. `credits_charged` is an estimate until the project is complete. The signature of its callbacks is not
 * documented, so the work is only polled.
 */
export const magicHour: Protocol = { direct: {}, queued: { face_swap: faceSwap }, failure }

/** Minimum duration of a video segment, exclusive. */
const minSeconds = 0.1

async function start(call: QueuedCall<'face_swap'>, connection: ProviderConnection): Promise<Operation> {
  const { json } = await connection.send({ method: 'POST', path: '/v1/face-swap', json: await project(call) })
  return { id: readHandle(json, 'id') }
}

async function project({ target, jobId, input, sources }: QueuedCall<'face_swap'>): Promise<object> {
  const { model, deployment } = target
  if (input.seconds <= minSeconds) throw unsupported(model, 'video_url', `takes videos longer than ${minSeconds} s`)
  return {
    name: jobId,
    start_seconds: 0,
    end_seconds: input.seconds,
    assets: {
      video_source: 'file',
      video_file_path: await sources.get('video_url')!.url(),
      image_file_path: await sources.get('face_image_url')!.url(),
      face_swap_mode: 'all-faces',
    },
    style: { version: deployment.traits?.version ?? 'default' },
  }
}

async function check({ id }: Operation, connection: ProviderConnection): Promise<PollReport<'face_swap'>> {
  const { json } = await connection.send({ method: 'GET', path: `/v1/video-projects/${id}` })
  switch (readText(json, 'status')) {
    case 'draft':
    case 'queued':
    case 'rendering':
      return pendingReport()
    case 'complete':
      return completedReport(
        () => videosAt(json, 'downloads', 'url'),
        () => ({ ...noInvoice, credits: readOptionalAmount(json, 'credits_charged') }),
      )
    case 'error':
      return {
        status: 'failed',
        error: classifyWorkFailure(readOptionalText(json, 'error.message'), readOptionalText(json, 'error.code')),
      }
    case 'canceled':
      return { status: 'failed', error: classifyWorkFailure('The face swap was cancelled at the provider.') }
    default:
      throw invalidResponse('its `status` is unknown')
  }
}

/** `{"message":"…"}` */
function failure(status: number, headers: Headers, body: string) {
  return classifyResponse(status, headers, readOptionalText(parseJsonOrNull(body), 'message') ?? '')
}
