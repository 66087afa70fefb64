import type { SessionConfig } from 'openai/resources/live/live'
import { delegatedUsage, LiveEmulator } from '../emulators/openai-live.ts'
import { type Account, eventually, type KeyOptions } from '../support/gateway.ts'
import { type LiveTalk, openLive } from '../support/realtime/sdk.ts'
import { bookedSession, millionthsNano, minutesNano, silence } from '../support/realtime/talks.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

const model = 'gpt-live-1'
const usdPerMinute = '0.05'
const secret = 'upstream-secret-0123456789'
const clock = testClock('2026-11-22T10:00:00Z')

const openai = use(test, () => LiveEmulator.start())
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: secret, OPENAI_BASE_URL: openai.baseUrl }), { clock })

async function open(options?: KeyOptions & { usd?: string }): Promise<{ account: Account; session: LiveTalk }> {
  const account = await gateway.account(options)
  return { account, session: await openLive(gateway.url, account.live, model) }
}

/** A session of an account of its own that has been started. */
async function start(settings: Partial<SessionConfig> = {}): Promise<{ account: Account; session: LiveTalk }> {
  const { account, session } = await open()
  session.client.send({ type: 'session.start', session: { model, ...settings } })
  await session.heard('session.started')
  return { account, session }
}

/** Says sound of a length; waits until the provider has told the whole length. */
async function say({ client, heard, events }: LiveTalk, seconds: number): Promise<void> {
  const told = events.filter(({ type }) => type === 'session.usage.updated').length
  client.send({ type: 'session.input_audio.append', audio: silence(seconds) })
  await heard('session.usage.updated', told + 1)
}

async function charged(account: Account): Promise<number> {
  return (await bookedSession(gateway, account)).chargedNano
}

test.serial('the SDK’s Live client talks to the provider itself as the emulator has it', async t => {
  const session = await openLive(openai.provider.url, 'sk-any')
  session.client.send({ type: 'session.close' })
  await eventually(() => session.errors.length === 1, 'it has to be started first')
  session.client.send({ type: 'session.start', session: { model: 'gpt-live-9' } })
  await eventually(() => session.errors.length === 2, 'there is no such model')
  session.client.send({ type: 'session.start', session: { model } })
  t.like((await session.heard('session.started')).session, { model, status: 'active' })
  await say(session, 2)
  await say(session, 1)
  t.deepEqual(
    session.events.filter(({ type }) => type === 'session.usage.updated').map(({ usage }) => usage.seconds),
    [2, 3],
  )
  session.client.send({ type: 'session.close' })
  t.like(await session.heard('session.closed'), { reason: 'close_requested', usage: { seconds: 3 } })
  t.is((await session.end()).code, 1000)
  await t.throwsAsync(openLive(openai.provider.url, 'invalid'), { message: /401/ })
})

test.serial('the SDK’s Live client holds a session through the gateway; its length is charged once', async t => {
  const { account, session } = await start()
  const { headers, path, query } = openai.last.provider
  t.is(headers.authorization, `Bearer ${secret}`)
  t.is(path, '/v1/live/sessions')
  t.is(query.size, 0)
  for (const _ of Array(5)) await say(session, 2)
  t.is((await session.heard('session.output_audio.delta')).delta, silence(2))
  session.client.send({ type: 'session.close' })
  await session.heard('session.closed')
  t.is((await session.end()).code, 1000)
  const { generation, chargedNano } = await bookedSession(gateway, account)
  t.like(generation, { model, provider: 'openai', status: 101, finishReason: 'provider_closed', errorCode: null })
  t.is(chargedNano, minutesNano(10, usdPerMinute))
})

for (const [what, named] of [
  ['left out', undefined],
  ['the catalog’s id', model],
  ['the id with its owner', 'OpenAI/GPT-live-1'],
] as const) {
  test.serial(`the provider is told its own name of the model: ${what}`, async t => {
    const { session } = await open()
    const frame = JSON.stringify({ type: 'session.start', session: { instructions: 'é', model: named, store: false } })
    session.client.sendRaw(frame)
    t.is((await session.heard('session.started')).session.model, model)
    const [sent] = openai.last.provider.frames
    t.deepEqual(JSON.parse(sent!.data.toString()).session, { instructions: 'é', model, store: false })
    if (named === model) t.is(sent!.data.toString(), frame)
    await session.close()
  })
}

test.serial('4403 for another model than the session was opened with, before the provider hears of it', async t => {
  const { account, session } = await open()
  session.client.send({ type: 'session.start', session: { model: 'gpt-live-2' } })
  t.deepEqual(await session.end(), { code: 4403, reason: 'model_not_allowed' })
  const { type, error, event_id: eventId } = session.events.at(-1)
  t.is(type, 'error')
  t.like(error, { type: 'permission_error', code: 'model_not_allowed', param: 'session.model' })
  t.is(typeof eventId, 'string')
  t.deepEqual(openai.last.provider.frames, [])
  t.is(await charged(account), 0)
})

test.serial('4403 for another model in a second start, after the provider refused the first', async t => {
  const { account, session } = await open()
  const audio = { output: { voice: 'nobody' } }
  session.client.send({ type: 'session.start', session: { model, audio } })
  await eventually(() => session.errors.length === 1, 'there is no such voice')
  session.client.send({ type: 'session.start', session: { model: 'gpt-live-2' } })
  t.is((await session.end()).code, 4403)
  t.is(openai.last.provider.frames.length, 1)
  t.is(await charged(account), 0)
})

