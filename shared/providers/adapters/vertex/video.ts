import type { ProviderFile } from '../../../kinds/media.ts'
import type { QueuedAdapter } from '../../contract.ts'
import { invalidResponse, readList, readText, valueAt } from '../../toolkit/json-fields.ts'
import { completedReport, maxFiles, pendingReport } from '../../toolkit/poll-reports.ts'
import { failedVideo, videoRequest } from '../gemini/video.ts'
import { modelsPath } from './paths.ts'

const operationName =
  /^projects\/[\w:.-]{1,100}\/locations\/[\w-]{1,40}\/publishers\/google\/models\/[\w.-]{1,100}\/operations\/[\w-]{1,200}$/
/** A poll of ended work has the video, in base64. */
const maxBytes = 128 * 1024 * 1024
const firstByteMs = 60_000

/**
 * Veo at Vertex AI (`predictLongRunning`, `fetchPredictOperation`). Without a bucket of the operator's, the answer has the videos.
 * Source: `@google/genai` with `vertexai: true`.
 */
export const video: QueuedAdapter<'video'> = {
  poll: { firstMs: 10_000, maxMs: 20_000 },
  async start(call, connection) {
    const { instances, parameters } = await videoRequest(call)
    const { upstream_model: model } = call.target.deployment
    const json = { instances, parameters: { ...parameters, generateAudio: true } }
    const answer = await connection.send({ method: 'POST', path: `${modelsPath}${model}:predictLongRunning`, json })
    return { name: nameIn(answer.json), model }
  },
  async check({ name, model }, connection) {
    const path = `${modelsPath}${model}:fetchPredictOperation`
    const { json } = await connection.send({
      method: 'POST',
      path,
      json: { operationName: name },
      maxBytes,
      firstByteMs,
    })
    if (nameIn(json) !== name) throw invalidResponse('it is about another operation')
    if (valueAt(json, 'done') !== true) return pendingReport()
    return failedVideo(json, 'response', 'videos') ?? completedReport(() => ({ files: filesIn(json), durationS: null }))
  },
}

function nameIn(json: unknown): string {
  const name = readText(json, 'name')
  if (!operationName.test(name)) throw invalidResponse('its `name` is none of an operation')
  return name
}

function filesIn(json: unknown): ProviderFile<'video'>[] {
  const videos = readList(json, 'response.videos').slice(0, maxFiles)
  if (videos.length === 0) throw invalidResponse('its `response.videos` is empty')
  return videos.map(one => ({
    role: 'video',
    bytes: Buffer.from(readText(one, 'bytesBase64Encoded'), 'base64'),
    contentType: readText(one, 'mimeType'),
  }))
}
