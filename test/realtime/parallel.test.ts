import { type Answer, RealtimeEmulator, type Speech } from '../emulators/openai-realtime.ts'
import { type Account, eventually, type Gateway } from '../support/gateway.ts'
import { openTalk } from '../support/realtime/sdk.ts'
import { spentNano } from '../support/realtime/sessions.ts'
import { millionthsNano, silence } from '../support/realtime/talks.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const model = 'gpt-realtime-2.1'
/** $0.15 each with the margin, and some of a prompt. Slower than Redis, so that a slow machine makes no provider that is faster than any. */
const speech: Speech = {
  promptTokens: 100,
  pieceTokens: 15,
  pieces: 150,
  pause: async () => {
    for (let pings = 0; pings < 3; pings++) await gateway.services.redis.ping()
  },
}
const openai = use(test, () => RealtimeEmulator.start())
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-provider', OPENAI_BASE_URL: openai.baseUrl }))
test.beforeEach(() => openai.forget())

async function talk(key: string) {
  const session = await openTalk(gateway.url, key, { model })
  await session.heard('session.created')
  const audio = { output: { format: { type: 'audio/pcmu' as const } } }
  session.client.send({ type: 'session.update', session: { type: 'realtime', audio } })
  await session.heard('session.updated')
  return session
}

const aside = { type: 'response.create' as const, response: { conversation: 'none' as const } }

/** What the provider did for all its answers since `from`, at the model's prices. */
function workNano(from: number): number {
  const usages = openai.reported.slice(from).map(({ usage }) => usage)
  return millionthsNano(
    ...usages.flatMap(({ input_tokens: input, output_tokens: output }): [number, number][] => [
      [input, 4],
      [output, 64],
    ]),
  )
}

function spent(account: Account): Promise<number> {
  return spentNano({ gateway, services: gateway.services }, account)
}

/** Has `sessions` ask for `answers` spoken answers each, at once, and waits until they are over. */
async function speakAtOnce(options: Parameters<Gateway['account']>[0], sessions: number, answers: number) {
  const account = await gateway.account(options)
  const from = openai.reported.length
  openai.answers(...Array<Answer>(sessions * answers).fill({ speech }))
  const talks = await Promise.all(Array.from({ length: sessions }, () => talk(account.live).catch(() => null)))
  const open = talks.filter(it => it !== null)
  for (const { client } of open) for (let n = 0; n < answers; n++) client.send(aside)
  const ends = await Promise.all(open.map(session => session.end()))
  return { account, ends, open, from, spentNano: await spent(account), workNano: workNano(from) }
}

test.serial('4402: thirty answers at once do not take a wallet below nothing, and all of them are charged', async t => {
  const { account, ends, ...money } = await speakAtOnce({ usd: '0.6' }, 1, 30)
  t.like(ends[0], { code: 4402, reason: 'insufficient_credits' })
  t.is(money.spentNano, money.workNano)
  t.true(money.spentNano > 200_000_000, String(money.spentNano))
  const { balanceNano } = await gateway.services.wallets.view(account.organisationId)
  t.true(balanceNano >= 0n, String(balanceNano))
})

test.serial('4402: thirty answers at once of a capped key are charged in full, and within its cap', async t => {
  const { ends, ...money } = await speakAtOnce({ monthly_spend_cap_usd: 0.3 }, 1, 30)
  t.like(ends[0], { code: 4402, reason: 'monthly_spend_cap_reached' })
  t.is(money.spentNano, money.workNano)
  t.true(money.spentNano <= 300_000_000, String(money.spentNano))
})

/** An item of 200 kB: with it a prompt may cost more than half a dollar. */
const longItem = {
  type: 'conversation.item.create' as const,
  item: {
    type: 'message' as const,
    role: 'user' as const,
    content: [{ type: 'input_text' as const, text: 'x'.repeat(200_000) }],
  },
}
const seen = () => openai.last.events.map(({ type }) => type)

test.serial(
  'insufficient_credits for an answer that funds do not cover: the session goes on, all else passes',
  async t => {
    const account = await gateway.account({ usd: '0.4' })
    const session = await talk(account.live)
    openai.answers({})
    for (const event of [longItem, aside, { type: 'input_audio_buffer.clear' as const }]) session.client.send(event)
    await session.heard('input_audio_buffer.cleared')
    t.deepEqual(seen(), ['session.update', 'conversation.item.create', 'input_audio_buffer.clear'])
    t.like(
      session.events.find(({ type }) => type === 'error'),
      { error: { code: 'insufficient_credits' } },
    )
    const { organisationId } = account
    await gateway.services.wallets.deposit({ organisationId, amountNano: 2_000_000_000n, method: 'grant' })
    session.client.send(aside)
    await session.heard('response.done')
    await session.close()
    t.is(await spent(account), millionthsNano([55, 4], [64, 0.4], [13, 32], [30, 24], [91, 64]))
  },
)

