import { ElevenLabsClient, ElevenLabsError } from '@elevenlabs/elevenlabs-js'
import { said, startElevenLabs, voices } from '../../emulators/elevenlabs.ts'
import { decodedSeconds, sound } from '../../support/media/sounds.ts'
import { test } from '../../support/test.ts'

// The official SDK is the judge of the emulator.

async function start(apiKey = 'xi_test') {
  const emulator = await startElevenLabs()
  return { emulator, sdk: new ElevenLabsClient({ apiKey, baseUrl: emulator.url, maxRetries: 0 }) }
}

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

/** What the SDK throws of a refusal. */
async function refusal(work: Promise<unknown>): Promise<{ status: number | undefined; body: unknown }> {
  const error = await work.then(
    () => null,
    error => error,
  )
  if (!(error instanceof ElevenLabsError)) throw new Error(`expected a refusal, got ${error}`)
  return { status: error.statusCode, body: error.body }
}

const text = 'Good morning. How are you today?'

test('200: speech whole and streamed, in every format that is used here', async t => {
  const { emulator, sdk } = await start()
  for (const outputFormat of ['mp3_44100_128', 'opus_48000_128'] as const) {
    const options = { text, modelId: 'eleven_flash_v2_5', outputFormat, voiceSettings: { speed: 1.1 } }
    for (const method of ['convert', 'stream'] as const) {
      const bytes = await bytesOf(await sdk.textToSpeech[method](voices[0]!, options))
      t.true((await decodedSeconds(bytes)) > 1.5, `${outputFormat} ${method}`)
    }
  }
  const samples = await bytesOf(await sdk.textToSpeech.stream(voices[1]!, { text, outputFormat: 'pcm_24000' }))
  t.true(samples.length >= 2 * 24_000 * 1.5)
  const { body, query, headers } = emulator.requests[0]!
  t.deepEqual(body, { text, model_id: 'eleven_flash_v2_5', voice_settings: { speed: 1.1 } })
  t.is(query.get('output_format'), 'mp3_44100_128')
  t.is(headers['xi-api-key'], 'xi_test')
  const { rawResponse } = await sdk.textToSpeech.stream(voices[0]!, { text }).withRawResponse()
  t.is(rawResponse.headers.get('character-cost'), String(text.length))
  await emulator.close()
})

test('200: a transcript with the times of its words, or without', async t => {
  const { emulator, sdk } = await start()
  const file = { data: await sound('wav', 3), filename: 'hello.wav', contentType: 'audio/wav' }
  const answer = await sdk.speechToText.convert({
    modelId: 'scribe_v2',
    file,
    languageCode: 'en',
    tagAudioEvents: false,
  })
  if (!('words' in answer)) return void t.fail('expected one transcript')
  t.is(answer.text, said.text)
  t.is(answer.languageCode, said.language)
  t.is(answer.words.map(word => word.text).join(''), said.text)
  t.deepEqual(
    answer.words.filter(({ type }) => type === 'word').map(({ text }) => text),
    said.text.split(' '),
  )
  t.true(answer.words.every(({ start = -1, end = -1 }) => start >= 0 && end >= start))
  const plain = await sdk.speechToText.convert({ modelId: 'scribe_v1', file, timestampsGranularity: 'none' })
  t.true('words' in plain && plain.words.every(({ start }) => start === undefined))
  await emulator.close()
})

test('200: a song and a sound effect of the length that was asked for', async t => {
  const { emulator, sdk } = await start()
  const song = await sdk.music.compose({ prompt: 'A waltz', musicLengthMs: 3_000, modelId: 'music_v2' })
  t.true(Math.abs((await decodedSeconds(await bytesOf(song))) - 3) < 0.2)
  const effect = await sdk.textToSoundEffects.convert({
    text: 'A door',
    durationSeconds: 1,
    modelId: 'eleven_text_to_sound_v2',
    outputFormat: 'opus_48000_128',
  })
  t.true(Math.abs((await decodedSeconds(await bytesOf(effect))) - 1) < 0.2)
  t.deepEqual(
    emulator.requests.map(({ body }) => body),
    [
      { prompt: 'A waltz', music_length_ms: 3_000, model_id: 'music_v2' },
      { text: 'A door', duration_seconds: 1, model_id: 'eleven_text_to_sound_v2' },
    ],
  )
  await emulator.close()
})

test('200: voices, page by page', async t => {
  const { emulator, sdk } = await start()
  const first = await sdk.voices.search({ pageSize: 1 })
  t.true(first.hasMore)
  const second = await sdk.voices.search({ pageSize: 1, nextPageToken: first.nextPageToken! })
  t.false(second.hasMore)
  t.deepEqual(
    [...first.voices, ...second.voices].map(({ voiceId }) => voiceId),
    voices,
  )
  await emulator.close()
})

test('400, 401, 404 and 422 as ElevenLabs gives them', async t => {
  const { emulator, sdk } = await start()
  const unknown = await refusal(sdk.textToSpeech.convert('nobody', { text }))
  t.is(unknown.status, 404)
  t.like(unknown.body, { detail: { status: 'voice_not_found' } })
  const long = await refusal(sdk.textToSpeech.convert(voices[0]!, { text: 'a'.repeat(5_001), modelId: 'eleven_v3' }))
  t.is(long.status, 400)
  t.like(long.body, { detail: { status: 'max_character_limit_exceeded' } })
  const fast = await refusal(sdk.textToSpeech.convert(voices[0]!, { text, voiceSettings: { speed: 2 } }))
  t.is(fast.status, 422)
  t.like(fast.body, { detail: [{ loc: ['body', 'voice_settings', 'speed'] }] })
  const lengthy = await refusal(sdk.textToSoundEffects.convert({ text: 'A door', durationSeconds: 31 }))
  t.like(lengthy.body, { detail: [{ loc: ['body', 'duration_seconds'] }] })
  const both = await refusal(sdk.music.compose({ prompt: 'A waltz', compositionPlan: { chunks: [] } }))
  t.is(both.status, 422)
  const fileless = await refusal(sdk.speechToText.convert({ modelId: 'scribe_v2' }))
  t.is(fileless.status, 400)
  await emulator.close()
  const stranger = await start('invalid')
  const refused = await refusal(stranger.sdk.voices.search())
  t.is(refused.status, 401)
  t.like(refused.body, { detail: { status: 'invalid_api_key' } })
  await stranger.emulator.close()
})
