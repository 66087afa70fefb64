import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { bytesPerSecond, type Encoding, tone } from '../../../shared/providers/sandbox/realtime/sound.ts'
import { eventually } from '../../support/gateway.ts'
import {
  joined,
  model,
  openSandbox,
  orderOf,
  type SandboxTalk,
  soundOf,
  typeErrors,
} from '../../support/realtime/sandbox-talk.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const talks: SandboxTalk[] = []

const gateway = useGateway(test)
const account = use(test, () => gateway.account())
test.afterEach.always(() => Promise.all(talks.map(talk => talk.close())))

const open = (query?: string) => openSandbox(gateway, account.test, talks, query)
const commit = { type: 'input_audio_buffer.commit' }
const manual = { audio: { input: { turn_detection: null } } }
const speech = (seconds: number) => tone('audio/pcm', seconds).bytes
const silence = (seconds: number) => Buffer.alloc(48_000 * seconds)

test.serial('one piece of sound has no more turns than can be answered at once', async t => {
  const talk = await open()
  const eager = { type: 'server_vad', threshold: 0, silence_duration_ms: 0 }
  await talk.settings({ audio: { input: { format: { type: 'audio/pcmu' }, turn_detection: eager } } })
  const turn = Buffer.concat([Buffer.alloc(640, 0x10), Buffer.alloc(640, 0xff)])
  const audio = Buffer.concat(Array(600).fill(turn)).toString('base64')
  t.like(await talk.refused({ type: 'input_audio_buffer.append', audio }), { code: 'too_many_turns', param: 'audio' })
  t.is(talk.events.filter(({ type }) => type.startsWith('input_audio_buffer.speech_')).length, 500)
  talk.append(turn, 1_280)
  await talk.until('input_audio_buffer.speech_stopped')
  t.pass('it goes on')
})

test.serial('a long sound comes back as its first minute where it is in another format', async t => {
  const talk = await open()
  await talk.settings({ audio: { input: { format: { type: 'audio/pcmu' }, turn_detection: null } } })
  talk.append(Buffer.alloc(8_000 * 90, 0x10), 80_000)
  talk.send(commit)
  await talk.until('conversation.item.done')
  t.is(soundOf(await talk.answer()).length, 60 * 48_000)
})

test.serial('sound comes back byte for byte, with a transcript of its length', async t => {
  const talk = await open()
  await talk.settings(manual)
  const sound = randomBytes(115_201)
  talk.append(sound, 1_000)
  talk.send(commit)
  const [committed, added, done] = await talk.until('conversation.item.done')
  t.deepEqual([committed.type, committed.previous_item_id], ['input_audio_buffer.committed', null])
  t.deepEqual([added.item.id, done.item.id], [committed.item_id, committed.item_id])
  const events = await talk.answer()
  t.true(soundOf(events).equals(sound))
  t.is(joined(events, 'response.output_audio_transcript.delta'), 'You said 2.4 seconds of sound.')
  const { usage, output } = events.at(-2).response
  t.is(usage.input_token_details.audio_tokens, 25)
  t.is(usage.output_token_details.audio_tokens, 49)
  const deltas = events.filter(({ type }) => type === 'response.output_audio.delta')
  t.true(deltas.every(({ delta }) => delta.length <= 12_800))
  talk.send({ type: 'conversation.item.retrieve', item_id: output[0].id })
  const { item } = await talk.next('conversation.item.retrieved')
  t.true(Buffer.from(item.content[0].audio, 'base64').equals(sound))

  const place = { item_id: item.id, content_index: 0 }
  const truncate = { type: 'conversation.item.truncate', ...place }
  t.is((await talk.refused({ ...truncate, audio_end_ms: 2_500 })).param, 'audio_end_ms')
  talk.send({ ...truncate, audio_end_ms: 1_000 })
  t.like(await talk.next('conversation.item.truncated'), { ...place, audio_end_ms: 1_000 })
  talk.send({ type: 'conversation.item.retrieve', item_id: item.id })
  const [part] = (await talk.next('conversation.item.retrieved')).item.content
  t.is(part.transcript, null)
  t.is(Buffer.from(part.audio, 'base64').length, 48_000)

  talk.append(sound)
  talk.send({ type: 'input_audio_buffer.clear' })
  await talk.next('input_audio_buffer.cleared')
  t.is((await talk.refused(commit)).code, 'input_audio_buffer_commit_empty')
})

