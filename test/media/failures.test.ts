import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { syncKinds } from '../../shared/kinds/index.ts'
import { error as deepgramError } from '../emulators/deepgram.ts'
import { error as elevenLabsError, invalid as elevenLabsInvalid } from '../emulators/elevenlabs.ts'
import { hang, json, type Reply } from '../emulators/emulator.ts'
import { falError } from '../emulators/fal.ts'
import { geminiError } from '../emulators/gemini.ts'
import { interactionError } from '../emulators/gemini-interactions.ts'
import { wrongField, wrongParam } from '../emulators/openai-audio-rules.ts'
import { openAiImageError } from '../emulators/openai-images.ts'
import { openRouterImageError } from '../emulators/openrouter-images.ts'
import { replicateError } from '../emulators/replicate.ts'
import { invalidBody } from '../emulators/runway.ts'
import type { Account } from '../support/gateway.ts'
import { answerOf, audio, image, wallet } from '../support/jobs/gateway.ts'
import { offers, operatorCatalog } from '../support/media/offers.ts'
import { startProviders, upstreamSecret } from '../support/media/providers.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useFolder, useGateway } from '../support/use.ts'

/** What every provider of images and sound refuses, and what happens when it fails: who is asked next, and that it is free. */

const maxAttempts = 2
const folder = useFolder(test)
let account: Account

const catalog = join(folder, 'catalog.json')
test.before(async () => {
  await writeFile(catalog, JSON.stringify(operatorCatalog))
})
const providers = use(test, startProviders)
const gateway = useGateway(test, () => ({
  ...providers.env,
  MODEL_CATALOG: catalog,
  UPSTREAM_MAX_ATTEMPTS: String(maxAttempts),
}))
test.beforeEach(async () => {
  for (const emulator of providers.emulators.values()) emulator.reset()
  account = await gateway.account()
})

const emulator = (provider: string) => providers.emulators.get(provider)!
const post = (path: string, body: object) => gateway.fetch(`/v1/${path}`, { key: account.live, body })

/** Nothing was charged, nothing is reserved, nothing stays in storage. */
async function assertFree(t: ExecutionContext): Promise<void> {
  t.deepEqual(await gateway.settled(), [])
  const { balance_usd, reserved_usd } = await wallet(gateway, account)
  t.deepEqual([balance_usd, reserved_usd], [25, 0])
  t.is(await gateway.services.db.file.count(), 0)
}

const draw = (model: string, more: object = {}) => ({ model, prompt: 'a fox', ...more })
const say = (model: string, more: object = {}) => ({ model, input: 'Good day.', ...more })
const hear = (model: string) => ({ model, audio_url: audio(1) })
const edit = { input_references: [image] }

