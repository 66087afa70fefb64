import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import type OpenAi7 from 'openai-7'
import { toFile } from 'openai-7'
import { aiSdk, generationNames } from './support/ai-sdk.ts'
import { liveKey, testKey } from './support/environment.ts'
import { Attempts, clientOf, type Major, majorNames, majors } from './support/openai.ts'
import { marker, targets, wav, weather } from './support/samples.ts'

const saying = (model: string, content = 'Hello') => ({ model, messages: [{ role: 'user' as const, content }] })
const sound = () => toFile(wav(1_000), 'sound.wav', { type: 'audio/wav' })

for (const major of majorNames) {
  const classes = majors[major] as unknown as Record<string, new (...args: never[]) => Error & { param?: string }>

  test.serial(`200 ${major}: one model is retrieved; 404 for one that is not there`, async t => {
    const client = clientOf(major, testKey)
    t.like(await client.models.retrieve('gpt-5.6-luna'), { id: 'gpt-5.6-luna', object: 'model' })
    const error = await client.models.retrieve('no-such-model').catch(error => error)
    t.true(error instanceof classes.NotFoundError!)
    t.is(error.code, 'model_not_found')
  })

  test.serial(`200 ${major}: the model of an answer is the one that was asked for`, async t => {
    const client = clientOf(major, liveKey)
    for (const { model } of targets) {
      t.is((await client.chat.completions.create(saying(model))).model, model)
      for await (const chunk of await client.chat.completions.create({ ...saying(model), stream: true }))
        t.is(chunk.model, model)
    }
  })

  test.serial(`200 ${major}: several prompts in one completion`, async t => {
    const prompt = ['one', 'two']
    const { choices } = await clientOf(major, testKey).completions.create({ model: 'gpt-4.1', prompt, max_tokens: 16 })
    t.deepEqual(
      choices.map(({ index, text }) => [index, text]),
      [
        [0, 'one'],
        [1, 'two'],
      ],
    )
  })

  test.serial(`400 ${major}: providers that do not have the model are not asked for twice`, async t => {
    const attempts = new Attempts()
    const client = clientOf(major, liveKey, { fetch: attempts.fetch, maxRetries: 2 })
    const body = { ...saying('gpt-5.6-luna'), provider: { only: ['anthropic'] } }
    const error = await client.chat.completions.create(body).catch(error => error)
    t.true(error instanceof classes.BadRequestError!, String(error))
    t.is(error.param, 'provider')
    t.regex(error.message, /openai/)
    t.is(attempts.count, 1)
  })

  test.serial(`200 ${major}: a legacy function is called`, async t => {
    const functions = [weather]
    const body = { ...saying('gpt-4.1'), functions, function_call: { name: 'weather' } }
    const { choices } = await clientOf(major, testKey).chat.completions.create(body)
    t.is(choices[0]!.finish_reason, 'function_call')
    t.is(choices[0]!.message.function_call!.name, 'weather')
    t.is(typeof JSON.parse(choices[0]!.message.function_call!.arguments).city, 'string')
  })

  test.serial(`200 ${major}: a transcript by speakers`, async t => {
    const client = clientOf(major, liveKey)
    const body = { model: 'gpt-4o-transcribe-diarize', chunking_strategy: 'auto' as const, file: await sound() }
    const response_format = 'diarized_json' as const
    const transcript = await client.audio.transcriptions.create({ ...body, response_format })
    const { text, segments } = transcript as unknown as OpenAi7.Audio.TranscriptionDiarized
    t.regex(text, /\w/)
    t.true(segments.length > 0 && segments.every(({ speaker }) => /\w/.test(speaker)))
  })

  if (major !== 'openai 4')
    test.serial(`200 ${major}: images are streamed with their previews`, async t => {
      const prompt = `A cat ${marker()}`
      const body = {
        model: 'gpt-image-2',
        prompt,
        size: '1024x1024' as const,
        partial_images: 2,
        stream: true as const,
      }
      const types: string[] = []
      for await (const event of await clientOf(major, liveKey).images.generate(body)) {
        types.push(event.type)
        t.is(Buffer.from(event.b64_json, 'base64').toString('latin1', 1, 4), 'PNG')
        t.is(typeof event.size, 'string')
        if (event.type === 'image_generation.completed') t.true(event.usage.total_tokens > 0)
      }
      t.is(types.pop(), 'image_generation.completed')
      t.true(types.every(type => type === 'image_generation.partial_image'))
    })
}

for (const generation of generationNames)
  test.serial(`200 ${generation}: a transcript of gpt-4o-transcribe-diarize`, async t => {
    const { ai, openai } = aiSdk(generation, liveKey)
    const model = openai.transcription('gpt-4o-transcribe-diarize')
    t.regex((await ai.transcribe({ model, audio: wav(1_000), maxRetries: 0 })).text, /\w/)
  })

// Version 4 had no videos yet.
for (const major of ['openai 6', 'openai 7'] as Major[])
  test.serial(`200 ${major}: a video is created, polled, read, listed and deleted`, async t => {
    const { videos } = clientOf(major, testKey)
    const model = 'veo-3.1-lite' as OpenAi7.VideoModel
    const created = await videos.create({ model, prompt: 'A lighthouse at dusk', seconds: '4' })
    t.like(created, { model, seconds: '4' })
    const video = await finished(videos, created.id)
    t.like(video, { status: 'completed', progress: 100, error: null })
    const content = await videos.downloadContent(video.id)
    t.is(Buffer.from(await content.arrayBuffer()).toString('latin1', 4, 8), 'ftyp')
    t.true((await videos.list({ limit: 20 })).data.some(({ id }) => id === video.id))
    t.like(await videos.delete(video.id), { id: video.id, deleted: true })
    const error = await videos.retrieve(video.id).catch(error => error)
    t.is(error.status, 404)
  })

async function finished(videos: OpenAi7['videos'], id: string): Promise<OpenAi7.Video> {
  for (let looks = 0; looks < 1_200; looks++) {
    const video = await videos.retrieve(id)
    if (video.status === 'completed' || video.status === 'failed') return video
    await sleep(100)
  }
  throw new Error(`video ${id} does not end`)
}
