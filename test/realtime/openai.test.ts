import { once } from 'node:events'
import { WebSocket } from 'ws'
import {
  type Answer,
  breaksMidway,
  cancelledUsage,
  failsMidway,
  RealtimeEmulator,
  refusal,
  sendsBinary,
  sendsHuge,
  usualUsage,
} from '../emulators/openai-realtime.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { openTalk, type RealtimeTalk } from '../support/realtime/sdk.ts'
import { bookedSession, millionthsNano, minutesNano, silence } from '../support/realtime/talks.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const model = 'gpt-realtime-2.1'
const secret = 'upstream-secret-0123456789'
/** `usualUsage` and `cancelledUsage` at the prices of the model. */
const usualNano = millionthsNano([55, 4], [64, 0.4], [13, 32], [30, 24], [91, 64])
const cancelledNano = millionthsNano([55, 4], [64, 0.4], [13, 32], [5, 24], [6, 64])
/** The charge for an answer without a usage report: the conversation until it began, and some audio. */
const pieceNano = millionthsNano([1, 64])
const unreportedNano = millionthsNano([149, 4], [104, 32]) + pieceNano

const openai = use(test, () => RealtimeEmulator.start())
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: secret, OPENAI_BASE_URL: openai.baseUrl }))

/** A session of an account of its own, which answers like this. */
async function talk(...answers: Answer[]): Promise<{ account: Account; session: RealtimeTalk }> {
  const account = await gateway.account()
  openai.answers(...answers)
  const session = await openTalk(gateway.url, account.live, { model })
  await session.heard('session.created')
  return { account, session }
}

async function respond({ client, heard }: RealtimeTalk, count = 1) {
  client.send({ type: 'response.create' })
  return heard('response.done', count)
}

test.serial('the SDK’s client talks to the provider itself as the emulator has it', async t => {
  const session = await openTalk(openai.provider.url, 'sk-any', { model })
  const created = await session.heard('session.created')
  t.like(created.session, { type: 'realtime', model })
  session.client.send({ type: 'session.update', session: { type: 'realtime', output_modalities: ['text'] } })
  t.deepEqual((await session.heard('session.updated')).session.output_modalities, ['text'])
  const { response } = await respond(session)
  t.like(response, { status: 'completed', usage: usualUsage })
  session.client.send({ type: 'response.cancel' })
  await eventually(() => session.errors.length === 1, 'the client reports the error')
  session.client.send({ type: 'input_audio_buffer.append', audio: silence(1) })
  session.client.send({ type: 'input_audio_buffer.clear' })
  await session.heard('input_audio_buffer.cleared')
  session.client.send({ type: 'input_audio_buffer.commit' })
  await eventually(() => session.errors.length === 2, 'nothing is left to commit')
  await session.close()
  t.deepEqual(session.closed, { code: 1000, reason: 'OK' })
  await t.throwsAsync(openTalk(openai.provider.url, 'invalid', { model }), { message: /401/ })
  const transcribing = await openTalk(openai.provider.url, 'sk-any', { intent: 'transcription' })
  t.is((await transcribing.heard('session.created')).session.type, 'transcription')
  await transcribing.close()
})

test.serial('the SDK’s client, unchanged, holds a session through the gateway and pays for what it used', async t => {
  const { account, session } = await talk()
  const { headers, query, path } = openai.last
  t.is(headers.authorization, `Bearer ${secret}`)
  t.is(path, '/v1/realtime')
  t.is(query.get('model'), model)
  const { client } = session
  client.send({ type: 'session.update', session: { type: 'realtime', instructions: 'Be brief.' } })
  t.is((await session.heard('session.updated')).session.instructions, 'Be brief.')
  const content = [{ type: 'input_text' as const, text: 'Hi 👋' }]
  client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } })
  t.deepEqual((await session.heard('conversation.item.added')).item.content, content)
  const done = await respond(session)
  t.is(done.response.status, 'completed')
  t.truthy(await session.heard('response.output_audio.delta'))
  t.truthy(await session.heard('rate_limits.updated'))
  t.deepEqual(
    openai.last.events.map(({ type }) => type),
    ['session.update', 'conversation.item.create', 'response.create'],
  )
  t.deepEqual(session.errors, [])
  await session.close()
  const { generation, chargedNano } = await bookedSession(gateway, account)
  t.like(generation, {
    model,
    provider: 'openai',
    kind: 'realtime',
    status: 101,
    finishReason: 'client_closed',
    promptTokens: 132,
    completionTokens: 121,
    cachedTokens: 64,
    costNano: BigInt(usualNano),
  })
  t.is(chargedNano, usualNano)
  await eventually(() => openai.last.closed !== null, 'the provider is closed')
  t.is(openai.last.closed?.code, 1000)
})