for (const type of ['audio/pcmu', 'audio/pcma'] as const) {
  test.serial(`${type} comes back byte for byte, and as 24 kHz samples where those are asked for`, async t => {
    const talk = await open()
    const settings = { input: { format: { type }, turn_detection: null }, output: { format: { type } } }
    t.deepEqual((await talk.settings({ audio: settings })).audio.output.format, { type })
    const sound = Buffer.from(Array.from({ length: 8_000 }, (_, i) => i % 256))
    talk.append(sound, 160)
    talk.send(commit)
    await talk.until('conversation.item.done')
    t.true(soundOf(await talk.answer()).equals(sound))
    const pcm = { type: 'audio/pcm', rate: 24_000 }
    const events = await talk.answer({ audio: { output: { format: pcm } } })
    t.deepEqual(events[0].response.audio.output.format, pcm)
    const samples = soundOf(events)
    t.is(samples.length, 48_000)

    // The samples of the same values, sent back, become the same bytes, but for the second of two zeros.
    await talk.settings({ audio: { input: { format: pcm } } })
    const steps = Buffer.alloc(48_000)
    for (let i = 0; i < 24_000; i++) samples.copy(steps, i * 2, Math.floor(i / 3) * 6, Math.floor(i / 3) * 6 + 2)
    talk.append(steps, 48_000)
    talk.send(commit)
    await talk.until('conversation.item.done')
    const back = soundOf(await talk.answer())
    t.deepEqual(
      [...back].map(byte => (type === 'audio/pcmu' && byte === 0x7f ? 0xff : byte)),
      [...sound].map(byte => (type === 'audio/pcmu' && byte === 0x7f ? 0xff : byte)),
    )
  })
}

test.serial('speech is told from silence, committed with what was before it, and answered', async t => {
  const talk = await open()
  const said = speech(1.5)
  const whole = Buffer.concat([silence(1), said, silence(0.8)])
  talk.append(whole)
  const events = await talk.until('rate_limits.updated')
  t.deepEqual(orderOf(events).slice(0, 8), [
    'input_audio_buffer.speech_started',
    'input_audio_buffer.speech_stopped',
    'input_audio_buffer.committed',
    'conversation.item.added',
    'conversation.item.done',
    'response.created',
    'response.output_item.added',
    'conversation.item.added',
  ])
  const [started, stopped, committed] = events
  t.like(started, { audio_start_ms: 700, item_id: committed.item_id })
  t.is(stopped.item_id, committed.item_id)
  t.true(stopped.audio_end_ms >= 3_000 && stopped.audio_end_ms <= 3_040, String(stopped.audio_end_ms))
  t.true(soundOf(events).equals(whole.subarray(0.7 * 48_000, stopped.audio_end_ms * 48)))
  talk.append(silence(3))
  talk.append(speech(0.3))
  const again = await talk.next('input_audio_buffer.speech_started')
  t.is(again.audio_start_ms, 6_000)
})

test.serial('silence and clicks are no speech, and of hours of silence nothing is kept', async t => {
  const talk = await open()
  const click = Buffer.concat([silence(0.5), speech(0.04), silence(0.5)])
  for (let i = 0; i < 20; i++) talk.append(click, 50_000)
  for (let i = 0; i < 30; i++) talk.append(silence(20), 960_000)
  talk.send({ type: 'input_audio_buffer.clear' })
  const events = await talk.until('input_audio_buffer.cleared')
  t.deepEqual(orderOf(events), ['input_audio_buffer.cleared'])
})

test.serial('interrupted: a response while its user speaks, unless the settings forbid it', async t => {
  const talk = await open()
  await talk.settings({ instructions: 'sandbox:slow=20000' })
  talk.append(Buffer.concat([speech(3), silence(0.6)]))
  await talk.until('response.output_audio.delta')
  talk.append(Buffer.concat([speech(1), silence(0.6)]))
  const events = await talk.until('input_audio_buffer.committed')
  const done = events.find(({ type }) => type === 'response.done').response
  t.deepEqual(done.status_details, { type: 'cancelled', reason: 'turn_detected' })
  t.true(orderOf(events).indexOf('input_audio_buffer.speech_started') < orderOf(events).indexOf('response.done'))
  const { id } = (await talk.next('response.created')).response
  const turn_detection = { type: 'server_vad', interrupt_response: false, create_response: false }
  await talk.settings({ audio: { input: { turn_detection } } })
  talk.append(Buffer.concat([speech(1), silence(0.6)]))
  const calm = await talk.until('input_audio_buffer.committed')
  t.false(calm.some(({ type }) => type === 'response.done'))
  talk.send({ type: 'response.cancel', response_id: id })
  t.is((await talk.next('response.done')).response.id, id)
})

test.serial('what is said is written down where the settings ask for it', async t => {
  const talk = await open()
  const include = ['item.input_audio_transcription.logprobs']
  const transcription = { model: 'gpt-4o-mini-transcribe', language: 'en' }
  const session = await talk.settings({ include, audio: { input: { transcription, turn_detection: null } } })
  t.deepEqual(session.audio.input.transcription, transcription)
  talk.append(speech(1.25))
  talk.send(commit)
  const events = await talk.until('conversation.item.input_audio_transcription.completed')
  const { transcript, usage, logprobs, item_id } = events.at(-1)
  t.is(transcript, 'This is 1.25 seconds of sound.')
  t.is(joined(events, 'conversation.item.input_audio_transcription.delta'), transcript)
  t.is(logprobs.map(({ token }: { token: string }) => token).join(''), transcript)
  t.like(usage, { type: 'tokens', input_tokens: 13, total_tokens: 13 + usage.output_tokens })
  talk.send({ type: 'conversation.item.retrieve', item_id })
  t.is((await talk.next('conversation.item.retrieved')).item.content[0].transcript, transcript)
})

