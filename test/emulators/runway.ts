import { json, type Recorded, type Reply } from './emulator.ts'
import {
  type Desk,
  type Json,
  startWork,
  unknownField,
  type Work,
  type WorkEmulator,
  type WorkOptions,
} from './slow-work.ts'

export type RunwayOptions = WorkOptions & {
  /** How a failed task is reported. */
  failure?: { failure: string; failureCode?: string }
  /** The status of work that is not over. */
  running?: 'PENDING' | 'THROTTLED' | 'RUNNING'
}

const ratios = ['1280:720', '720:1280', '1104:832', '960:960', '832:1104', '1584:672']
const imageRatios = [
  ...['1024:1024', '1080:1080', '1168:880', '1360:768', '1440:1080', '1080:1440', '1808:768', '1920:1080', '1080:1920'],
  ...['2112:912', '1280:720', '720:1280', '720:720', '960:720', '720:960', '1680:720'],
]
const aspects = ['16:9', '4:3', '3:2', '1:1', '2:3', '3:4', '9:16', '21:9']

type Rule = { models: string[]; fields: string[]; check(body: Json): [string, string] | null }
const rules: Record<string, Rule> = {
  text_to_image: {
    models: ['gen4_image', 'gen4_image_turbo'],
    fields: ['promptText', 'ratio', 'referenceImages', 'contentModeration'],
    check: body =>
      promptFault(body, true) ?? oneOf(body, 'ratio', imageRatios) ?? referencesFault(body.model, body.referenceImages),
  },
  text_to_video: {
    models: ['gen4.5'],
    fields: ['promptText', 'ratio', 'duration'],
    check: body =>
      promptFault(body, true) ?? oneOf(body, 'ratio', ratios.slice(0, 2)) ?? durationFault(body.duration, true),
  },
  image_to_video: {
    models: ['gen4.5', 'gen4_turbo'],
    fields: ['promptText', 'promptImage', 'ratio', 'duration'],
    check: body =>
      promptFault(body, body.model === 'gen4.5') ??
      imageFault(body.promptImage) ??
      oneOf(body, 'ratio', ratios) ??
      durationFault(body.duration, body.model === 'gen4.5'),
  },
  video_to_video: {
    models: ['gen4_aleph', 'aleph2'],
    fields: ['promptText', 'videoUri', 'targetAspectRatio'],
    check: body =>
      promptFault(body, body.model === 'gen4_aleph') ??
      uriFault(body.videoUri, 'videoUri') ??
      (body.targetAspectRatio === undefined ? null : oneOf(body, 'targetAspectRatio', aspects)),
  },
  character_performance: {
    models: ['act_two'],
    fields: ['character', 'reference', 'ratio'],
    check: body =>
      (['image', 'video'].includes(body.character?.type) ? null : ['character.type', 'Invalid discriminator value']) ??
      uriFault(body.character.uri, 'character.uri') ??
      (body.reference?.type === 'video' ? null : ['reference.type', 'Invalid literal value']) ??
      uriFault(body.reference.uri, 'reference.uri') ??
      (body.ratio === undefined ? null : oneOf(body, 'ratio', ratios)),
  },
}

const unexpected = { failure: 'An unexpected error occurred.', failureCode: 'INTERNAL.BAD_OUTPUT.CODE01' }

/** Runway's API on a local port, under `/v1`. */
export function startRunway({
  failure = unexpected,
  running = 'RUNNING',
  ...options
}: RunwayOptions = {}): Promise<WorkEmulator> {
  const cancelled = new Set<string>()
  const shown = ({ id, status, path, body }: Work, url: string): object => {
    const common = { id, createdAt: '2026-11-20T00:00:00.000Z' }
    if (cancelled.has(id)) return { ...common, status: 'CANCELLED', cost: { credits: 0 } }
    if (status === 'failed') return { ...common, status: 'FAILED', ...failure, cost: { credits: 0 } }
    const estimatedCost = { credits: 25 }
    const progress = running === 'RUNNING' ? { progress: 0.42 } : {}
    if (status === 'pending') return { ...common, status: running, estimatedCost, ...progress }
    return {
      ...common,
      status: 'SUCCEEDED',
      output: [`${url}/files/${id}/${fileOf(path, body)}?_jwt=signed`],
      cost: { credits: 25 },
    }
  }
  const task = (id: string, { method }: Recorded, desk: Desk): Reply => {
    const work = method === 'GET' ? desk.poll(id) : desk.works.get(id)
    if (!work) return error(404, 'An API task with that ID was not found.')
    if (method !== 'DELETE') return json(200, shown(work, desk.url))
    if (work.status === 'pending') cancelled.add(id)
    else desk.works.delete(id)
    return (_request, response) => void response.writeHead(204).end()
  }
  const provider = (request: Recorded, desk: Desk): Reply | null => {
    const refused = headerFault(request)
    if (refused) return refused
    const [, name = '', id] = /^\/v1\/(\w+)(?:\/([\w-]+))?$/.exec(request.path) ?? []
    if (name === 'tasks' && id) return task(id, request, desk)
    const rule = rules[name]
    if (!rule || request.method !== 'POST') return null
    const fault = faultOf(rule, request.body)
    return fault ? invalidBody(...fault) : json(200, { id: desk.add(request).id, estimatedCost: { credits: 25 } })
  }
  return startWork(provider, error(404, 'Not found'), options)
}

