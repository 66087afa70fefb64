import test from 'ava'
import type OpenAi7 from 'openai-7'
import { toFile } from 'openai-7'
import { liveKey, requestsTo, testKey } from './support/environment.ts'
import { clientOf, majorNames } from './support/openai.ts'
import { image, marker, wav } from './support/samples.ts'

const sound = () => toFile(wav(1_000), 'sound.wav', { type: 'audio/wav' })
const isPng = (bytes: Buffer) => bytes.toString('latin1', 1, 4) === 'PNG'
const decoded = (text?: string) => Buffer.from(text ?? '', 'base64')

for (const major of majorNames) {
  test.serial(`200 ${major}: images are generated and edited`, async t => {
    const client = clientOf(major, liveKey)
    const prompt = `A cat ${marker()}`
    const drawn = await client.images.generate({
      model: 'gpt-image-2',
      prompt,
      n: 2,
      size: '1024x1024',
      quality: 'low',
    })
    t.is(drawn.data!.length, 2)
    for (const { b64_json, url } of drawn.data!)
      t.true(isPng(url ? Buffer.from(await (await fetch(url)).arrayBuffer()) : decoded(b64_json)))
    t.true(drawn.usage!.total_tokens > 0)
    const [request] = await requestsTo('openai', prompt)
    t.like(request!.body, { prompt, n: 2, size: '1024x1024', quality: 'low' })
    const change = `In red ${marker()}`
    const picture = await toFile(image, 'cat.png', { type: 'image/png' })
    const edited = await client.images.edit({ model: 'gpt-image-2', prompt: change, image: picture })
    t.is(edited.data!.length, 1)
    t.is((await requestsTo('openai', change))[0]!.path, '/v1/images/edits')
  })

  test.serial(`200 ${major}: speech`, async t => {
    const input = `Good morning ${marker()}`
    const body = { model: 'gpt-4o-mini-tts', voice: 'alloy', input, response_format: 'wav' as const }
    const response = await clientOf(major, liveKey).audio.speech.create(body)
    t.is(response.headers.get('content-type'), 'audio/wav')
    t.is(Buffer.from(await response.arrayBuffer()).toString('latin1', 0, 4), 'RIFF')
    t.is((await requestsTo('openai', input))[0]!.body.voice, 'alloy')
  })

  test.serial(`200 ${major}: transcription in every format, and streamed`, async t => {
    const client = clientOf(major, liveKey)
    const whole = await client.audio.transcriptions.create({ file: await sound(), model: 'gpt-4o-transcribe' })
    t.regex(whole.text, /\w/)
    const told = { file: await sound(), model: 'whisper-1', timestamp_granularities: ['word' as const] }
    const verbose = await client.audio.transcriptions.create({ ...told, response_format: 'verbose_json' })
    t.true(verbose.duration > 0 && verbose.words!.length > 0)
    for (const [format, start] of [
      ['srt', '1\n'],
      ['vtt', 'WEBVTT'],
      ['text', ''],
    ] as const) {
      const subtitles = { file: await sound(), model: 'whisper-1', response_format: format }
      const text: unknown = await client.audio.transcriptions.create(subtitles)
      t.true(typeof text === 'string' && text.length > 0 && text.startsWith(start), format)
    }
    const streamed = { file: await sound(), model: 'gpt-4o-transcribe', stream: true as const }
    const types = new Set<string>()
    let text = ''
    for await (const event of await client.audio.transcriptions.create(streamed)) {
      types.add(event.type)
      if (event.type === 'transcript.text.delta') text += event.delta
      if (event.type === 'transcript.text.done') t.is(event.text, text)
    }
    t.deepEqual([...types], ['transcript.text.delta', 'transcript.text.done'])
  })

  test.serial(`200 ${major}: a batch from file to results`, async t => {
    const client = clientOf(major, testKey)
    const lines = ['one', 'two'].map(custom_id => {
      const body = { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: `Hello ${custom_id}` }] }
      return JSON.stringify({ custom_id, method: 'POST', url: '/v1/chat/completions', body })
    })
    const input = await client.files.create({
      purpose: 'batch',
      file: await toFile(Buffer.from(lines.join('\n')), 'in.jsonl'),
    })
    t.like(await client.files.retrieve(input.id), { id: input.id, object: 'file', purpose: 'batch' })
    t.is(await (await client.files.content(input.id)).text(), lines.join('\n'))
    const settings = { endpoint: '/v1/chat/completions' as const, completion_window: '24h' as const }
    const batch = await client.batches.create({ ...settings, input_file_id: input.id })
    const done = await completed(client, batch.id)
    t.deepEqual(done.request_counts, { total: 2, completed: 2, failed: 0 })
    const output = await (await client.files.content(done.output_file_id!)).text()
    const answers = output
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    t.deepEqual(answers.map(({ custom_id }) => custom_id).sort(), ['one', 'two'])
    for (const { custom_id, response } of answers) t.is(response.body.choices[0].message.content, `Hello ${custom_id}`)
    const listed = await client.batches.list({ limit: 1 })
    t.is(listed.data.length, 1)
    t.like(await deleteFile(client, input.id), { id: input.id, deleted: true })
  })
}

/** Version 4 calls it `del`. */
function deleteFile({ files }: OpenAi7, id: string): Promise<unknown> {
  const older = files as unknown as { del?: OpenAi7['files']['delete'] }
  return older.del ? older.del.call(files, id) : files.delete(id)
}

async function completed(client: OpenAi7, id: string): Promise<OpenAi7.Batches.Batch> {
  for (let looks = 0; looks < 600; looks++) {
    const batch = await client.batches.retrieve(id)
    if (batch.status === 'completed') return batch
    if (['failed', 'expired', 'cancelled'].includes(batch.status)) throw new Error(JSON.stringify(batch))
    await new Promise(resolve => setTimeout(resolve, 200))
  }
  throw new Error(`batch ${id} does not end`)
}
