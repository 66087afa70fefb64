import { GatewayError } from '../../base/errors.ts'
import type { Operation, ProviderLine, QueuedAdapter, QueuedCall, Report, Source } from '../contract.ts'
import { handle, invalid, link, optionalNumber, optionalText, text } from '../fields.ts'
import { workFailure } from '../words.ts'

const poll = { firstMs: 10_000, mostMs: 30_000 }
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

async function dubbing({ target: { model, deployment }, jobId, sources }: QueuedCall<'lipsync'>): Promise<object> {
  const [video, audio] = [sources.get('video_url'), sources.get('audio_url')]
  if (!video || !audio)
    throw new GatewayError('unsupported_capability', `${model.id} takes \`video_url\` with \`audio_url\`.`, {
      param: 'image_url',
    })
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
      return { status: 'pending', progress: null }
    case 'completed': {
      const durationS = optionalNumber(json, 'data.duration')
      const files = [{ role: 'video' as const, url: link(json, 'data.video_url') }]
      return { status: 'completed', output: { files, durationS }, invoice: { seconds: durationS, credits: null } }
    }
    case 'failed': {
      const error = workFailure(optionalText(json, 'data.failure_message'), optionalText(json, 'data.failure_code'))
      return { status: 'failed', error }
    }
    default:
      throw invalid('its `data.status` is unknown')
  }
}
