import { examineImage } from '../../shared/io/media/images.ts'
import type { SoundFormat } from '../../shared/kinds/sound.ts'
import { png } from '../../shared/providers/sandbox/media/media.ts'
import { events, json, type Reply } from '../emulators/emulator.ts'
import { tokenCounts } from '../emulators/gemini.ts'
import { chatReply, promptTokens, tokensIn } from '../emulators/openai.ts'
import { audioTokensIn, spokenSeconds } from '../emulators/openai-chat-sound.ts'
import { chargedNano, dataOf, expectedNano, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import type { Account } from '../support/gateway.ts'
import { decodedSeconds } from '../support/media/sounds.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.gemini, world.openrouter, world.anthropic]) emulator.reset()
})

const painter = 'gemini-3.1-flash-image'
const speaker = 'gpt-audio-1.5'
const whole = png(8).toString('base64')
/** Cut off in its pixels: its head says all is well. */
const broken = png(64).subarray(0, 60).toString('base64')

/** Gemini's answer with some text and images, counted as Gemini counts. */
function painted(text: string, images: string[], stream: boolean): Reply {
  const parts = [...(text ? [{ text }] : []), ...images.map(data => ({ inlineData: { mimeType: 'image/png', data } }))]
  const imageTokens = images.length * tokenCounts.imageOutput
  const answer = {
    candidates: [{ content: { parts, role: 'model' }, finishReason: 'STOP', index: 0 }],
    usageMetadata: {
      promptTokenCount: 10,
      candidatesTokenCount: tokensIn(text) + imageTokens,
      totalTokenCount: 10 + tokensIn(text) + imageTokens,
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: imageTokens }],
    },
    modelVersion: painter,
    responseId: 'painted',
  }
  return stream ? events([`data: ${JSON.stringify(answer)}\r\n\r\n`]) : json(200, answer)
}

const paint = (account: Account, more: object = {}) =>
  world.gateway.fetch('/v1/chat/completions', {
    key: account.live,
    body: saying(painter, 'Paint', { modalities: ['image', 'text'], ...more }),
  })

/** What one of two images and four letters of text cost. */
const oneImage = (text: string) =>
  expectedNano(painter, {
    prompt_tokens: 10,
    completion_tokens: tokensIn(text) + tokenCounts.imageOutput,
    total_tokens: 0,
    completion_tokens_details: { image_tokens: tokenCounts.imageOutput },
  })

test.serial('200 without an image that cannot be decoded, which costs nothing', async t => {
  const account = await world.gateway.account()
  world.gemini.next(painted('Here', [whole, broken], false))
  const response = await paint(account)
  const { choices, usage } = (await response.json()) as Json
  t.is(response.status, 200)
  t.is(choices[0].message.content, 'Here')
  t.deepEqual(choices[0].message.images, [{ type: 'image_url', image_url: { url: `data:image/png;base64,${whole}` } }])
  t.is(usage.completion_tokens, tokensIn('Here') + tokenCounts.imageOutput)
  t.is(usage.completion_tokens_details.image_tokens, tokenCounts.imageOutput)
  t.is(await chargedNano(world, account), oneImage('Here'))
})

test.serial('200 with the text alone when no image can be decoded', async t => {
  const account = await world.gateway.account()
  world.gemini.next(painted('Here', [broken], false))
  const { choices, usage } = (await (await paint(account)).json()) as Json
  t.deepEqual(choices[0].message, { role: 'assistant', content: 'Here' })
  const counts = { prompt_tokens: 10, completion_tokens: tokensIn('Here'), total_tokens: 0 }
  t.is(usage.completion_tokens, counts.completion_tokens)
  t.is(await chargedNano(world, account), expectedNano(painter, counts))
})

test.serial('502 when nothing but an image came that cannot be decoded, and nothing is billed', async t => {
  const account = await world.gateway.account()
  // However often it is tried again.
  world.gemini.next(...Array.from({ length: 8 }, (_, i) => painted('', [i % 2 ? broken : 'AAAA'], false)))
  const response = await paint(account)
  const { error } = (await response.json()) as Json
  t.deepEqual([response.status, error.code], [502, 'upstream_invalid_response'])
  t.true(error.metadata.attempts.every(({ reason }: Json) => reason === 'invalid_response'))
  t.is(await chargedNano(world, account), 0)
})

