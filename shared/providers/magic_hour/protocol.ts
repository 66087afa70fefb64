import { unsupported } from '../../kinds/media.ts'
import type { Operation, Protocol, ProviderLine, QueuedAdapter, QueuedCall, Report } from '../contract.ts'
import { type Headers, handle, invalid, optionalAmount, optionalText, parsed, text } from '../fields.ts'
import { completion, noInvoice, pending, videosAt } from '../reports.ts'
import { refusalInWords, workFailure } from '../words.ts'

const faceSwap: QueuedAdapter<'face_swap'> = { poll: { firstMs: 3_000, mostMs: 10_000 }, start, check }

/**
 * Magic Hour (as the npm package magic-hour has it). The trait `version` is the face swap's `style.version`, `default` by
 * default. `credits_charged` is an estimate until the project is complete. How it signs callbacks is not published, so it
 * is only asked.
 */
export const magicHour: Protocol = { direct: {}, queued: { face_swap: faceSwap }, failure }

/** The shortest piece of a video it takes, exclusive. */
const leastSeconds = 0.1

async function start(call: QueuedCall<'face_swap'>, line: ProviderLine): Promise<Operation> {
  const { json } = await line.send({ method: 'POST', path: '/v1/face-swap', json: await project(call) })
  return { id: handle(json, 'id') }
}

async function project({ target, jobId, input, sources }: QueuedCall<'face_swap'>): Promise<object> {
  const { model, deployment } = target
  if (input.seconds <= leastSeconds) throw unsupported(model, 'video_url', `takes videos longer than ${leastSeconds} s`)
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

async function check({ id }: Operation, line: ProviderLine): Promise<Report<'face_swap'>> {
  const { json } = await line.send({ method: 'GET', path: `/v1/video-projects/${id}` })
  switch (text(json, 'status')) {
    case 'draft':
    case 'queued':
    case 'rendering':
      return pending()
    case 'complete':
      return completion(
        () => videosAt(json, 'downloads', 'url'),
        () => ({ ...noInvoice, credits: optionalAmount(json, 'credits_charged') }),
      )
    case 'error':
      return {
        status: 'failed',
        error: workFailure(optionalText(json, 'error.message'), optionalText(json, 'error.code')),
      }
    case 'canceled':
      return { status: 'failed', error: workFailure('The face swap was cancelled at the provider.') }
    default:
      throw invalid('its `status` is unknown')
  }
}

/** `{"message":"…"}` */
function failure(status: number, headers: Headers, body: string) {
  return refusalInWords(status, headers, optionalText(parsed(body), 'message') ?? '')
}
