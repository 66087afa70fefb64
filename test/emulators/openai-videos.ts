import { json, type Recorded, type Reply } from './emulator.ts'
import { type Desk, type Json, startWork, type Work, type WorkOptions } from './slow-work.ts'

/** The fields of a multipart request; files as `file <name> <type> <bytes>`. */
export async function fieldsOf({ raw, headers }: Recorded): Promise<Record<string, string>> {
  const type = headers['content-type'] ?? ''
  const form = await new Response(new Uint8Array(raw), { headers: { 'content-type': type } }).formData()
  const fields: Record<string, string> = {}
  for (const [name, value] of form)
    fields[name] = typeof value === 'string' ? value : `file ${value.name} ${value.type} ${value.size}`
  return fields
}

/** OpenAI's `/v1/videos`, as compatible servers still have it, on a local port. */
export function startOpenAiVideos(options: WorkOptions = {}) {
  return startWork(route, openAiVideoError(404, 'Not found', null), options)
}

/** An error as OpenAI writes it. */
export function openAiVideoError(status: number, message: string, code: string | null): Reply {
  return json(status, { error: { message, type: 'invalid_request_error', param: null, code } })
}

function route(request: Recorded, desk: Desk): Reply | null {
  const { method, path, headers } = request
  if (!headers.authorization?.startsWith('Bearer '))
    return openAiVideoError(401, 'Incorrect API key provided', 'invalid_api_key')
  if (method === 'POST' && path === '/v1/videos') return created(desk)
  if (method === 'GET' && path === '/v1/videos') {
    const data = [...desk.works.values()].map(video)
    return json(200, { object: 'list', data, first_id: data[0]?.id, last_id: data.at(-1)?.id, has_more: false })
  }
  const [, id, content] = /^\/v1\/videos\/([\w-]+)(\/content)?$/.exec(path) ?? []
  if (!id || !desk.works.has(id)) return null
  if (method === 'DELETE') {
    desk.works.delete(id)
    return json(200, { id, deleted: true, object: 'video.deleted' })
  }
  if (method !== 'GET') return null
  if (!content) return json(200, video(desk.poll(id)!))
  if (desk.works.get(id)!.status !== 'finished') return openAiVideoError(404, 'Video is not ready yet', null)
  const location = `${desk.url}/files/${id}/video.mp4`
  return (_request, response) => void response.writeHead(302, { location }).end()
}

const sizes = ['720x1280', '1280x720', '1024x1792', '1792x1024', '1080x1920', '1920x1080']

function created(desk: Desk): Reply {
  return async (request, response) => {
    const fields = await fieldsOf(request).catch(() => null)
    const fault = fields ? faultOf(fields) : 'Expected a multipart body'
    const work = fields && !fault ? desk.add({ ...request, body: fields }) : null
    const reply = work ? json(200, video(work)) : openAiVideoError(400, fault ?? '', 'invalid_value')
    return reply(request, response)
  }
}

function faultOf({ model, prompt, seconds, size, input_reference, ...others }: Record<string, string>): string | null {
  const [other] = Object.keys(others)
  if (other) return `Unknown parameter: '${other}'.`
  if (!model) return "Missing required parameter: 'model'."
  if (!prompt) return "Missing required parameter: 'prompt'."
  if (seconds && !['4', '8', '12'].includes(seconds)) return "Invalid value for 'seconds'."
  if (size && !sizes.includes(size)) return "Invalid value for 'size'."
  if (input_reference && !/^file \S+\.(png|jpeg|webp) image\//.test(input_reference)) return 'Invalid input_reference.'
  return null
}

const statuses = { pending: 'in_progress', finished: 'completed', failed: 'failed' }

function video({ id, status, body, polls }: Work): Json {
  return {
    id,
    object: 'video',
    model: body.model,
    status: status === 'pending' && polls < 2 ? 'queued' : statuses[status],
    progress: status === 'finished' ? 100 : Math.min(99, polls * 33),
    created_at: 1_795_132_800,
    completed_at: status === 'finished' ? 1_795_132_900 : null,
    expires_at: null,
    seconds: body.seconds ?? '4',
    size: body.size ?? '720x1280',
    prompt: body.prompt,
    remixed_from_video_id: null,
    error: status === 'failed' ? { code: 'moderation_blocked', message: 'The video was blocked.' } : null,
  }
}
