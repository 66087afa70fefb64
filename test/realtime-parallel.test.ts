import test from 'ava'
import { type Answer, RealtimeEmulator, type Speech } from './emulators/openai-realtime.ts'
import { type Account, freshStores, type Gateway, type Stores, startGateway } from './support/gateway.ts'
import { openTalk } from './support/realtime-sdk.ts'
import { millionthsNano } from './support/realtime-talks.ts'
import { spentNano } from './support/sessions.ts'

const model = 'gpt-realtime-2.1'
/** $0.15 each with the margin, and some of a prompt. */
const speech: Speech = { promptTokens: 100, pieceTokens: 45, pieces: 50, pieceMs: 20 }

let stores: Stores
let openai: RealtimeEmulator
let gateway: Gateway
test.before(async () => {
  ;[stores, openai] = await Promise.all([freshStores(), RealtimeEmulator.start()])
  gateway = await startGateway(stores, { OPENAI_API_KEY: 'sk-provider', OPENAI_BASE_URL: openai.baseUrl })
})
test.after.always(async () => {
  await gateway?.close()
  await openai?.close()
  await stores?.drop()
})

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
  const { balanceNano } = await gateway.services.accounts.view(account.organisationId)
  t.true(balanceNano >= 0n, String(balanceNano))
})

test.serial('4402: thirty answers at once of a capped key are charged in full, and within its cap', async t => {
  const { ends, ...money } = await speakAtOnce({ monthly_spend_cap_usd: 0.3 }, 1, 30)
  t.like(ends[0], { code: 4402, reason: 'monthly_spend_cap_reached' })
  t.is(money.spentNano, money.workNano)
  t.true(money.spentNano <= 300_000_000, String(money.spentNano))
})

test.serial('4402: answers at once in several sessions of a wallet', async t => {
  const { account, open, ...money } = await speakAtOnce({ usd: '1.2' }, 4, 10)
  t.is(open.length, 4)
  t.is(money.spentNano, money.workNano)
  const { balanceNano } = await gateway.services.accounts.view(account.organisationId)
  t.true(balanceNano >= 0n, String(balanceNano))
})
