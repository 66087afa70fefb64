import { GoogleGenAI, Modality } from '@google/genai'
import OpenAI from 'openai'
import type { MusicInput } from '../../../shared/kinds/music.ts'
import { json, type Reply } from '../../emulators/emulator.ts'
import { blockedPrompt, countTokens } from '../../emulators/gemini.ts'
import { songSeconds, tokensPerSecond, voices } from '../../emulators/gemini-interactions.ts'
import { startGeminiMedia } from '../../emulators/gemini-media.ts'
import { chargedNano, expectedNano, upstreamSecret, type World } from '../../support/chat/gateway.ts'
import { providerFault, refusedField } from '../../support/jobs/queued-adapter.ts'
import { decodedSeconds, sound } from '../../support/media/sounds.ts'
import {
  heard,
  made,
  musicCall,
  newerVoice,
  olderVoice,
  text,
  textSeconds,
} from '../../support/providers/gemini-sound.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const emulator = use(test, startGeminiMedia)
const gateway = useGateway(test, () => ({ GEMINI_API_KEY: upstreamSecret, GEMINI_BASE_URL: emulator.url }))
test.beforeEach(() => emulator.reset())

const sdk = () => new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: emulator.url } })

const interaction = {
  model: newerVoice,
  input: [{ type: 'user_input' as const, content: [{ type: 'text' as const, text }] }],
  response_format: { type: 'audio' as const },
  generation_config: { speech_config: [{ voice: 'Puck' }] },
}

test.serial('200 to the official SDK: an interaction, whole and streamed, and a song', async t => {
  const whole = await sdk().interactions.create({ ...interaction, store: false })
  const [step] = whole.steps as { content: { type: string; data: string; mime_type: string }[] }[]
  const [audio] = step!.content
  t.like(audio, { type: 'audio', mime_type: 'audio/wav' })
  t.true(Math.abs((await decodedSeconds(Buffer.from(audio!.data, 'base64'))) - textSeconds) < 0.1)
  t.like(whole.usage, {
    total_input_tokens: countTokens(text),
    total_output_tokens: Math.ceil(textSeconds * tokensPerSecond),
  })

  const parts: Buffer[] = []
  const kinds = new Set<string>()
  for await (const event of await sdk().interactions.create({ ...interaction, stream: true })) {
    kinds.add(event.event_type!)
    if (event.event_type === 'step.delta' && event.delta.type === 'audio') {
      t.is(event.delta.mime_type, 'audio/l16')
      parts.push(Buffer.from(event.delta.data!, 'base64'))
    }
    if (event.event_type === 'interaction.completed')
      t.is(event.interaction.usage!.total_output_tokens, whole.usage!.total_output_tokens)
  }
  t.true(kinds.has('interaction.completed') && kinds.has('step.stop'))
  t.true(Buffer.concat(parts).equals(await sound('pcm', textSeconds)))

  const song = await sdk().interactions.create({ model: 'lyria-3-clip-preview', input: 'A waltz' })
  const content = (song.steps as (typeof step)[]).flatMap(each => each!.content)
  t.is(content.find(block => block.type === 'audio')!.mime_type, 'audio/mpeg')
})

test.serial('200 to the official SDK: speech by generateContent, whole and streamed', async t => {
  const request = {
    model: olderVoice,
    contents: text,
    config: {
      responseModalities: [Modality.AUDIO],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
    },
  }
  const { candidates, usageMetadata } = await sdk().models.generateContent(request)
  const { inlineData } = candidates![0]!.content!.parts![0]!
  t.is(inlineData!.mimeType, 'audio/L16;codec=pcm;rate=24000')
  t.true(Buffer.from(inlineData!.data!, 'base64').equals(await sound('pcm', textSeconds)))
  t.is(usageMetadata!.candidatesTokenCount, Math.ceil(textSeconds * tokensPerSecond))
  const parts: Buffer[] = []
  for await (const chunk of await sdk().models.generateContentStream(request))
    parts.push(Buffer.from(chunk.candidates![0]!.content!.parts![0]!.inlineData!.data!, 'base64'))
  t.true(parts.length > 5)
  t.true(Buffer.concat(parts).equals(await sound('pcm', textSeconds)))
})

test.serial('400 and 404 to the official SDK: what the real one refuses', async t => {
  const create = (fields: object) => sdk().interactions.create({ ...interaction, ...fields } as never)
  const refusals: [object, RegExp][] = [
    [{ generation_config: { speech_config: [{ voice: 'Nobody' }] } }, /Voice name Nobody is not supported/],
    [{ generation_config: { speech_config: { voice: 'Kore' } } }, /Expected an array, got object/],
    [{ response_format: { type: 'audio', mime_type: 'audio/mp3' } }, /mime_type audio\/mp3 is not supported/],
    [{ system_instruction: 'Be kind' }, /Developer instruction is not enabled/],
    [{ model: 'gemini-none-tts' }, /not found/],
    [
      { model: 'lyria-3.5', response_format: { type: 'audio', mime_type: 'audio/mp3' } },
      /mime_type is not supported in response_format/,
    ],
  ]
  for (const [fields, message] of refusals) await t.throwsAsync(create(fields), { message })
  const ask = (config: object) => sdk().models.generateContent({ model: olderVoice, contents: 'Hi', config })
  await t.throwsAsync(ask({}), { message: /response modalities/ })
  await t.throwsAsync(ask({ responseModalities: ['AUDIO'] }), { message: /invalid argument/ })
})

