import { unsupported } from '../../kinds/media.ts'
import type { Operation, ProviderLine, QueuedAdapter, QueuedCall, Report, Source } from '../contract.ts'
import { handle, invalid, optionalAmount, optionalText, text } from '../fields.ts'
import { completion, noInvoice, pending, videoAt } from '../reports.ts'
import { assertOneResolution } from '../resolution.ts'
import { workFailure } from '../words.ts'

/** HeyGen asks to be asked at most every ten seconds; looks may come a tenth early. */
const poll = { firstMs: 12_000, mostMs: 30_000 }
const videos = '/v3/videos'
const lipsyncs = '/v3/lipsyncs'

export const avatar: QueuedAdapter<'avatar'> = {
  poll,
  async start(call, line) {
    const { json } = await line.send({ method: 'POST', path: videos, json: await talkingVideo(call) })
    return { id: handle(json, 'data.video_id') }
  },
  check: ({ id }, line) => look(videos, id, line),
}

export const lipsync: QueuedAdapter<'lipsync'> = {
  poll,
  async start(call, line) {
    const { json } = await line.send({ method: 'POST', path: lipsyncs, json: await dubbing(call) })
    return { id: handle(json, 'data.lipsync_id') }
  },
  check: ({ id }, line) => look(lipsyncs, id, line),
}

/** Callbacks to an address of the job are not signed, so none is given; `callback_id` is in those of the account. */
function named(jobId: string) {
  return { title: jobId, callback_id: jobId }
}

async function talkingVideo({ target, jobId, input, sources }: QueuedCall<'avatar'>): Promise<object> {
  const image = sources.get('image_url')
  const speaker = image
    ? { type: 'image', image: await asset(image) }
    : { type: 'avatar', avatar_id: input.avatarId, engine: { type: target.deployment.upstream_model } }
  const audio = sources.get('audio_url')
  const speech = audio ? { audio_url: await audio.url() } : { script: input.script, voice_id: input.voiceId }
  return {
    ...speaker,
    ...speech,
    ...(input.resolution && { resolution: input.resolution }),
    ...(input.aspectRatio && { aspect_ratio: input.aspectRatio }),
    ...named(jobId),
  }
}

async function dubbing(call: QueuedCall<'lipsync'>): Promise<object> {
  const { model, deployment } = call.target
  const { input, jobId, sources } = call
  const [video, audio] = [sources.get('video_url'), sources.get('audio_url')]
  if (!video || !audio) throw unsupported(model, 'image_url', 'takes `video_url` with `audio_url`')
  assertOneResolution(call.target)
  if (input.prompt !== null) throw unsupported(model, 'prompt', 'does not take `prompt` at this provider')
  return {
    video: { type: 'url', url: await video.url() },
    audio: { type: 'url', url: await audio.url() },
    mode: deployment.traits?.mode ?? 'precision',
    ...named(jobId),
  }
}

/** A picture by its address, or in the request where the provider cannot reach this gateway. */
async function asset(source: Source): Promise<object> {
  const url = await source.link()
  if (!url.startsWith('data:')) return { type: 'url', url }
  return { type: 'base64', media_type: source.contentType, data: await source.base64() }
}

/** Videos and lip syncs are shown in the same words, but for those of what is under way. */
async function look(
  path: string,
  id: Operation[string] | undefined,
  line: ProviderLine,
): Promise<Report<'avatar' | 'lipsync'>> {
  const { json } = await line.send({ method: 'GET', path: `${path}/${id}` })
  switch (text(json, 'data.status')) {
    case 'pending':
    case 'waiting':
    case 'processing':
    case 'running':
      return pending()
    case 'completed':
      return completion(
        () => videoAt(json, 'data.video_url', optionalAmount(json, 'data.duration')),
        ({ durationS }) => ({ ...noInvoice, seconds: durationS }),
      )
    case 'failed': {
      const error = workFailure(optionalText(json, 'data.failure_message'), optionalText(json, 'data.failure_code'))
      return { status: 'failed', error }
    }
    default:
      throw invalid('its `data.status` is unknown')
  }
}
