import { type Account, eventually } from '../support/gateway.ts'
import { openTalk } from '../support/realtime/sdk.ts'
import { spentNano, startSessions, type Talk, talk, tokensNano } from '../support/realtime/sessions.ts'
import { joined, RealtimeClient, refusedSession } from '../support/realtime/sockets.ts'
import { millionthsNano, minutesNano } from '../support/realtime/talks.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'

const liveModel = 'gpt-live-1'
const transcription = 'conversation.item.input_audio_transcription'
let account: Account

const stores = useStores(test)
const world = use(test, () => startSessions(stores))
test.beforeEach(async () => {
  account = await world.gateway.account()
})

/** The frames that the provider got after the client broke off. */
async function breakOff({ socket, provider }: Talk, count: number) {
  const before = provider.events.length
  socket.terminate()
  await eventually(() => provider.events.length === before + count, 'the provider is asked for what it owes')
  return provider.events.slice(before)
}

function writes(model: string) {
  return { type: 'session.updated', session: { type: 'realtime', audio: { input: { transcription: { model } } } } }
}

function written(usage: object) {
  return { type: `${transcription}.completed`, item_id: 'item_1', transcript: 'Well.', usage }
}

const ofTokens = {
  type: 'tokens',
  input_tokens: 100,
  output_tokens: 10,
  total_tokens: 110,
  input_token_details: { text_tokens: 0, audio_tokens: 100 },
}

test.serial(
  'a client that leaves several responses under way pays for each: they are cancelled by their names',
  async t => {
    const session = await talk(world, account.live)
    for (const id of ['resp_in', 'resp_out']) await session.tell({ type: 'response.created', response: { id } })
    t.deepEqual(await breakOff(session, 2), [
      { type: 'response.cancel', response_id: 'resp_in' },
      { type: 'response.cancel', response_id: 'resp_out' },
    ])
    const usage = { input_tokens: 100, output_tokens: 10, total_tokens: 110 }
    session.provider.send({ type: 'response.done', response: { id: 'resp_in', usage } })
    session.provider.send({ type: 'response.done', response: { id: 'resp_out', usage } })
    t.is(await spentNano(world, account), tokensNano({ input: 200, output: 20 }))
  },
)

test.serial('a client that leaves without a commit pays for what was written down of its sound', async t => {
  const session = await talk(world, account.live)
  await session.tell(writes('whisper-1'))
  await session.tell({ type: `${transcription}.delta`, item_id: 'item_1', delta: 'Well' })
  t.deepEqual(await breakOff(session, 1), [{ type: 'input_audio_buffer.commit' }])
  session.provider.send({ type: 'input_audio_buffer.committed', item_id: 'item_1' })
  session.provider.send(written({ type: 'duration', seconds: 30 }))
  t.is(await spentNano(world, account), minutesNano(30, '0.006'))
})

test.serial(
  'what is said is paid at the price of the model that began to write it down, not of one set afterwards',
  async t => {
    const session = await talk(world, account.live)
    await session.tell(writes('gpt-4o-transcribe'))
    await session.tell({ type: 'input_audio_buffer.committed', item_id: 'item_1' })
    await session.tell(writes('gpt-4o-mini-transcribe'))
    await session.tell(written(ofTokens))
    await session.leave()
    t.is(await spentNano(world, account), millionthsNano([100, 2.5], [10, 10]))
  },
)

test.serial('4400 for more before the beginning than may be parsed in one go', async t => {
  const session = await talk(world, account.live, liveModel)
  const filler = `{"padding":"${'x'.repeat(1_500_000)}"}`
  for (let i = 0; i < 3; i++) session.socket.send(filler)
  t.deepEqual(await session.end(), { code: 4400, error: 'invalid_request' })
  t.regex(session.error.message, /4 MiB/)
  t.is(session.provider.events.length, 3, 'two of them, after the mark')
  t.is(await spentNano(world, account), 0)
})

test.serial('101 for as much as a client likes once the session has begun', async t => {
  const session = await talk(world, account.live, liveModel)
  await session.tell({ type: 'session.started' })
  const filler = `{"padding":"${'x'.repeat(5_000_000)}"}`
  session.socket.send(filler)
  await eventually(() => session.provider.events.length === 2, 'it came')
  t.is(session.closed, null)
  session.socket.terminate()
  session.provider.send({ type: 'session.closed', usage: { seconds: 0 } })
  t.is(await spentNano(world, account), 0)
})

test.serial(
  '101: the SDK opens a session that only writes down without a model, of one that its key may use',
  async t => {
    const { live } = await world.gateway.account({ model_allowlist: ['grok-voice', 'gpt-realtime-2'] })
    const session = await openTalk(world.gateway.url, live, { intent: 'transcription' })
    t.deepEqual([...world.provider.last.query], [['intent', 'transcription']])
    await session.close()
  },
)

test.serial('101 for a session that only writes down of a model that transcribes, opened without a model', async t => {
  const { live } = await world.gateway.account({ model_allowlist: ['grok-voice', 'gpt-realtime-2'] })
  const query = 'model=gpt-4o-mini-transcribe&intent=transcription'
  const client = await joined(new RealtimeClient(world.gateway.url, { key: live, query }))
  t.deepEqual([...world.provider.last.query], [['intent', 'transcription']])
  client.socket.close()
  await client.end()
  const withoutIntent = await refusedSession(world.gateway.url, { key: live, query: 'model=gpt-4o-mini-transcribe' })
  t.is(withoutIntent.status, 404)
  const unknown = await refusedSession(world.gateway.url, { key: live, query: 'model=nope&intent=transcription' })
  t.like(unknown.body.error, { code: 'model_not_found', param: 'model' })
})

test.serial(
  '400 for a session that only writes down of a model that cannot, which would be another than was asked for',
  async t => {
    for (const model of ['grok-voice', liveModel]) {
      for (const key of [account.live, account.test]) {
        const { status, body } = await refusedSession(world.gateway.url, {
          key,
          query: `model=${model}&intent=transcription`,
        })
        t.is(status, 400)
        t.like(body.error, { code: 'unsupported_capability', param: 'intent' })
      }
    }
    const { live } = await world.gateway.account({ model_allowlist: ['grok-voice'] })
    t.is((await refusedSession(world.gateway.url, { key: live, query: 'intent=transcription' })).status, 400)
    t.is((await refusedSession(world.gateway.url, { key: live, query: '' })).body.error.param, 'model')
  },
)

test.serial('200 for a client secret of a session that only writes down; 400 of a model that cannot', async t => {
  const ask = (session: object) =>
    fetch(`${world.gateway.url}/v1/realtime/client_secrets`, {
      method: 'POST',
      headers: { authorization: `Bearer ${account.live}`, 'content-type': 'application/json' },
      body: JSON.stringify({ session }),
    })
  const { error } = (await (await ask({ type: 'transcription', model: 'grok-voice' })).json()) as { error: object }
  t.like(error, { code: 'unsupported_capability', param: 'session.type' })
  const { value } = (await (await ask({ type: 'transcription' })).json()) as { value: string }
  const session = await openTalk(world.gateway.url, value, { intent: 'transcription' })
  await eventually(() => world.provider.last.events.length > 0, 'the settings came')
  t.deepEqual(world.provider.last.events, [{ type: 'session.update', session: { type: 'transcription' } }])
  await session.close()
})