function fileOf(path: string, { ratio }: Json): string {
  return path.endsWith('/text_to_image') ? `image-${ratio.replace(':', 'x')}.png` : 'video.mp4'
}

function headerFault({ headers }: Recorded): Reply | null {
  if (!/^Bearer \S+$/.test(headers.authorization ?? '')) return error(401, 'You must provide an API key.')
  if (headers.authorization === 'Bearer invalid') return error(401, 'Invalid API key.')
  const isKnown = headers['x-runway-version'] === '2024-11-06'
  return isKnown ? null : error(400, 'A valid X-Runway-Version header is required.')
}

function error(status: number, message: string): Reply {
  return json(status, { error: message, docUrl: 'https://docs.dev.runwayml.com/errors' })
}

/** A request whose body Runway's validation refuses. */
export function invalidBody(path: string, message: string): Reply {
  const issues = [{ code: 'custom', path: path.split('.'), message }]
  return json(400, { error: 'Validation of body failed', issues, docUrl: 'https://docs.dev.runwayml.com/errors' })
}

export const noCredits = error(400, 'You do not have enough credits to run this task.')
export const rateLimited = error(429, 'You have reached the daily limit of tasks for this model.')

function faultOf(rule: Rule, body: Json): [string, string] | null {
  if (typeof body !== 'object' || body === null) return ['', 'Expected object']
  const stranger = unknownField(body, ['model', 'seed', ...rule.fields])
  if (stranger) return [stranger, 'Unrecognized key']
  return oneOf(body, 'model', rule.models) ?? seedFault(body.seed) ?? rule.check(body)
}

function oneOf(body: Json, name: string, values: string[]): [string, string] | null {
  return values.includes(body[name]) ? null : [name, `Invalid enum value. Expected ${values.join(' | ')}`]
}

function seedFault(seed: unknown): [string, string] | null {
  const fits = seed === undefined || (Number.isInteger(seed) && Number(seed) >= 0 && Number(seed) <= 4_294_967_295)
  return fits ? null : ['seed', 'Number must be between 0 and 4294967295']
}

function promptFault({ promptText }: Json, isRequired: boolean): [string, string] | null {
  if (promptText === undefined) return isRequired ? ['promptText', 'Required'] : null
  const fits = typeof promptText === 'string' && promptText.length >= 1 && promptText.length <= 1_000
  return fits ? null : ['promptText', 'String must contain 1 to 1000 character(s)']
}

function durationFault(duration: unknown, isRequired: boolean): [string, string] | null {
  if (duration === undefined) return isRequired ? ['duration', 'Required'] : null
  const fits = Number.isInteger(duration) && Number(duration) >= 2 && Number(duration) <= 10
  return fits ? null : ['duration', 'Number must be between 2 and 10']
}

/** These models take a first frame only. */
function imageFault(promptImage: Json): [string, string] | null {
  if (!Array.isArray(promptImage)) return uriFault(promptImage, 'promptImage')
  const fits = promptImage.length === 1 && promptImage[0]?.position === 'first'
  return fits
    ? uriFault(promptImage[0].uri, 'promptImage.0.uri')
    : ['promptImage', 'Expected one image in first position']
}

/** Up to three, each with a tag of its own; the turbo model needs one. */
function referencesFault(model: string, references: Json): [string, string] | null {
  if (references === undefined) return model === 'gen4_image_turbo' ? ['referenceImages', 'Required'] : null
  if (!Array.isArray(references) || references.length < 1 || references.length > 3)
    return ['referenceImages', 'Array must contain 1 to 3 element(s)']
  for (const [i, { uri, tag }] of references.entries()) {
    const fault = uriFault(uri, `referenceImages.${i}.uri`)
    if (fault) return fault
    if (tag !== undefined && !/^[a-z]\w{2,15}$/i.test(tag)) return [`referenceImages.${i}.tag`, 'Invalid']
  }
  return null
}

/** An https URL (plain http of this machine serves tests) or a data URI of at most 5 MB. */
function uriFault(uri: unknown, path: string): [string, string] | null {
  if (typeof uri !== 'string') return [path, 'Required']
  if (/^data:[\w/+.-]+;base64,/.test(uri))
    return uri.length <= 5 * 1024 * 1024 ? null : [path, 'The data URI is too large']
  return /^https:\/\/|^http:\/\/(localhost|127\.0\.0\.1)[:/]/.test(uri) ? null : [path, 'Invalid URL']
}