test.serial('200 from the next model when the first gives an image that cannot be decoded', async t => {
  const account = await world.gateway.account()
  world.gemini.next(painted('', [broken], false))
  const response = await paint(account, { models: [painter, 'gemini-2.5-flash-image'] })
  const { choices, model } = (await response.json()) as Json
  t.is(response.status, 200)
  t.is(model, 'gemini-2.5-flash-image')
  t.is(choices[0].message.images.length, 1)
  t.true((await chargedNano(world, account)) > 0)
})

test.serial('200 streamed: an image that cannot be decoded costs nothing', async t => {
  const account = await world.gateway.account()
  world.gemini.next(painted('Here', [whole, broken], true))
  const response = await paint(account, { stream: true, stream_options: { include_usage: true } })
  const chunks = dataOf(await response.text())
  t.is(chunks.at(-1), '[DONE]')
  t.is(chunks.flatMap(chunk => chunk.choices?.[0]?.delta.images ?? []).length, 2)
  t.is(chunks.at(-2).usage.completion_tokens, tokensIn('Here') + tokenCounts.imageOutput)
  t.is(await chargedNano(world, account), oneImage('Here'))
})

test.serial('200 streamed: nothing is billed when all that came is an image that cannot be decoded', async t => {
  const account = await world.gateway.account()
  world.gemini.next(painted('', [broken], true))
  const response = await paint(account, { stream: true })
  t.regex(await response.text(), /\[DONE\]/)
  t.is(await chargedNano(world, account), 0)
})

test.serial(
  '200: where a provider does not count images apart, theirs are the tokens that nothing else explains',
  async t => {
    const account = await world.gateway.account()
    const image = (data: string) => ({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } })
    const message = { role: 'assistant', content: 'Hello', images: [image(whole), image(broken)] }
    const usage = { prompt_tokens: 5, completion_tokens: 2_001, total_tokens: 2_006 }
    const head = { id: 'drawn', object: 'chat.completion', created: 1_795_132_800, model: 'gpt-4.1' }
    world.openai.next(json(200, { ...head, choices: [{ index: 0, message, finish_reason: 'stop' }], usage }))
    const response = await world.gateway.fetch('/v1/chat/completions', { key: account.live, body: saying('gpt-4.1') })
    const answer = (await response.json()) as Json
    t.deepEqual(answer.choices[0].message.images, [image(whole)])
    t.is(answer.usage.completion_tokens, 1_001)
    t.is(await chargedNano(world, account), expectedNano('gpt-4.1', { ...usage, completion_tokens: 1_001 }))
  },
)

const audioOf = (format: string) => ({ modalities: ['text', 'audio'], audio: { voice: 'alloy', format } })
const formats = [
  ['wav', 'wav'],
  ['mp3', 'mp3'],
  ['flac', 'flac'],
  ['opus', 'opus'],
  ['aac', 'aac'],
  ['pcm16', 'pcm'],
] as const satisfies [string, SoundFormat][]

/** What the emulator counts for an echo of `Hello gateway` that is spoken. */
const spokenUsage = {
  prompt_tokens: promptTokens([{ content: 'Hello gateway' }]),
  completion_tokens: tokensIn('Echo: Hello gateway') + audioTokensIn('Echo: Hello gateway'),
  total_tokens: 0,
  completion_tokens_details: { audio_tokens: audioTokensIn('Echo: Hello gateway') },
}

/** How long a message's sound really is. */
const secondsOf = ({ audio }: Json, format: SoundFormat) => decodedSeconds(Buffer.from(audio.data, 'base64'), format)

function nearly(t: ExecutionContext, seconds: number, expected: number): void {
  t.true(Math.abs(seconds - expected) < 0.1, `${seconds} s instead of ${expected} s`)
}