test.serial('a transcription session only writes down, by its address or by its settings', async t => {
  const byAddress = await open(`model=${model}&intent=transcription`)
  t.like(byAddress.events[0].session, { type: 'transcription', object: 'realtime.transcription_session' })
  const bySettings = await open()
  const audio = { input: { transcription: { model: 'gpt-4o-transcribe' } } }
  bySettings.send({ type: 'session.update', session: { type: 'transcription', audio } })
  t.like((await bySettings.next('session.updated')).session, { type: 'transcription' })
  for (const talk of [byAddress, bySettings]) {
    talk.append(Buffer.concat([speech(1), silence(1)]))
    const events = await talk.until('conversation.item.input_audio_transcription.completed')
    t.true(events.at(-1).transcript.startsWith('This is 1.'))
    t.is((await talk.refused({ type: 'response.create' })).code, 'invalid_value')
    const back = { type: 'session.update', session: { type: 'realtime' } }
    t.is((await talk.refused(back)).param, 'session.type')
    t.false(talk.events.some(({ type }) => type.startsWith('response.')))
  }
})

test.serial('a client that reads slowly is not flooded, and gets all of it', async t => {
  const talk = await open()
  await talk.settings(manual)
  const sound = randomBytes(12 * 1024 * 1024)
  talk.append(sound, 3 * 1024 * 1024)
  t.is(
    (await talk.refused({ type: 'input_audio_buffer.append', audio: sound.toString('base64', 0, 4_194_303) })).code,
    'input_audio_buffer_full',
  )
  talk.send(commit)
  await talk.until('conversation.item.done')
  const events = await talk.answer()
  t.true(soundOf(events).equals(sound))
  const { id } = events.at(-2).response.output[0]
  t.is((await talk.refused({ type: 'conversation.item.retrieve', item_id: id })).code, 'item_too_large')

  // A new connection: the buffers of one that took so much are large.
  const slow = await open()
  await slow.settings(manual)
  slow.append(sound, 3 * 1024 * 1024)
  slow.send(commit)
  await slow.until('conversation.item.done')
  slow.send({ type: 'response.create' })
  await slow.until('response.output_audio.delta')
  slow.socket.pause()
  // Time enough to send it all, if nothing kept the sandbox from it.
  await sleep(500)
  slow.send({ type: 'response.cancel' })
  await sleep(500)
  slow.socket.resume()
  t.is((await slow.next('response.done')).response.status, 'cancelled')
})

test.serial('a client that sends faster than it reads is answered in order', async t => {
  const talk = await open()
  await talk.settings(manual)
  talk.append(randomBytes(1024 * 1024), 1024 * 1024)
  talk.send(commit)
  const { item } = await talk.next('conversation.item.done')
  talk.socket.pause()
  for (let i = 0; i < 12; i++) {
    talk.send({ type: 'conversation.item.retrieve', item_id: item.id })
    talk.send({ type: 'no', event_id: String(i) })
  }
  talk.socket.resume()
  for (let i = 0; i < 12; i++) {
    await talk.next('conversation.item.retrieved')
    t.is((await talk.next('error')).error.event_id, String(i))
  }
})

test.serial('a model that waits in vain speaks by itself', async t => {
  const talk = await open()
  const turn_detection = { type: 'server_vad', idle_timeout_ms: 5_000 }
  await talk.settings({ output_modalities: ['text'], audio: { input: { turn_detection } } })
  await talk.answer()
  talk.append(silence(1))
  const triggered = await talk.next('input_audio_buffer.timeout_triggered')
  t.like(triggered, { audio_start_ms: 0, audio_end_ms: 1_000 })
  t.is((await talk.next('input_audio_buffer.committed')).item_id, triggered.item_id)
  t.is((await talk.next('response.done')).response.status, 'completed')
})

test.serial('nothing of a session stays behind when its client breaks off in mid-response', async t => {
  const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
  const opened = await Promise.all(Array.from({ length: 10 }, () => open()))
  for (const talk of opened) {
    await talk.settings({ instructions: 'sandbox:slow=60000' })
    talk.send({ type: 'response.create' }, { type: 'response.create', response: { conversation: 'none' } })
    for (let i = 0; i < 2; i++) await talk.until('response.content_part.added')
  }
  const during = timers()
  t.true(during >= 20)
  for (const talk of opened) talk.socket.terminate()
  await eventually(() => timers() <= during - 20, 'their timers are gone')
  t.deepEqual(await gateway.settled(), [])
})

test('the formats last as long as their rates say', t => {
  const encodings: Encoding[] = ['audio/pcm', 'audio/pcmu', 'audio/pcma']
  for (const encoding of encodings) t.is(tone(encoding, 1.5).bytes.length, bytesPerSecond[encoding] * 1.5)
})

test.serial('every event is one of the SDK’s types, to the letter', async t => {
  t.is(await typeErrors(talks.flatMap(({ events }) => events)), '')
})