type Refusal = [provider: string, path: string, body: object, reply: Reply | null, param: string | null]
const wrongFile = { loc: ['body', 'file'], msg: 'Expected a sound', type: 'value_error' }
const refusals: Refusal[] = [
  ['openai', 'images', draw('gpt-image-2'), openAiImageError(400, 'No such size.', 'invalid_value', 'size'), 'size'],
  [
    'openai',
    'images',
    draw('gpt-image-1.5', edit),
    openAiImageError(400, 'Invalid image file.', 'invalid_image_file', 'image'),
    'input_references',
  ],
  ['openai', 'audio/speech', say('tts-1'), wrongField('voice', 'Input should be another.'), 'voice'],
  ['openai', 'audio/transcriptions', hear('whisper-1'), wrongParam('file', 'It might be corrupted.'), 'audio_url'],
  ['groq', 'audio/transcriptions', hear('whisper-large-v3'), wrongParam('language', 'Unknown.'), 'language'],
  ['openrouter', 'images', draw('openrouter-image'), openRouterImageError(400, 'size: Invalid input'), null],
  ['gemini', 'images', draw('gemini-2.5-flash-image'), geminiError(400, 'INVALID_ARGUMENT', 'Unreadable.'), null],
  [
    'gemini',
    'audio/speech',
    say('gemini-3.8-flash-tts'),
    interactionError(400, 'invalid_request', 'Voice name Zephyr is not supported.'),
    'voice',
  ],
  ['gemini', 'audio/music', draw('lyria-3-clip'), interactionError(400, 'invalid_request', 'Unreadable.'), null],
  ['elevenlabs', 'audio/speech', say('eleven-v3', { voice: 'nobodyOfThatNameHere' }), null, 'voice'],
  ['elevenlabs', 'audio/transcriptions', hear('scribe-v2'), elevenLabsInvalid(wrongFile), 'audio_url'],
  ['elevenlabs', 'audio/music', draw('eleven-music-v2'), elevenLabsError(400, 'bad_prompt', 'A known song.'), 'prompt'],
  [
    'elevenlabs',
    'audio/sfx',
    draw('eleven-sfx-v2', { duration_s: 1 }),
    elevenLabsInvalid({ loc: ['body', 'duration_seconds'], msg: 'Too short', type: 'value_error' }),
    'duration_s',
  ],
  [
    'deepgram',
    'audio/transcriptions',
    hear('nova-3'),
    deepgramError(400, 'Bad Request', 'Bad Request: failed to process audio: corrupt or unsupported data'),
    'audio_url',
  ],
  ['fal', 'images', draw('flux-1.1-pro', { prompt: 'forbidden' }), null, 'prompt'],
  [
    'fal',
    'audio/sfx',
    draw('fal-eleven-sfx'),
    falError(422, [{ loc: ['body', 'text'], msg: 'Too long', type: 'string_too_long' }]),
    'prompt',
  ],
  [
    'replicate',
    'images',
    draw('flux-schnell.replicate', { seed: 1 }),
    replicateError(422, '- input.seed: Must be less than 1\n'),
    'seed',
  ],
  [
    'fal',
    'audio/music',
    draw('fal-eleven-music'),
    falError(422, [{ loc: ['body', 'music_length_ms'], msg: 'Too short', type: 'value_error' }]),
    null, // Nothing was said of the length.
  ],
  [
    'replicate',
    'audio/music',
    draw('replicate-music', { lyrics: 'La' }),
    replicateError(422, '- input.lyrics: Too short\n'),
    'lyrics',
  ],
  ['replicate', 'audio/sfx', draw('replicate-sfx'), replicateError(422, '- input.prompt: Too short\n'), 'prompt'],
  ['runway', 'images', draw('runway-gen4-image'), invalidBody('promptText', 'Too long'), 'prompt'],
  [
    'runway',
    'images',
    draw('runway-gen4-image-turbo', edit),
    invalidBody('referenceImages.0.uri', 'No'),
    'input_references',
  ],
]
for (const [provider, path, body, reply, param] of refusals)
  test.serial(`400 naming ${param ?? 'nothing'}: ${path} that ${provider} refuses, and it is free`, async t => {
    if (reply) emulator(provider).next(reply)
    const response = await post(path, body)
    const { error } = await answerOf(response)
    t.deepEqual([response.status, error.param], [400, param], JSON.stringify(error))
    t.is(emulator(provider).requests.filter(({ method }) => method === 'POST').length, 1)
    t.false(JSON.stringify(error).includes(upstreamSecret))
    await assertFree(t)
  })

