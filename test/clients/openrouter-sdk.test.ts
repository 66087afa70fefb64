import { OpenRouter } from '@openrouter/sdk'
import type { EventStream } from '@openrouter/sdk/lib/event-streams.js'
import type { ChatRequest, ChatResult, ChatStreamChunk } from '@openrouter/sdk/models'
import { OpenRouterError } from '@openrouter/sdk/models/errors'
import test from 'ava'
import { baseUrl, createKey, emptyKey, liveKey, requestsTo, testKey } from './support/environment.ts'
import { image, imageUri, marker, person, targets, wav, weather } from './support/samples.ts'

const clientOf = (apiKey: string) => new OpenRouter({ apiKey, serverURL: baseUrl, retryConfig: { strategy: 'none' } })

async function ask(client: OpenRouter, chatRequest: ChatRequest): Promise<ChatResult> {
  const answer = await client.chat.send({ chatRequest: { ...chatRequest, stream: false } })
  if (!('choices' in answer)) throw new Error('expected a whole answer')
  return answer
}

async function stream(client: OpenRouter, chatRequest: ChatRequest): Promise<EventStream<ChatStreamChunk>> {
  const answer = await client.chat.send({ chatRequest: { ...chatRequest, stream: true } })
  if ('choices' in answer) throw new Error('expected a stream')
  return answer
}

for (const { model, provider } of targets) {
  const client = clientOf(liveKey)
  const asking = (content: string): ChatRequest => ({ model, messages: [{ role: 'user', content }] })

  test.serial(`200 @openrouter/sdk, ${provider}: chat streamed, with usage and cost`, async t => {
    const question = `Hello ${marker()}`
    let text = ''
    const costs: number[] = []
    for await (const { choices, usage } of await stream(client, asking(question))) {
      text += choices[0]?.delta.content ?? ''
      if (usage?.cost) costs.push(usage.cost)
    }
    t.is(text, `Echo: ${question}`)
    t.is(costs.length, 1)
  })

  test.serial(`200 @openrouter/sdk, ${provider}: two tool calls in a stream`, async t => {
    const tools = [{ type: 'function' as const, function: weather }]
    const chatRequest = { ...asking('What is the weather in Oslo and Rome?'), tools }
    const written: string[] = []
    for await (const { choices } of await stream(client, chatRequest))
      for (const { index, function: part } of choices[0]?.delta.toolCalls ?? [])
        written[index] = (written[index] ?? '') + (part?.arguments ?? '')
    t.deepEqual(
      written.map(text => JSON.parse(text).city),
      ['Oslo', 'Rome'],
    )
  })

  test.serial(`200 @openrouter/sdk, ${provider}: chat with usage and cost, structured output and an image`, async t => {
    const question = `What is this? ${marker()}`
    const content = [
      { type: 'text' as const, text: question },
      { type: 'image_url' as const, imageUrl: { url: imageUri } },
    ]
    const { choices, usage } = await ask(client, { model, messages: [{ role: 'user', content }] })
    t.true(String(choices[0]!.message.content).includes(question))
    t.true(usage!.cost! > 0)
    t.true((await requestsTo(provider, question))[0]!.raw.includes(image.toString('base64')))
    const jsonSchema = { name: 'person', strict: true, schema: person }
    const structured = await ask(client, { ...asking('Who?'), responseFormat: { type: 'json_schema', jsonSchema } })
    t.is(typeof JSON.parse(String(structured.choices[0]!.message.content)).age, 'number')
  })
}

const hello = (model = 'auto'): ChatRequest => ({ model, messages: [{ role: 'user', content: 'Hello' }] })

// Its own error classes want numbers as codes; ours are names, as OpenAI's are.
test.serial('each refusal is an error of the SDK with the status', async t => {
  const limited = await createKey({ environment: 'test', rpm_limit: 1 })
  await ask(clientOf(limited), hello()).catch(() => {}) // All that is wanted is that it counts.
  const refusals: [key: string, request: ChatRequest, status: number][] = [
    ['svc_sk_test_nobody', hello(), 401],
    [emptyKey, hello('gpt-5.6-luna'), 402],
    [testKey, hello('no-such-model'), 404],
    [testKey, { ...hello(), temperature: 9 }, 400],
    [limited, hello(), 429],
  ]
  for (const [key, request, status] of refusals) {
    const error = await ask(clientOf(key), request).catch(error => error)
    t.true(error instanceof OpenRouterError, String(error))
    t.is(error.statusCode, status)
  }
})

test.serial('200 @openrouter/sdk: embeddings, speech and a transcription', async t => {
  const client = clientOf(liveKey)
  const requestBody = { model: 'text-embedding-3-small', input: ['one', 'two'] }
  const embedded = await client.embeddings.generate({ requestBody })
  t.is(typeof embedded === 'string' ? 0 : embedded.data.length, 2)
  const speechRequest = { model: 'gpt-4o-mini-tts', input: `Good morning ${marker()}`, voice: 'alloy' }
  const sound = await client.tts.createSpeech({ speechRequest: { ...speechRequest, responseFormat: 'mp3' } })
  t.true((await new Response(sound).arrayBuffer()).byteLength > 0)
  const file = { fileName: 'sound.wav', content: new Blob([new Uint8Array(wav(1_000))], { type: 'audio/wav' }) }
  const { text } = await client.stt.createTranscriptionMultipart({ requestBody: { model: 'gpt-4o-transcribe', file } })
  t.regex(text, /\w/)
  const inputAudio = { data: Buffer.from(wav(1_000)).toString('base64'), format: 'wav' }
  const asJson = await client.stt.createTranscription({ sttRequest: { model: 'gpt-4o-transcribe', inputAudio } })
  t.regex(asJson.text, /\w/)
})

test.serial('200 @openrouter/sdk: images', async t => {
  const client = clientOf(liveKey)
  const answer = await client.images.generate({
    imageGenerationRequest: { model: 'gpt-image-2', prompt: `A cat ${marker()}`, size: '1024x1024' },
  })
  if (!('data' in answer)) return t.fail('expected a whole answer')
  t.is(Buffer.from(answer.data[0]!.b64Json, 'base64').toString('latin1', 1, 4), 'PNG')
  t.true(answer.usage!.cost! > 0)
})