test.serial('4400 for a first frame that is no JSON', async t => {
  const { account, session } = await open()
  session.client.sendRaw('{"type":"session.start","session":{"model":"gpt-live-1","model":"gpt-live-2"}}')
  t.is((await session.end()).code, 4400)
  t.deepEqual(openai.last.provider.frames, [])
  t.is(await charged(account), 0)
})

test.serial('a client that leaves pays for the whole length, which the provider is asked for', async t => {
  const { account, session } = await start()
  await say(session, 4)
  session.client.send({ type: 'session.input_audio.append', audio: silence(0.5) })
  await session.heard('session.output_audio.delta', 2)
  session.client.socket.platformSocket.terminate()
  t.is(await charged(account), minutesNano(4.5, usdPerMinute))
  t.deepEqual(openai.last.provider.events.at(-1), { type: 'session.close' })
})

test.serial('a provider that is gone without a last word is paid what it told last', async t => {
  const { account, session } = await start()
  await say(session, 6)
  clock.advance(40_000)
  openai.last.provider.connection.resetAndDestroy()
  t.is((await session.end()).code, 1011)
  t.like(session.events.at(-1), { type: 'error', error: { code: 'upstream_error' } })
  t.is(await charged(account), minutesNano(6, usdPerMinute))
})

test.serial('a provider that never told is paid by the clock', async t => {
  const { account, session } = await start()
  clock.advance(30_000)
  openai.last.provider.connection.resetAndDestroy()
  await session.end()
  t.is(await charged(account), minutesNano(30, usdPerMinute))
})

test.serial('a session that is never started costs nothing', async t => {
  const { account, session } = await open()
  clock.advance(30_000)
  await session.close()
  t.is(await charged(account), 0)
})

test.serial('lengths that cannot be one change nothing', async t => {
  const { account, session } = await start()
  await say(session, 3)
  const strange = [{ seconds: -1 }, { seconds: 1e300 }, { seconds: '9' }, { seconds: 1 }, {}, null, 'long', [9]]
  for (const usage of strange) openai.last.tell(usage)
  await session.heard('session.usage.updated', strange.length + 1)
  openai.last.provider.connection.resetAndDestroy()
  await session.end()
  t.is(await charged(account), minutesNano(3, usdPerMinute))
})

test.serial('what is delegated is charged at the price of the model that did it', async t => {
  const delegation = { type: 'responses' as const, responses: { model: 'gpt-5-mini' } }
  const { account, session } = await start({ delegation })
  session.client.send({ type: 'response.create' })
  t.is((await session.heard('response.event', 3)).event.type, 'response.completed')
  openai.last.delegate('gpt-5-mini-2025-08-07', { ends: 'incomplete' })
  openai.last.decide('gpt-5-mini')
  await session.heard('decision.event')
  await say(session, 2)
  session.client.send({ type: 'session.close' })
  await session.end()
  const each = [176, 0.25, 1_024, 0.025, 340, 2] as const
  const [input, inputUsd, cached, cachedUsd, output, outputUsd] = each
  const once = millionthsNano([input, inputUsd], [cached, cachedUsd], [output, outputUsd])
  const { generation, chargedNano } = await bookedSession(gateway, account)
  t.is(chargedNano, 3 * once + minutesNano(2, usdPerMinute))
  t.like(generation, { promptTokens: 3 * delegatedUsage.input_tokens, reasoningTokens: 3 * 256 })
})

for (const unknown of ['gpt-99-secret', 'gpt-5-pro', 'o3-pro-2025-06-10']) {
  test.serial(`what is delegated to ${unknown}, without a price, is as dear as the dearest`, async t => {
    const { account, session } = await start()
    openai.last.delegate(unknown)
    await session.heard('response.event', 3)
    session.client.send({ type: 'session.close' })
    await session.end()
    const dearest = await charged(account)
    t.true(dearest > millionthsNano([1_200, 4], [340, 24]))
  })
}

const decisions = { type: 'decisions' as const, decisions: { model: 'gpt-5-mini', questions: [] } }

/** A session of a small wallet, with `bytes` of text for decisions. */
async function startPoor(settings: Partial<SessionConfig>, bytes: number) {
  const { account, session } = await open({ usd: '1' })
  session.client.send({ type: 'session.start', session: { model, ...settings } })
  await session.heard('session.started')
  const item = { role: 'user' as const, content: 'x'.repeat(bytes) }
  session.client.send({ type: 'decision.item.create', item })
  return { account, session }
}

test.serial('a decision is reserved for before it is requested', async t => {
  const { account, session } = await startPoor({ delegation: decisions }, 100_000)
  session.client.send({ type: 'decision.create', event_id: '1' })
  await session.heard('decision.event')
  // At most $1.25 of tokens.
  session.client.send({ type: 'decision.item.create', item: { role: 'user', content: 'x'.repeat(5_000_000) } })
  session.client.send({ type: 'decision.create', event_id: '2' })
  await eventually(() => session.errors.length === 1, 'it is refused')
  t.regex(session.errors[0]!.message, /credits/)
  t.is(openai.last.provider.events.filter(({ type }) => type === 'decision.create').length, 1)
  session.client.send({ type: 'session.close' })
  await session.end()
  const once = millionthsNano([176, 0.25], [1_024, 0.025], [340, 2])
  t.is(await charged(account), once)
})

test.serial('4402 where decisions that the provider begins by itself cannot be reserved', async t => {
  const triggers = [{ type: 'decisions', event_type: 'session.input_transcript.delta', decisions: { questions: [] } }]
  const { account, session } = await startPoor({ delegation: decisions, triggers } as object, 5_000_000)
  openai.last.decide('gpt-5-mini')
  t.is((await session.end()).code, 4402)
  t.true((await charged(account)) > 0)
})