for (const [name, format] of formats) {
  test.serial(`200 sound as ${name}, whole, billed by its audio tokens`, async t => {
    const account = await world.gateway.account()
    const response = await world.gateway.fetch('/v1/chat/completions', {
      key: account.live,
      body: saying(speaker, 'Hello gateway', audioOf(name)),
    })
    const { choices, usage } = (await response.json()) as Json
    const { message } = choices[0]
    t.is(message.content, null)
    t.deepEqual(Object.keys(message.audio).sort(), ['data', 'expires_at', 'id', 'transcript'])
    t.is(message.audio.transcript, 'Echo: Hello gateway')
    nearly(t, await secondsOf(message, format), spokenSeconds)
    t.is(usage.completion_tokens_details.audio_tokens, spokenUsage.completion_tokens_details.audio_tokens)
    t.is(await chargedNano(world, account), expectedNano(speaker, spokenUsage))
  })
}

test.serial('200 sound streamed as raw samples, billed by its audio tokens', async t => {
  const account = await world.gateway.account()
  const stream = await world.sdk(account.live).chat.completions.create({
    model: speaker,
    messages: [{ role: 'user', content: 'Hello gateway' }],
    modalities: ['text', 'audio'],
    audio: { voice: 'alloy', format: 'pcm16' },
    stream: true,
    stream_options: { include_usage: true },
  })
  const audio = { id: '', transcript: '', data: [] as Buffer[], expires_at: 0 }
  let audioTokens: number | undefined
  for await (const chunk of stream) {
    const delta = (chunk.choices[0]?.delta as Json)?.audio ?? {}
    audio.id += delta.id ?? ''
    audio.transcript += delta.transcript ?? ''
    if (delta.data) audio.data.push(Buffer.from(delta.data, 'base64'))
    audio.expires_at = delta.expires_at ?? audio.expires_at
    audioTokens = chunk.usage?.completion_tokens_details?.audio_tokens ?? audioTokens
  }
  t.is(audio.transcript, 'Echo: Hello gateway')
  t.is(audio.id, 'audio_1')
  t.true(audio.expires_at > 0)
  t.is(await decodedSeconds(Buffer.concat(audio.data), 'pcm'), spokenSeconds)
  t.is(audioTokens, spokenUsage.completion_tokens_details.audio_tokens)
  t.is(await chargedNano(world, account), expectedNano(speaker, spokenUsage))
})

test.serial('200 sound that breaks off is billed by the audio tokens that were delivered', async t => {
  const account = await world.gateway.account()
  world.openai.next(chatReply({ cutAfter: 3 }))
  const response = await world.gateway.fetch('/v1/chat/completions', {
    key: account.live,
    body: saying(speaker, 'Hello gateway', { ...audioOf('pcm16'), stream: true }),
  })
  t.regex(await response.text(), /"finish_reason":"error"/)
  const charged = await chargedNano(world, account)
  const { promptTokens, completionTokens, estimated } = await generationOf(
    world,
    response.headers.get('x-generation-id')!,
  )
  const usage = { prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: 0 }
  // Twenty audio tokens a second.
  const audio_tokens = spokenSeconds * 20
  t.true(estimated)
  t.true(completionTokens > audio_tokens)
  t.is(charged, expectedNano(speaker, { ...usage, completion_tokens_details: { audio_tokens } }))
})

test.serial('200 with the transcript alone: sound that did not come is not billed', async t => {
  const account = await world.gateway.account()
  const audio = { id: 'audio_1', data: '', expires_at: 1_900_000_000, transcript: 'Hello' }
  const message = { role: 'assistant', content: null, audio }
  const head = { id: 'silent', object: 'chat.completion', created: 1_795_132_800, model: speaker }
  const usage = {
    prompt_tokens: 5,
    completion_tokens: 52,
    total_tokens: 57,
    completion_tokens_details: { audio_tokens: 50 },
  }
  world.openai.next(json(200, { ...head, choices: [{ index: 0, message, finish_reason: 'stop' }], usage }))
  const response = await world.gateway.fetch('/v1/chat/completions', {
    key: account.live,
    body: saying(speaker, 'Hello gateway', audioOf('mp3')),
  })
  const answer = (await response.json()) as Json
  t.is(answer.usage.completion_tokens, 2)
  t.is(answer.usage.completion_tokens_details.audio_tokens, 0)
  t.is(
    await chargedNano(world, account),
    expectedNano(speaker, { prompt_tokens: 5, completion_tokens: 2, total_tokens: 0 }),
  )
})