const compose = (input?: Partial<MusicInput>) => made('music', emulator.url, musicCall(input))

test.serial('200: a song, told in words, as mp3 that decodes', async t => {
  const { bytes } = await heard(await compose(), 'mp3')
  t.true(Math.abs((await decodedSeconds(bytes)) - songSeconds) < 0.2)
  t.deepEqual(emulator.requests[0]!.body, {
    model: 'lyria-3-clip-preview',
    input: 'A waltz',
    response_format: { type: 'audio' },
    store: false,
  })
  await compose({ instrumental: true, durationS: 30 })
  t.is(emulator.requests[1]!.body.input, 'A waltz\n\nInstrumental only, no vocals.')
})

test.serial('400 for a song, unsent: lyrics, another length, another format', async t => {
  t.is(await refusedField(compose({ lyrics: 'La' })), 'lyrics')
  t.is(await refusedField(compose({ durationS: 20 })), 'duration_s')
  t.is(await refusedField(compose({ format: 'wav' })), 'output_format')
  t.is(emulator.requests.length, 0)
})

const silent = { status: 'completed', steps: [{ type: 'model_output', content: [{ type: 'text', text: 'La' }] }] }
const songs: [string, Reply, string][] = [
  ['words alone', json(200, silent), 'invalid_response'],
  [
    'a failure',
    json(200, { status: 'failed', steps: [], errors: [{ code: 'internal', message: 'Oops' }] }),
    'server_error',
  ],
  [
    'a failed step',
    json(200, {
      status: 'failed',
      steps: [{ type: 'model_output', error: { code: 3, message: 'Prohibited content' } }],
    }),
    'content_filter',
  ],
  ['no steps', json(200, { status: 'completed' }), 'invalid_response'],
  ['no status', json(200, { steps: [] }), 'invalid_response'],
  ['no JSON', json(200, 'hello'), 'invalid_response'],
  ['a prompt of the wrong kind', blockedPrompt(), 'invalid_response'],
]
for (const [what, reply, reason] of songs) {
  test.serial(`${reason} when a song is ${what}`, async t => {
    emulator.next(reply)
    t.is((await providerFault(compose())).reason, reason as never)
  })
}

const world = () => ({ gateway }) as World
const openai = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

for (const format of ['wav', 'pcm'] as const) {
  test.serial(`200 to OpenAI’s SDK: audio.speech.create as ${format}, billed by the token`, async t => {
    const account = await gateway.account()
    const body = {
      model: newerVoice,
      voice: 'Zephyr',
      input: text,
      response_format: format,
      instructions: 'Cheerfully',
    }
    const response = await openai(account.live).audio.speech.create(body)
    t.is(response.headers.get('content-type'), `audio/${format}`)
    const bytes = Buffer.from(await response.arrayBuffer())
    t.true(Math.abs((await decodedSeconds(bytes, format)) - textSeconds) < 0.01)
    const tokens = Math.ceil(textSeconds * tokensPerSecond)
    const usage = { prompt_tokens: countTokens(`${text}Cheerfully`), completion_tokens: tokens, total_tokens: 0 }
    t.is(await chargedNano(world(), account), expectedNano(newerVoice, usage))
  })
}

test.serial('200: every voice of the rows is one of Gemini’s, and the first is the usual one', async t => {
  const { live } = await gateway.account()
  for (const model of [newerVoice, 'gemini-3.8-flash-lite-tts']) {
    const row = gateway.services.catalog.find(model)!
    t.deepEqual(row.kind!.voices, voices)
    const body = { model, input: 'Hi', response_format: 'pcm' }
    t.is((await gateway.fetch('/v1/audio/speech', { key: live, body })).status, 200)
    t.is(emulator.requests.at(-1)!.body.generation_config.speech_config[0].voice, voices[0])
  }
})

test.serial('400 and free: a format, a voice or a speed that Gemini does not have', async t => {
  const account = await gateway.account()
  for (const [param, fields] of [
    ['response_format', { response_format: 'mp3' }],
    ['voice', { voice: 'alloy', response_format: 'wav' }],
    ['speed', { speed: 2, response_format: 'wav' }],
  ] as const) {
    const body = { model: newerVoice, input: text, ...fields }
    const response = await gateway.fetch('/v1/audio/speech', { key: account.live, body })
    t.is(response.status, 400)
    t.like(await response.json(), { error: { code: 'unsupported_capability', param } })
  }
  t.is(emulator.requests.length, 0)
  t.is(await chargedNano(world(), account), 0)
})

test.serial('200: a song has one price', async t => {
  const account = await gateway.account()
  const body = { model: 'lyria-3-clip', prompt: 'A waltz', instrumental: true }
  const response = await gateway.fetch('/v1/audio/music', { key: account.live, body })
  t.is(response.status, 200)
  t.is(response.headers.get('content-type'), 'audio/mpeg')
  t.true((await decodedSeconds(Buffer.from(await response.arrayBuffer()))) > 1)
  // $0.04 and the margin of five per cent.
  t.is(await chargedNano(world(), account), 42_000_000)
  const refused = await gateway.fetch('/v1/audio/music', { key: account.live, body: { ...body, duration_s: 10 } })
  t.like(await refused.json(), { error: { code: 'unsupported_capability', param: 'duration_s' } })
})