test.serial('every response is charged, cached sound and pictures at their own prices', async t => {
  const usage = {
    total_tokens: 1_500,
    input_tokens: 1_000,
    output_tokens: 500,
    input_token_details: {
      text_tokens: 300,
      audio_tokens: 600,
      image_tokens: 100,
      cached_tokens: 450,
      cached_tokens_details: { text_tokens: 50, audio_tokens: 360, image_tokens: 40 },
    },
    output_token_details: { text_tokens: 100, audio_tokens: 400 },
  }
  const mini = 'gpt-realtime-2.1-mini'
  const account = await gateway.account()
  openai.answers({ usage }, {})
  const session = await openTalk(gateway.url, account.live, { model: `OpenAI/${mini}` })
  t.is(openai.last.query.get('model'), mini)
  await respond(session)
  await respond(session, 2)
  await session.close()
  const first = [
    [250, 0.6],
    [90, 0.06],
    [360, 0.3],
    [240, 10],
    [60, 0.8],
    [100, 2.4],
    [400, 20],
  ] as const
  const second = [
    [55, 0.6],
    [64, 0.06],
    [13, 10],
    [30, 2.4],
    [91, 20],
  ] as const
  const expected = millionthsNano(...[...first, ...second].map(([count, usd]): [number, number] => [count, usd]))
  const { generation, chargedNano } = await bookedSession(gateway, account)
  t.is(chargedNano, expected)
  t.like(generation, { promptTokens: 1_132, completionTokens: 621, cachedTokens: 514 })
})

for (const status of ['failed', 'incomplete'] as const) {
  test.serial(`a response that is ${status} is charged all the same`, async t => {
    const { account, session } = await talk({ status })
    t.is((await respond(session)).response.status, status)
    await session.close()
    t.is((await bookedSession(gateway, account)).chargedNano, usualNano)
  })
}

test.serial('a response that its client cancels is charged for what it had used', async t => {
  const { account, session } = await talk({ ends: false })
  session.client.send({ type: 'response.create' })
  await session.heard('response.output_audio.delta')
  session.client.send({ type: 'response.cancel' })
  t.like((await session.heard('response.done')).response, { status: 'cancelled', usage: cancelledUsage })
  await session.close()
  t.is((await bookedSession(gateway, account)).chargedNano, cancelledNano)
})

test.serial('a response whose client leaves is cancelled for it, and charged for what it had used', async t => {
  const { account, session } = await talk({ ends: false })
  session.client.send({ type: 'response.create' })
  await session.heard('response.output_audio.delta')
  session.client.socket.terminate()
  t.is((await bookedSession(gateway, account)).chargedNano, cancelledNano)
  t.is(openai.last.events.at(-1).type, 'response.cancel')
})

