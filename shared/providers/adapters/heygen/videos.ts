import { unsupported } from '../../../kinds/media.ts'
import type { Operation, PollReport, ProviderConnection, QueuedAdapter, QueuedCall, Source } from '../../contract.ts'
import { assertOneResolution } from '../../toolkit/assert-one-resolution.ts'
import {
  invalidResponse,
  readHandle,
  readList,
  readOptionalAmount,
  readOptionalText,
  readText,
  valueAt,
} from '../../toolkit/json-fields.ts'
import { completedReport, noInvoice, pendingReport, videoAt } from '../../toolkit/poll-reports.ts'
import { workFailure } from './failure.ts'

/** HeyGen's minimum polling interval is ten seconds; polls may come up to a tenth early. */
const poll = { firstMs: 12_000, maxMs: 30_000 }
const videos = '/v3/videos'
const lipsyncs = '/v3/lipsyncs'

export const avatar: QueuedAdapter<'avatar'> = {
  poll,
  async start(call, connection) {
    const json = await create(videos, call, await talkingVideo(call), connection)
    return { id: readHandle(json, 'data.video_id') }
  },
  /** Videos are listed by a part of their title. */
  find: ({ jobId }, connection) => findJob(videos, { title: jobId }, jobId, connection),
  check: ({ id }, connection) => pollVideo(videos, id, connection),
}

export const lipsync: QueuedAdapter<'lipsync'> = {
  poll,
  async start(call, connection) {
    const json = await create(lipsyncs, call, await dubbing(call), connection)
    return { id: readHandle(json, 'data.lipsync_id') }
  },
  find: ({ jobId }, connection) => findJob(lipsyncs, { limit: '100' }, jobId, connection),
  check: ({ id }, connection) => pollVideo(lipsyncs, id, connection),
}

/** A repeated start gets the answer of the first for 24 hours (heygen-cli, gen/video.go). */
async function create(
  path: string,
  { jobId, attempt }: { jobId: string; attempt: number },
  body: object,
  connection: ProviderConnection,
): Promise<unknown> {
  const headers = { 'idempotency-key': `${jobId}-${attempt}` }
  return (await connection.send({ method: 'POST', path, headers, json: body })).json
}

/** The video or lip sync whose title is the job's id; one that is not listed is found by its idempotency key. */
async function findJob(
  path: string,
  query: Record<string, string>,
  jobId: string,
  connection: ProviderConnection,
): Promise<Operation | null> {
  const { json } = await connection.send({ method: 'GET', path: `${path}?${new URLSearchParams(query)}` })
  const found = readList(json, 'data').find(entry => valueAt(entry, 'title') === jobId)
  return found === undefined ? null : { id: readHandle(found, 'id') }
}

/** Callbacks to a per-job URL are not signed, so none is given; the account's events include `callback_id`. */
function jobFields(jobId: string) {
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
    ...jobFields(jobId),
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
    ...jobFields(jobId),
  }
}

/** A picture by URL, or inlined where the provider cannot reach this gateway. */
async function asset(source: Source): Promise<object> {
  const url = await source.link()
  if (!url.startsWith('data:')) return { type: 'url', url }
  return { type: 'base64', media_type: source.contentType, data: await source.base64() }
}

/** Polls a video or lip sync: their reports differ only in the states of pending work. */
async function pollVideo(
  path: string,
  id: Operation[string] | undefined,
  connection: ProviderConnection,
): Promise<PollReport<'avatar' | 'lipsync'>> {
  const { json } = await connection.send({ method: 'GET', path: `${path}/${id}` })
  switch (readText(json, 'data.status')) {
    case 'pending':
    case 'waiting':
    case 'processing':
    case 'running':
      return pendingReport()
    case 'completed':
      return completedReport(
        () => videoAt(json, 'data.video_url', readOptionalAmount(json, 'data.duration')),
        ({ durationS }) => ({ ...noInvoice, seconds: durationS }),
      )
    case 'failed': {
      const error = workFailure(
        readOptionalText(json, 'data.failure_message'),
        readOptionalText(json, 'data.failure_code'),
      )
      return { status: 'failed', error }
    }
    default:
      throw invalidResponse('its `data.status` is unknown')
  }
}