const fault: Reply = json(500, { error: { message: `Fault of ${upstreamSecret}` }, detail: 'Fault', message: 'Fault' })
const faults: [provider: string, path: string, body: object][] = [
  ['openai', 'images', draw('gpt-image-1-mini')],
  ['openai', 'audio/speech', say('tts-1-hd')],
  ['openai', 'audio/transcriptions', hear('gpt-4o-transcribe')],
  ['groq', 'audio/transcriptions', hear('whisper-large-v3-turbo')],
  ['openrouter', 'images', draw('openrouter-image')],
  ['gemini', 'images', draw('gemini-3.1-flash-image')],
  ['gemini', 'audio/speech', say('gemini-3.8-flash-lite-tts')],
  ['gemini', 'audio/music', draw('lyria-3-clip')],
  ['elevenlabs', 'audio/speech', say('eleven-flash-v2.5')],
  ['elevenlabs', 'audio/transcriptions', hear('scribe-v1')],
  ['elevenlabs', 'audio/music', draw('eleven-music-v2')],
  ['elevenlabs', 'audio/sfx', draw('eleven-sfx-v2')],
  ['deepgram', 'audio/transcriptions', hear('nova-2')],
  ['fal', 'images', draw('ideogram-v3')],
  ['fal', 'audio/music', draw('fal-cassette-music')],
  ['fal', 'audio/sfx', draw('fal-cassette-sfx')],
  ['replicate', 'images', draw('flux-schnell.replicate')],
  ['replicate', 'audio/music', draw('replicate-music')],
  ['replicate', 'audio/sfx', draw('replicate-sfx')],
  ['runway', 'images', draw('runway-gen4-image')],
]
for (const [provider, path, body] of faults)
  test.serial(`502: ${path} at ${provider} that fails, as no other provider has the model, and it is free`, async t => {
    emulator(provider).next(...Array<Reply>(maxAttempts).fill(fault))
    const response = await post(path, body)
    const text = await response.text()
    t.is(response.status, 502, text)
    t.false(text.includes(upstreamSecret))
    t.is(emulator(provider).requests.length, maxAttempts)
    await assertFree(t)
  })

test.serial('200: images of another provider of the model when the first one fails, billed once', async t => {
  emulator('fal').next(fault)
  const response = await post('images', draw('flux-schnell'))
  t.is(response.status, 200)
  t.like(await answerOf(response), { provider: 'replicate', usage: { cost: 0.00315 } })
  t.is(response.headers.get('x-gateway-attempts'), '2')
  t.deepEqual(await gateway.settled(), [])
  t.is((await wallet(gateway, account)).balance_usd, 25 - 0.00315)
})

test('covered: everything that a provider makes, as it is refused and as it fails', t => {
  const all = new Set(offers.map(({ kind, deployment }) => `${deployment.provider} ${syncKinds[kind].path}`))
  const coveredBy = (cases: [provider: string, path: string, ...unknown[]][]) =>
    [...new Set(cases.map(([provider, path]) => `${provider} /v1/${path}`))].sort()
  t.deepEqual(coveredBy(refusals), [...all].sort())
  t.deepEqual(coveredBy(faults), [...all].sort())
})

test.serial('504 when the caller’s own time is up: what the provider had begun is charged', async t => {
  emulator('openai').next(hang)
  const headers = { 'x-gateway-timeout-ms': '1500' }
  const body = draw('gpt-image-2', { size: '1024x1024', quality: 'low', provider: { only: ['openai'] } })
  const late = await gateway.fetch('/v1/images', { key: account.live, body, headers })
  const { error } = await answerOf(late)
  t.deepEqual([late.status, error.code, error.param], [504, 'upstream_timeout', 'provider.timeout_ms'])
  t.deepEqual(await gateway.settled(), [])
  const { balance_usd, reserved_usd } = await wallet(gateway, account)
  t.true(balance_usd < 25)
  t.is(reserved_usd, 0)
  emulator('openai').next(hang, hang)
  for (const [path, asked] of [
    ['audio/speech', say('tts-1')],
    ['audio/transcriptions', hear('whisper-1')],
  ] as const) {
    const provider = { only: ['openai'], timeout_ms: 150 }
    const answer = await post(path, { ...asked, provider })
    t.deepEqual([answer.status, (await answerOf(answer)).error.param], [504, 'provider.timeout_ms'], path)
  }
  t.deepEqual(await gateway.settled(), [])
})
