import type { ExecutionContext } from 'ava'
import { createClient } from './generated/hey-api/client/index.ts'
import {
  createBatch,
  createChatCompletion,
  createEmbedding,
  createFile,
  createImage,
  createImageEdit,
  createSpeech,
  createTranscription,
  createUpload,
  createVideo,
  getVideo,
  getVideoContent,
  listModels,
} from './generated/hey-api/sdk.gen.ts'
import * as schemas from './generated/hey-api/zod.gen.ts'
import { batchLine, cat, readEvents, sentence } from './samples.ts'

type World = { origin: string; key: string }

/** Every call of a client that hey-api generated; answers are held to its zod schemas. Requests of JSON are, too. */
export async function callWithHeyApi(t: ExecutionContext, { origin, key }: World): Promise<void> {
  const client = createClient({ baseUrl: origin, auth: () => key })
  const call = { client, throwOnError: true } as const

  const models = await listModels(call)
  t.true(schemas.zListModelsResponse.parse(models.data).data.length > 5)

  const question = { model: 'auto', messages: [{ role: 'user' as const, content: 'Hello' }] }
  schemas.zCreateChatCompletionBody.parse(question)
  const chat = await createChatCompletion({ ...call, body: question })
  t.is(schemas.zCreateChatCompletionResponse.parse(chat.data).choices[0]?.message.content, 'Hello')

  const stream = await createChatCompletion({ ...call, parseAs: 'stream', body: { ...question, stream: true } })
  const chunks = await readEvents(stream.response.body ?? (stream.data as unknown as ReadableStream<Uint8Array>))
  const pieces = chunks.map(chunk => schemas.zChatCompletionChunk.parse(chunk))
  t.is(pieces.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), 'Hello')

  const embedding = await createEmbedding({ ...call, body: { model: 'text-embedding-3-small', input: 'Hello' } })
  t.true(schemas.zCreateEmbeddingResponse.parse(embedding.data).data[0]!.embedding.length > 0)

  const image = await createImage({ ...call, body: { prompt: 'A fox', n: 1 } })
  t.truthy(schemas.zCreateImageResponse.parse(image.data).data[0]?.b64_json)

  const edit = await createImageEdit({ ...call, body: { model: 'gpt-image-1.5', image: [cat()], prompt: 'A hat' } })
  t.is(schemas.zCreateImageEditResponse.parse(edit.data).data.length, 1)

  const speech = await createSpeech({ ...call, body: { model: 'tts-1', input: 'Good day.', voice: 'alloy' } })
  t.true((speech.data as Blob).size > 100)

  const transcript = await createTranscription({ ...call, body: { file: sentence(), model: 'whisper-1' } })
  t.is(typeof schemas.zCreateTranscriptionResponse.parse(transcript.data).text, 'string')

  const upload = await createUpload({ ...call, body: { file: cat() } })
  t.is(schemas.zCreateUploadResponse.parse(upload.data).content_type, 'image/png')

  const file = await createFile({ ...call, body: { file: batchLine(), purpose: 'batch' } })
  const { id } = schemas.zCreateFileResponse.parse(file.data)
  const batch = await createBatch({ ...call, body: { input_file_id: id, endpoint: '/v1/chat/completions' } })
  t.is(schemas.zCreateBatchResponse.parse(batch.data).input_file_id, id)

  const video = await createVideo({ ...call, body: { prompt: 'It turns', input_reference: cat(), seconds: '4' } })
  const job = schemas.zCreateVideoResponse.parse(video.data)
  const path = { id: job.id }
  const done = await getVideo({ ...call, path, headers: { Prefer: 'wait=30' } })
  t.is(schemas.zGetVideoResponse.parse(done.data).status, 'completed')
  const content = await getVideoContent({ ...call, path, parseAs: 'blob' })
  t.true((content.data as unknown as Blob).size > 1_000)

  const { error, response } = await createChatCompletion({ client, body: { ...question, model: 'no-such-model' } })
  t.is(response?.status, 404)
  t.is(schemas.zErrorResponse.parse(error).error.code, 'model_not_found')
}