const refusals: [title: string, body: object, code: string, param: string, asked: number][] = [
  ['sound is asked for without `audio`', { modalities: ['text', 'audio'] }, 'missing_field', 'audio', 0],
  ['the voice is missing', { modalities: ['audio'], audio: { format: 'wav' } }, 'missing_field', 'audio.voice', 0],
  ['the format is missing', { modalities: ['audio'], audio: { voice: 'alloy' } }, 'missing_field', 'audio.format', 0],
  ['the format is unknown', audioOf('midi'), 'invalid_request', 'audio.format', 0],
  ['the format cannot be streamed', { ...audioOf('wav'), stream: true }, 'invalid_request', 'audio.format', 1],
  ['no model is named', { modalities: ['text', 'audio'], model: 'auto' }, 'missing_field', 'audio', 0],
  ['the model gives no sound', { ...audioOf('wav'), model: 'gpt-4.1' }, 'unsupported_capability', 'modalities', 0],
]
for (const environment of ['live', 'test'] as const) {
  for (const [title, more, code, param, asked] of refusals) {
    test.serial(`400 when ${title} with a ${environment} key`, async t => {
      const account = await world.gateway.account()
      const response = await world.gateway.fetch('/v1/chat/completions', {
        key: account[environment],
        body: saying(speaker, 'Hello gateway', more),
      })
      const { error } = (await response.json()) as Json
      t.deepEqual([response.status, error.code, error.param], [400, code, param], error.message)
      t.is(world.openai.requests.length, environment === 'live' ? asked : 0)
      t.is(await chargedNano(world, account), 0)
    })
  }
}

for (const [name, format] of formats) {
  test.serial(`200 sound as ${name} from the sandbox`, async t => {
    const account = await world.gateway.account()
    const said = 'As long as fifteen characters a second make it.'
    const response = await world.gateway.fetch('/v1/chat/completions', {
      key: account.test,
      body: saying(speaker, said, { ...audioOf(name), n: 2 }),
    })
    const { choices, usage } = (await response.json()) as Json
    t.is(response.headers.get('x-sandbox'), 'true')
    t.is(choices.length, 2)
    for (const { message } of choices) {
      t.is(message.audio.transcript, said)
      nearly(t, await secondsOf(message, format), said.length / 15)
    }
    t.true(usage.completion_tokens_details.audio_tokens > 0)
    t.is(usage.cost, 0)
    t.is(await chargedNano(world, account), 0)
    t.is(world.openai.requests.length, 0)
  })
}

test.serial('200 sound streamed from the sandbox in several parts', async t => {
  const account = await world.gateway.account()
  const said = 'As long as fifteen characters a second make it.'
  const response = await world.gateway.fetch('/v1/chat/completions', {
    key: account.test,
    body: saying(speaker, said, { ...audioOf('pcm16'), stream: true }),
  })
  const deltas = dataOf(await response.text()).flatMap(chunk => chunk.choices?.[0]?.delta.audio ?? [])
  const parts = deltas.flatMap(({ data }) => (data ? [Buffer.from(data, 'base64')] : []))
  t.is(deltas.map(({ transcript = '' }) => transcript).join(''), said)
  t.true(parts.length > 1)
  nearly(t, await decodedSeconds(Buffer.concat(parts), 'pcm'), said.length / 15)
  t.is(world.openai.requests.length, 0)
})

for (const stream of [false, true]) {
  test.serial(`200 an image that decodes from the sandbox, ${stream ? 'streamed' : 'whole'}`, async t => {
    const account = await world.gateway.account()
    const response = await world.gateway.fetch('/v1/chat/completions', {
      key: account.test,
      body: saying(painter, 'Paint', { modalities: ['image', 'text'], stream }),
    })
    const text = await response.text()
    const [, data] = /"url":"data:image\/png;base64,([^"]+)"/.exec(text) ?? []
    t.is((await examineImage(Buffer.from(data!, 'base64')))?.contentType, 'image/png')
    t.is(response.headers.get('x-sandbox'), 'true')
    t.is(await chargedNano(world, account), 0)
    t.is(world.gemini.requests.length, 0)
  })
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
type Json = any
