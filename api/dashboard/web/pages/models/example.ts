import type { CatalogModel } from '../../../wire/models.ts'
import { curlOf } from '../playground/curl.ts'
import type { PlainRequest } from '../playground/plain-request.ts'

const image = 'https://example.com/photo.jpg'
const video = 'https://example.com/clip.mp4'
const sound = 'https://example.com/speech.mp3'

/** A minimal command that calls a model. */
export function exampleOf(model: CatalogModel): string {
  if (model.endpoint === '/v1/realtime') return sessionOf(model)
  const { file, output, ...body } = examples[model.type]?.(model) ?? ({} as Example)
  const request: PlainRequest = { path: model.endpoint }
  if (file) request.form = { file, fields: { model: model.id } }
  else request.body = { model: model.id, ...body }
  if (output) request.output = output
  return curlOf(request)
}

type Example = { file?: string; output?: string } & Record<string, unknown>

const has = (model: CatalogModel, name: string, value: string) => [model.kind[name]].flat().includes(value)

const examples: Record<string, (model: CatalogModel) => Example> = {
  chat: ({ endpoint }) =>
    endpoint === '/v1/completions'
      ? { prompt: 'Once upon a time', max_tokens: 50 }
      : { messages: [{ role: 'user', content: 'Hello' }] },
  embeddings: () => ({ input: 'The text to embed' }),
  rerank: () => ({ query: 'When does it open?', documents: ['Open from nine to five.', 'Closed on Sundays.'] }),
  moderation: () => ({ input: 'The text to check' }),
  ocr: () => ({ document: { type: 'document_url', document_url: 'https://example.com/report.pdf' } }),
  image: ({ kind }) => ({
    prompt: 'A lighthouse at dusk',
    ...(kind.references_required === true && { input_references: [image] }),
  }),
  speech: () => ({ input: 'Hello there.', output: 'speech.mp3' }),
  transcription: () => ({ file: 'speech.mp3' }),
  music: () => ({ prompt: 'A calm piano piece', output: 'music.mp3' }),
  sfx: () => ({ prompt: 'A door that creaks', output: 'sound.mp3' }),
  video: model => {
    if (has(model, 'modes', 'text')) return { prompt: 'Waves roll onto a beach at dawn' }
    if (has(model, 'modes', 'image')) return { prompt: 'The camera moves closer', start_image_url: image }
    if (has(model, 'modes', 'motion_control')) return { start_image_url: image, input_video_url: video }
    return { prompt: 'Make it snow', input_video_url: video }
  },
  lipsync: model => ({
    ...(has(model, 'takes', 'image') ? { image_url: image } : { video_url: video }),
    audio_url: sound,
  }),
  face_swap: () => ({ video_url: video, face_image_url: image, source_face_consent: true }),
  avatar: model =>
    has(model, 'sources', 'avatar_id')
      ? {
          avatar_id: 'an ID from GET /v1/avatars',
          script: 'Hello there.',
          voice_id: 'an ID from GET /v1/avatars/voices',
        }
      : { image_url: image, source_face_consent: true, audio_url: sound },
  mesh: model => (has(model, 'inputs', 'text') ? { prompt: 'A wooden chair with a woven seat' } : { image_url: image }),
}

function sessionOf({ id }: CatalogModel): string {
  const address = `${location.origin.replace(/^http/, 'ws')}/v1/realtime?model=${id}`
  return `websocat -H "Authorization: Bearer $HEADGATE_API_KEY" \\\n  '${address}'`
}
