import type { ExecutionContext } from 'ava'
import createClient from 'openapi-fetch'
import type { paths } from './generated/openapi-typescript.ts'
import { batchLine, cat, readEvents, sentence } from './samples.ts'

type World = { origin: string; key: string }

/** A form, as the types of openapi-typescript have it: they write a file as a string. */
const binary = (file: File) => file as unknown as string

function formOf(body: object): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(body)) form.append(name, value instanceof File ? value : String(value))
  return form
}

/** Every call of openapi-fetch with types that openapi-typescript generated. */
export async function callWithOpenApiFetch(t: ExecutionContext, { origin, key }: World): Promise<void> {
  const options = { baseUrl: origin, headers: { authorization: `Bearer ${key}` } }
  // Answers that may be an event stream, too, are JSON unless that is asked for.
  const client = createClient<paths, 'application/json'>(options)
  const files = createClient<paths>(options)

  const models = await client.GET('/v1/models', { params: { query: { type: 'chat' } } })
  t.true(models.data!.data.length > 1)

  const question = { model: 'auto', messages: [{ role: 'user' as const, content: 'Hello' }] }
  const chat = await client.POST('/v1/chat/completions', { body: question })
  t.is(chat.data?.choices[0]?.message.content, 'Hello')

  const stream = await files.POST('/v1/chat/completions', { parseAs: 'stream', body: { ...question, stream: true } })
  const chunks = await readEvents(stream.data!)
  t.true(chunks.length > 1)

  const embedding = await client.POST('/v1/embeddings', { body: { model: 'text-embedding-3-small', input: 'Hello' } })
  t.true(embedding.data!.data[0]!.embedding.length > 0)

  const image = await client.POST('/v1/images', { body: { prompt: 'A fox' } })
  t.truthy(image.data?.data[0]?.b64_json)

  const edit = await client.POST('/v1/images/edits', {
    body: { image: binary(cat()), prompt: 'A hat', model: 'gpt-image-1.5' },
    bodySerializer: formOf,
  })
  t.is(edit.data?.data.length, 1)

  const speech = await files.POST('/v1/audio/speech', {
    parseAs: 'blob',
    body: { model: 'tts-1', input: 'Good day.', voice: 'alloy' },
  })
  t.true(speech.data!.size > 100)

  const transcript = await client.POST('/v1/audio/transcriptions', {
    body: { file: binary(sentence()), model: 'whisper-1' },
    bodySerializer: formOf,
  })
  t.truthy(transcript.data)

  const upload = await client.POST('/v1/uploads', { body: { file: binary(cat()) }, bodySerializer: formOf })
  t.is(upload.data?.content_type, 'image/png')

  const file = await client.POST('/v1/files', {
    body: { file: binary(batchLine()), purpose: 'batch' },
    bodySerializer: formOf,
  })
  const { id } = file.data!
  const batch = await client.POST('/v1/batches', { body: { input_file_id: id, endpoint: '/v1/chat/completions' } })
  t.is(batch.data?.input_file_id, id)

  const video = await client.POST('/v1/videos', { body: { prompt: 'A lighthouse' } })
  const path = { id: video.data!.id }
  const done = await client.GET('/v1/videos/{id}', { params: { path, header: { Prefer: 'wait=30' } } })
  t.is(done.data?.status, 'completed')
  const content = await files.GET('/v1/videos/{id}/content', { params: { path }, parseAs: 'blob' })
  t.true(content.data!.size > 1_000)

  const refused = await client.POST('/v1/chat/completions', { body: { ...question, model: 'no-such-model' } })
  t.is(refused.response.status, 404)
  t.is(refused.error?.error.code, 'model_not_found')
}