test.serial('frames keep their order where an answer waits for its reservation', async t => {
  const account = await gateway.account()
  const session = await talk(account.live)
  openai.answers({}, {})
  const clear = { type: 'input_audio_buffer.clear' as const }
  const sent = [longItem, aside, clear, aside, clear, clear]
  for (const event of sent) session.client.send(event)
  await session.heard('input_audio_buffer.cleared', 3)
  await session.heard('response.done', 2)
  t.deepEqual(
    seen().slice(1),
    sent.map(({ type }) => type),
  )
  await session.close()
})

test.serial('rate_limit_exceeded for the 33rd answer at a time', async t => {
  const account = await gateway.account()
  const session = await talk(account.live)
  openai.answers(...Array<Answer>(32).fill({ ends: false }), {})
  for (let n = 0; n < 33; n++) session.client.send(aside)
  await session.heard('error')
  t.like(
    session.events.find(({ type }) => type === 'error'),
    { error: { code: 'rate_limit_exceeded' } },
  )
  await session.heard('response.created', 32)
  session.client.send({ type: 'response.cancel', response_id: (await session.heard('response.created')).response.id })
  await session.heard('response.done')
  session.client.send(aside)
  await session.heard('response.done', 2)
  const cancelled = () => seen().filter(type => type === 'response.cancel').length
  session.client.socket.terminate()
  await eventually(() => cancelled() === 32, 'those that go on are cancelled, each by its id')
  const each = millionthsNano([55, 4], [64, 0.4], [13, 32])
  t.is(
    await spent(account),
    33 * each + 32 * millionthsNano([5, 24], [6, 64]) + millionthsNano([30, 24], [91, 64]),
    'all of them are charged',
  )
})

test.serial('4402 for sound that a provider may answer by itself, where no answer can be reserved for', async t => {
  const account = await gateway.account({ usd: '0.4' })
  const session = await talk(account.live)
  session.client.send(longItem)
  session.client.send({ type: 'input_audio_buffer.append', audio: silence(1) })
  t.deepEqual(await session.end(), { code: 4402, reason: 'insufficient_credits' })
  t.deepEqual(seen(), ['session.update', 'conversation.item.create'])
  t.is(await spent(account), 0)
})

test.serial(
  '402 for a prompt that repeats an item of the conversation, where its whole size cannot be paid',
  async t => {
    const account = await gateway.account({ usd: '0.5' })
    const session = await talk(account.live)
    const content = [{ type: 'input_text' as const, text: 'x'.repeat(20_000) }]
    session.client.send({
      type: 'conversation.item.create',
      item: { type: 'message', role: 'user', content, id: 'item_a' },
    })
    const repeat = (times: number) => {
      const input = Array.from({ length: times }, () => ({ type: 'item_reference', id: 'item_a' }))
      session.client.send({ type: 'response.create', response: { conversation: 'none', input } } as never)
    }
    repeat(1)
    await session.heard('response.done')
    repeat(6)
    await eventually(() => session.errors.length === 1, 'it is refused')
    t.regex(session.errors[0]!.message, /credits/)
    t.is(seen().filter(type => type === 'response.create').length, 1)
    await session.close()
  },
)

test.serial('101: a small wallet holds a conversation, and all but a little of it can be spent', async t => {
  const account = await gateway.account({ usd: '0.4' })
  const session = await talk(account.live)
  const answer = { speech: { ...speech, pieces: 10 } }
  let count = 0
  while (session.closed === null) {
    openai.answers(answer)
    session.client.send({ type: 'response.create' })
    count++
    const over = () => session.events.filter(({ type }) => type === 'response.done' || type === 'error').length >= count
    await eventually(() => over() || session.closed !== null, 'it is answered')
    if (session.events.some(({ type }) => type === 'error')) await session.close()
  }
  const nano = await spent(account)
  t.true(nano > 280_000_000 && nano <= 400_000_000, String(nano))
})

test.serial('4402: answers at once in several sessions of a wallet', async t => {
  const { account, open, ...money } = await speakAtOnce({ usd: '1.2' }, 4, 10)
  t.is(open.length, 4)
  t.is(money.spentNano, money.workNano)
  const { balanceNano } = await gateway.services.wallets.view(account.organisationId)
  t.true(balanceNano >= 0n, String(balanceNano))
})
