import type { ServerResponse } from 'node:http'
import { Emulator, hang, type Recorded } from '../emulators/emulator.ts'
import { dataOf } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { dataUri } from '../support/jobs/gateway.ts'
import { wav } from '../support/media/sounds.ts'
import { speech } from '../support/media/upstream.ts'
import { syncMediaEnvironment } from '../support/media/world.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** What becomes of requests that are under way when the grace period of a stopping process ends. */

const upstream = use(test, () => Emulator.start(begin))
const gateway = useGateway(test, async () => {
  const env = { OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/openai` }
  return { ...(await syncMediaEnvironment(upstream.url)), ...env }
})
const account = use(test, () => gateway.account())

const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`
const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const half = speech.subarray(0, speech.length / 2)

/** A provider that begins its answer and never ends it; one that breaks it off where the prompt says so. */
async function begin({ path, body, raw }: Recorded, response: ServerResponse): Promise<void> {
  const write = (type: string, bytes: string | Buffer) => {
    response.writeHead(200, { 'content-type': type })
    return new Promise(resolve => response.write(bytes, resolve))
  }
  if (path === '/openai/chat/completions' && body.stream) {
    await write('text/event-stream', chunk('Once upon a time ') + chunk('there was a gateway.'))
    if (/break/.test(raw.toString())) setTimeout(() => response.destroy(), 20)
  } else if (path === '/alpha/audio/transcriptions') {
    await write('text/event-stream', event({ type: 'transcript.text.delta', delta: 'Once ' }))
  } else if (path === '/alpha/audio/speech') {
    const audio = half.toString('base64')
    if (body.stream_format !== 'sse') await write('audio/mpeg', half)
    else await write('text/event-stream', event({ type: 'speech.audio.delta', audio }))
  } else hang({} as Recorded, response)
}

type Reading = { response: Response; text: string; ended: Promise<string | null> }

/** Sends a request and reads its answer as it comes. `ended` gives null, or how the connection broke. */
async function read(path: string, body: object): Promise<Reading> {
  const response = await gateway.fetch(path, { key: account.live, body })
  const reading: Reading = { response, text: '', ended: Promise.resolve(null) }
  const drain = async () => {
    for await (const part of response.body!) reading.text += Buffer.from(part).toString('latin1')
  }
  reading.ended = drain().then(
    () => null,
    error => String(error),
  )
  return reading
}

const chat = (prompt: string) => ({ model: 'gpt-4.1-mini', messages: [{ role: 'user', content: prompt }] })

test('503 for whole answers and the error event for streams that the process cannot wait for', async t => {
  const broken = await read('/v1/chat/completions', { ...chat('Now break.'), stream: true })
  t.is(await broken.ended, null)

  const heard = { model: 'hear-tokens', audio_url: dataUri('audio/wav', wav(2_000)), stream: true }
  const streams = await Promise.all([
    read('/v1/chat/completions', { ...chat('Never end.'), stream: true }),
    read('/v1/audio/transcriptions', heard),
    read('/v1/audio/speech', { model: 'speak', input: 'Good day.', stream_format: 'sse' }),
  ])
  const sound = await read('/v1/audio/speech', { model: 'speak', input: 'Good day.' })
  await eventually(() => [...streams, sound].every(({ text }) => text !== ''), 'every answer has begun')
  const asked = upstream.requests.length
  const wholes = [
    read('/v1/chat/completions', chat('Never begin.')),
    read('/v1/images', { model: 'draw', prompt: 'a fox' }),
  ]
  await eventually(() => upstream.requests.length === asked + 2, 'the others are under way')

  gateway.services.shutdown.abortRunning()
  for (const stream of streams) {
    t.is(await stream.ended, null)
    const { error } = dataOf(stream.text).at(-1)
    t.is(error.code, 'service_unavailable', stream.text)
    t.false(stream.text.includes('[DONE]'))
  }
  t.truthy(await sound.ended, 'sound has no event: its connection breaks')
  for (const whole of await Promise.all(wholes)) {
    t.is(await whole.ended, null)
    t.is(whole.response.status, 503)
    t.is(whole.response.headers.get('retry-after'), '1')
    t.is(JSON.parse(whole.text).error.code, 'service_unavailable')
  }

  t.deepEqual(await gateway.settled(), [])
  const { db } = gateway.services
  const rows = await db.generation.findMany({ where: { organisationId: account.organisationId } })
  const byProvider = rows.find(({ errorCode }) => errorCode === 'upstream_error')!
  const byUs = rows.filter(({ errorCode }) => errorCode === 'service_unavailable')
  t.is(byUs.length, 6)
  t.true(byProvider.costNano > 0n)
  // A chat costs what it costs where its provider breaks off; of the others nothing whole was delivered.
  for (const { kind, streamed, costNano } of byUs)
    t.is(costNano, kind === 'chat' && streamed ? byProvider.costNano : 0n, `${kind} ${streamed}`)
})
