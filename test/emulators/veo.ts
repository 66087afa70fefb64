import { videoFile } from '../../shared/providers/sandbox/media/video-file.ts'
import { json, type Recorded, type Reply } from './emulator.ts'
import { geminiError, invalidApiKey } from './gemini.ts'
import {
  type Desk,
  type Json,
  startWork,
  unknownField,
  type Work,
  type WorkEmulator,
  type WorkOptions,
} from './slow-work.ts'

export type VeoOptions = WorkOptions & {
  /** Answers downloads with a redirect first. */
  redirect?: boolean
  /** What a failed operation says (google.rpc.Status). */
  error?: { code: number; message: string }
}
type Veo = WorkEmulator & {
  /** Ends all operations as refused by the safety filter. */
  filter(): void
}

const parameterNames = [
  'sampleCount',
  'durationSeconds',
  'aspectRatio',
  'resolution',
  'personGeneration',
  'negativePrompt',
]
const instanceNames = ['prompt', 'image', 'lastFrame', 'referenceImages', 'video']
const internal = { code: 13, message: 'Video generation failed due to an internal server issue.' }

/** Google's Veo on a local port, under `/v1` and `/v1beta`. Results are downloaded with the key only. */
export async function startVeo({ redirect = false, error = internal, ...options }: VeoOptions = {}): Promise<Veo> {
  const filtered = new Set<string>()
  const ending = ({ id, status }: Work, url: string): object => {
    if (filtered.has(id)) return { done: true, response: { generateVideoResponse: refused } }
    if (status === 'pending') return {}
    if (status === 'failed') return { done: true, error }
    const uri = `${url}/v1beta/files/${id}:download?alt=media`
    return { done: true, response: { generateVideoResponse: { generatedSamples: [{ video: { uri } }] } } }
  }
  const operations = (request: Recorded, desk: Desk): Reply | null => {
    const [, model, id] =
      /^\/v1(?:beta)?\/models\/([^/:]+)(?::predictLongRunning|\/operations\/([^/]+))$/.exec(request.path) ?? []
    if (!model || request.method !== (id ? 'GET' : 'POST')) return null
    const fault = id ? null : faultOf(request.body)
    if (fault) return geminiError(400, 'INVALID_ARGUMENT', fault)
    const work = id ? desk.poll(id) : desk.add(request)
    if (!work) return null
    return json(200, { name: `models/${model}/operations/${work.id}`, ...(id && ending(work, desk.url)) })
  }
  const downloads = (request: Recorded, desk: Desk): Reply | null => {
    const [, id = ''] = /^\/v1(?:beta)?\/files\/([^/:]+):download$/.exec(request.path) ?? []
    if (desk.works.get(id)?.status !== 'finished') return null
    if (redirect && !request.query.has('again')) return redirected(`${request.path}?alt=media&again=1`)
    return async (_request, response) =>
      void response.writeHead(200, { 'content-type': 'video/mp4' }).end(await videoFile({ seconds: 1 }))
  }
  const world = await startWork(
    (request, desk) => keyFault(request) ?? operations(request, desk) ?? downloads(request, desk),
    geminiError(404, 'NOT_FOUND', 'Requested entity was not found.'),
    options,
  )
  const filter = () => {
    for (const id of world.works.keys()) filtered.add(id)
  }
  return { ...world, filter }
}

function keyFault({ headers }: Recorded): Reply | null {
  const key = headers['x-goog-api-key']
  if (!key) return geminiError(403, 'PERMISSION_DENIED', "Method doesn't allow unregistered callers.")
  return key === 'invalid' ? invalidApiKey : null
}

function redirected(location: string): Reply {
  return (_request, response) => void response.writeHead(302, { location }).end()
}

const refused = {
  raiMediaFilteredCount: 1,
  raiMediaFilteredReasons: ["We can't make a video of this prompt. Please rephrase it. Support codes: 58061214"],
}

function faultOf(body: Json): string | null {
  const { instances, parameters = {} } = body ?? {}
  if (!Array.isArray(instances) || instances.length !== 1) return 'Exactly one instance is required.'
  const [instance] = instances
  const stranger = unknownField(instance, instanceNames) ?? unknownField(parameters, parameterNames)
  if (stranger)
    return `\`${stranger}\` isn't supported by this model. Please remove it or refer to the Gemini API documentation.`
  if (!instance.prompt && !instance.image) return 'A prompt or an image is required.'
  const references = (instance.referenceImages ?? []).map(({ image }: Json) => image)
  const images = [instance.image, instance.lastFrame, ...references].filter(image => image !== undefined)
  if (!images.every(isImage))
    return 'Input instance with `image` should contain both `bytesBase64Encoded` and `mimeType`.'
  if (instance.lastFrame && !instance.image) return 'A last frame needs a first one.'
  if ((instance.referenceImages ?? []).some(({ referenceType }: Json) => !/^asset$/i.test(referenceType)))
    return 'Only references of the type asset are supported.'
  if (references.length > 3) return 'At most 3 reference images are supported.'
  return parameterFault(parameters, references.length > 0 || instance.lastFrame)
}

function parameterFault(parameters: Json, isGuided: boolean): string | null {
  const { durationSeconds = 8, aspectRatio = '16:9', resolution = '720p', sampleCount = 1 } = parameters
  if (![4, 6, 8].includes(durationSeconds)) return 'The number value for `durationSeconds` is out of bound: 4, 6 or 8.'
  if (!['16:9', '9:16'].includes(aspectRatio)) return '`aspectRatio` must be 16:9 or 9:16.'
  if (!['720p', '1080p', '4k'].includes(resolution)) return '`resolution` must be 720p, 1080p or 4k.'
  if (sampleCount !== 1) return '`sampleCount` must be 1.'
  const fixed = isGuided || resolution !== '720p'
  return fixed && durationSeconds !== 8 ? `Duration of ${durationSeconds} seconds is not supported here; use 8.` : null
}

function isImage({ bytesBase64Encoded, mimeType }: Json): boolean {
  return typeof bytesBase64Encoded === 'string' && bytesBase64Encoded !== '' && /^image\//.test(mimeType ?? '')
}