test.serial(
  'a session that only writes down is opened without a model, and paid at the price of the one it sets',
  async t => {
    const account = await gateway.account()
    const address = `${gateway.url.replace('http', 'ws')}/v1/realtime?model=${model}&intent=transcription`
    const client = new WebSocket(address, ['realtime', `openai-insecure-api-key.${account.live}`])
    const types: string[] = []
    client.on('message', data => types.push(JSON.parse(data.toString()).type))
    await once(client, 'open')
    t.deepEqual([...openai.last.query], [['intent', 'transcription']])
    const audio = { input: { transcription: { model: 'gpt-4o-transcribe' } } }
    client.send(JSON.stringify({ type: 'session.update', session: { type: 'transcription', audio } }))
    client.send(JSON.stringify({ type: 'input_audio_buffer.append', audio: silence(2) }))
    client.send(JSON.stringify({ type: 'input_audio_buffer.commit' }))
    await eventually(
      () => types.includes('conversation.item.input_audio_transcription.completed'),
      'it is written down',
    )
    client.close()
    t.is((await bookedSession(gateway, account)).chargedNano, millionthsNano([20, 2.5], [12, 10]))
  },
)

async function transcribed(t: ExecutionContext, transcriptionModel: string, seconds: number): Promise<number> {
  const { account, session } = await talk()
  const { client } = session
  const audio = { input: { transcription: { model: transcriptionModel } } }
  client.send({ type: 'session.update', session: { type: 'realtime', audio } })
  await session.heard('session.updated')
  client.send({ type: 'input_audio_buffer.append', audio: silence(seconds) })
  client.send({ type: 'input_audio_buffer.commit' })
  const { transcript } = await session.heard('conversation.item.input_audio_transcription.completed')
  t.is(transcript, 'Good morning.')
  await session.close()
  return (await bookedSession(gateway, account)).chargedNano
}

test.serial('what is said is written down at the price of the model that does it: by tokens', async t => {
  t.is(await transcribed(t, 'gpt-4o-transcribe', 3), millionthsNano([30, 2.5], [12, 10]))
})

test.serial('what is said is written down at the price of the model that does it: a dated name of one', async t => {
  t.is(await transcribed(t, 'gpt-4o-mini-transcribe-2025-12-15', 2), millionthsNano([20, 1.25], [12, 5]))
})

test.serial('what is said is written down at the price of the model that does it: by length', async t => {
  t.is(await transcribed(t, 'whisper-1', 3), minutesNano(3, '0.006'))
})

test.serial('a response without a usage, or with one that cannot be, is charged for what it delivered', async t => {
  const tokens = (count: unknown) => ({ input_tokens: count, output_tokens: count, total_tokens: count })
  for (const usage of [null, 'much', [], {}, tokens(0), tokens(-7), tokens('9'), tokens(1e15), tokens(1e308)]) {
    const { account, session } = await talk({ usage }, {})
    await respond(session)
    await respond(session, 2)
    await session.close()
    const { generation, chargedNano } = await bookedSession(gateway, account)
    t.is(chargedNano, pieceNano + usualNano)
    t.like(generation, { estimated: true, promptTokens: 132, completionTokens: 1 + 121 })
  }
})

test.serial('a transcript without a usage is charged for the sound and its words', async t => {
  openai.transcribes({ usage: undefined })
  t.teardown(() => openai.transcribes({}))
  t.is(await transcribed(t, 'gpt-4o-transcribe', 3), millionthsNano([30, 2.5], [4, 10]))
  t.is(await transcribed(t, 'whisper-1', 3), minutesNano(3, '0.006'))
})

test.serial('1011 when the provider fails in the midst of a response', async t => {
  const { account, session } = await talk({}, { midway: failsMidway })
  await respond(session)
  session.client.send({ type: 'response.create' })
  t.deepEqual(await session.end(), { code: 1011, reason: 'server had an error' })
  const { generation, chargedNano } = await bookedSession(gateway, account)
  t.is(generation.finishReason, 'provider_closed')
  t.is(chargedNano, usualNano + unreportedNano)
  t.true(generation.estimated)
})

test.serial('1011 and an error event when the provider’s connection breaks in the midst of a response', async t => {
  const { account, session } = await talk({}, { midway: breaksMidway })
  await respond(session)
  session.client.send({ type: 'response.create' })
  t.is((await session.end()).code, 1011)
  t.like(session.events.at(-1), { type: 'error', error: { code: 'upstream_error' } })
  const { generation, chargedNano } = await bookedSession(gateway, account)
  t.like(generation, { status: 502, errorCode: 'upstream_error' })
  t.is(chargedNano, usualNano + unreportedNano)
})

const escapedType = '"\\u0074ype":"response\\u002eoutput_audio\\u002edelta"'
for (const [what, head] of [
  ['its type first', '"type":"response.output_audio.delta","event_id":"event_9"'],
  ['its id first', '"event_id":"event_9","type":"response.output_audio.delta"'],
  ['spaces', ' "event_id" : "event_9" ,\n "type" : "response.output_audio.delta"'],
  ['an escaped type', `"event_id":"event_9",${escapedType}`],
  ['another type before', '"type":"response.output_text.delta","type":"response.output_audio.delta"'],
]) {
  test.serial(`1011 in the midst of a response: sound with ${what} is charged as sound`, async t => {
    const seconds = 10
    const midway: Answer['midway'] = ({ socket }) => {
      socket.send(`{${head},"output_index":0,"delta":"${silence(seconds)}"}`)
      socket.close(1011, 'server had an error')
    }
    const { account, session } = await talk({ midway })
    session.client.send({ type: 'response.create' })
    await session.end()
    // A piece of the emulator's own, and 20 tokens a second.
    const { chargedNano } = await bookedSession(gateway, account)
    t.is(chargedNano, millionthsNano([20 * seconds + 1, 64]))
  })
}

test.serial('a frame of the provider that is not text is passed as it is', async t => {
  const { account, session } = await talk({ midway: sendsBinary })
  const frames: Buffer[] = []
  session.client.socket.on('message', (data: Buffer, isBinary) => void (isBinary && frames.push(data)))
  await respond(session)
  t.deepEqual(frames, [Buffer.from([0, 1, 2, 255])])
  await session.close()
  t.is((await bookedSession(gateway, account)).chargedNano, usualNano)
})

test.serial('1009 when the provider sends a frame that is too large', async t => {
  const { account, session } = await talk({ midway: sendsHuge, ends: false })
  session.client.send({ type: 'response.create' })
  t.is((await session.end()).code, 1009)
  t.is((await bookedSession(gateway, account)).chargedNano, pieceNano)
})

for (const status of [401, 429, 500]) {
  test.serial(`an error event and 1011 when the provider answers the upgrade with ${status}`, async t => {
    const account = await gateway.account()
    openai.refusing = refusal(status, `No: ${secret}`, null)
    t.teardown(() => {
      openai.refusing = null
    })
    const session = await openTalk(gateway.url, account.live, { model })
    t.is((await session.end()).code, 1011)
    t.like(session.events.at(-1), { type: 'error', error: { code: 'upstream_error' } })
    t.false(JSON.stringify(session.events).includes(secret))
    const view = () => gateway.services.wallets.view(account.organisationId)
    await eventually(async () => (await view()).reservedNano === 0n, 'nothing is reserved')
  })
}

for (const [name, upstream, prices] of [
  ['gpt-realtime', 'gpt-realtime', [4, 0.4, 32, 16, 64]],
  ['gpt-realtime-2025-08-28', 'gpt-realtime', [4, 0.4, 32, 16, 64]],
  ['gpt-realtime-mini', 'gpt-realtime-mini', [0.6, 0.06, 10, 2.4, 20]],
  ['gpt-realtime-mini-2025-12-15', 'gpt-realtime-mini', [0.6, 0.06, 10, 2.4, 20]],
] as const)
  test.serial(`open and paid: a session of ${name}, which clients name by default until it ends`, async t => {
    const account = await gateway.account()
    openai.answers({})
    const session = await openTalk(gateway.url, account.live, { model: name })
    t.is(openai.last.query.get('model'), upstream)
    await respond(session)
    await session.close()
    const [input, cached, audioInput, output, audioOutput] = prices
    const expected = millionthsNano([55, input], [64, cached], [13, audioInput], [30, output], [91, audioOutput])
    t.is((await bookedSession(gateway, account)).chargedNano, expected)
  })
