import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { handleExcesses } from '../../shared/alerts/excesses.ts'
import type { Usage } from '../../shared/base/usage.ts'
import { messageReply } from '../emulators/anthropic.ts'
import { json, type Reply } from '../emulators/emulator.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { chargedNano, expectedNano, saying, startWorld } from '../support/chat/gateway.ts'
import type { Account } from '../support/gateway.ts'
import { answerOf } from '../support/jobs/gateway.ts'
import { pdfOfPages } from '../support/media/documents.ts'
import { sound } from '../support/media/sounds.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

let filesUrl: string
const pdf = pdfOfPages(3)

const files = use(test, () =>
  createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/pdf' })
    response.end(request.url === '/unreadable.pdf' ? '%PDF-1.7 is no PDF' : pdf)
  }).listen(0, '127.0.0.1'),
)
test.before(async () => {
  await new Promise(resolve => files.once('listening', resolve))
  filesUrl = `http://127.0.0.1:${(files.address() as AddressInfo).port}`
})
const xai = use(test, startOpenAiEmulator)
const world = use(test, () => {
  const settings = { XAI_API_KEY: 'xai-key-0123456789', XAI_BASE_URL: `${xai.url}/v1` }
  return startWorld({ ALLOW_PRIVATE_URLS: 'true', ...settings })
})
test.beforeEach(() => {
  for (const upstream of [world.openai, world.anthropic]) upstream.reset()
})

const chat = '/v1/chat/completions'
const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }
const document = (file_data: string) => ({ type: 'file', file: { filename: 'a.pdf', file_data } })
const usageOf = (prompt_tokens: number, completion_tokens: number, more: Partial<Usage> = {}): Usage => {
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, ...more }
}

/** An answer of OpenAI's dialect with this usage. */
function using(usage: Usage): Reply {
  const message = { role: 'assistant', content: 'Done' }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  return json(200, { id: 'c1', object: 'chat.completion', created: 1, model: 'm', choices, usage })
}

async function excessNano({ organisationId }: Account): Promise<number> {
  const where = { organisationId, kind: 'excess' } as const
  const { _sum } = await world.gateway.services.db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
  return 0 - Number(_sum.amountNano ?? 0n)
}

const billed: { name: string; model: string; content: unknown[]; usage: Usage }[] = [
  {
    name: 'ten images that a mini model counts as 25,501 tokens each',
    model: 'gpt-4o-mini',
    content: Array.from({ length: 10 }, () => image),
    usage: usageOf(255_030, 5),
  },
  {
    name: 'sound that cannot be measured, counted as 36,000 tokens',
    model: 'gpt-audio-mini',
    content: [{ type: 'input_audio', input_audio: { data: 'A'.repeat(8_000), format: 'mp3' } }],
    usage: usageOf(36_050, 5, { prompt_tokens_details: { audio_tokens: 36_000 } }),
  },
]

for (const { name, model, content, usage } of billed) {
  test.serial(`200 at its real price, within its reservation, for keys with and without a cap: ${name}`, async t => {
    for (const cap of [null, 1_000]) {
      world.openai.next(using(usage))
      const account = await world.gateway.account({ usd: '50', monthly_spend_cap_usd: cap })
      const parts = [{ type: 'text', text: 'Look' }, ...content]
      const answer = await world.gateway.fetch(chat, {
        key: account.live,
        body: saying(model, parts, { max_tokens: 16, provider: { only: ['openai'] } }),
      })
      t.is(answer.status, 200)
      t.is(await chargedNano(world, account), expectedNano(model, usage))
      t.is(await excessNano(account), 0)
    }
  })

  test.serial(`402 for a wallet that cannot pay what it may cost, before any provider is called: ${name}`, async t => {
    const account = await world.gateway.account({ usd: '0.01' })
    const answer = await world.gateway.fetch(chat, {
      key: account.live,
      body: saying(model, content, { max_tokens: 16, provider: { only: ['openai'] } }),
    })
    t.is(answer.status, 402)
    t.is(world.openai.requests.length, 0)
  })
}

for (const [form, content] of [
  ['a text', '1234567890'.repeat(30_000)],
  ['parts', [{ type: 'text', text: '1234567890'.repeat(30_000) }]],
] as const)
  test.serial(
    `a prediction is reserved as output beside the limit, since its rejected tokens are billed: ${form}`,
    async t => {
      const more = { max_tokens: 16, provider: { only: ['openai'] }, prediction: { type: 'content', content } }
      const body = saying('gpt-4.1', 'Hi', more)
      // The prompt with the prediction is at most $0.63.
      const poor = await world.gateway.account({ usd: '0.7' })
      t.is((await world.gateway.fetch(chat, { key: poor.live, body })).status, 402)
      t.is(world.openai.requests.length, 0)

      const usage = usageOf(10, 100_002, {
        completion_tokens_details: { rejected_prediction_tokens: 99_990 } as object,
      })
      world.openai.next(using(usage))
      const account = await world.gateway.account({ usd: '10' })
      t.is((await world.gateway.fetch(chat, { key: account.live, body })).status, 200)
      t.is(await chargedNano(world, account), expectedNano('gpt-4.1', usage))
      t.is(await excessNano(account), 0)
    },
  )

test.serial('200 for a small wallet: a document by URL is fetched, measured and sent as it was measured', async t => {
  const account = await world.gateway.account({ usd: '0.1' })
  const content = [{ type: 'text', text: 'Read' }, document(`${filesUrl}/small.pdf`)]
  const body = saying('claude-opus-4-6', content, { max_tokens: 16, provider: { only: ['anthropic'] } })
  const answer = await world.gateway.fetch(chat, { key: account.live, body })
  t.is(answer.status, 200, await answer.clone().text())
  const [sent] = world.anthropic.requests
  const [, block] = sent!.body.messages[0].content
  t.deepEqual(block.source, { type: 'base64', media_type: 'application/pdf', data: pdf.toString('base64') })
  await chargedNano(world, account)
})

test.serial('402 for a small wallet: a document whose size cannot be told may fill the whole context', async t => {
  const account = await world.gateway.account({ usd: '0.1' })
  for (const path of [
    `${filesUrl}/unreadable.pdf`,
    `data:application/pdf;base64,${Buffer.from('%PDF-').toString('base64')}`,
  ]) {
    const body = saying('claude-opus-4-6', [document(path)], { max_tokens: 16, provider: { only: ['anthropic'] } })
    t.is((await world.gateway.fetch(chat, { key: account.live, body })).status, 402)
  }
  t.is(world.anthropic.requests.length, 0)
})

test.serial('Messages: documents are reserved by their pages, in base64, by URL and in results of tools', async t => {
  const { live } = await world.gateway.account({ usd: '0.1' })
  const base64 = (bytes: Buffer) => ({ type: 'base64', media_type: 'application/pdf', data: bytes.toString('base64') })
  const block = (source: object) => ({ type: 'document', source })
  const ask = (content: object[], more: object[] = []) => {
    const messages = [...more, { role: 'user', content }]
    const body = { model: 'claude-opus-4-6', max_tokens: 16, provider: { only: ['anthropic'] }, messages }
    return world.gateway.fetch('/v1/messages', { key: live, body })
  }
  const url = { type: 'url', url: `${filesUrl}/small.pdf` }
  for (const source of [base64(pdf), url]) {
    const answer = await ask([block(source)])
    t.is(answer.status, 200, await answer.clone().text())
    t.deepEqual(world.anthropic.requests.at(-1)!.body.messages[0].content[0].source, base64(pdf))
  }
  const call = { type: 'tool_use', id: 'toolu_1', name: 'read', input: {} }
  const called = [
    { role: 'user', content: 'Read' },
    { role: 'assistant', content: [call] },
  ]
  const result = await ask([{ type: 'tool_result', tool_use_id: 'toolu_1', content: [block(url)] }], called)
  t.is(result.status, 200, await result.clone().text())
  t.deepEqual(world.anthropic.requests.at(-1)!.body.messages[2].content[0].content[0].source, base64(pdf))
  const sent = world.anthropic.requests.length
  for (const source of [base64(Buffer.from('%PDF-')), { ...url, url: `${filesUrl}/unreadable.pdf` }])
    t.is((await ask([block(source)])).status, 402)
  const rich = (await world.gateway.account({ usd: '100' })).live
  for (const stored of [block({ type: 'file', file_id: 'file_1' }), { type: 'container_upload', file_id: 'file_1' }]) {
    const body = { model: 'claude-opus-4-6', max_tokens: 16, messages: [{ role: 'user', content: [stored] }] }
    const refused = await world.gateway.fetch('/v1/messages', {
      key: rich,
      body: { ...body, provider: { only: ['anthropic'] } },
    })
    t.is(refused.status, 400)
    t.is((await answerOf(refused)).error.param, 'messages.0.content.0')
  }
  const many = await ask(Array.from({ length: 17 }, () => block(url)))
  t.is(many.status, 400)
  t.is((await answerOf(many)).error.param, 'messages.0.content.16.source.url')
  t.is(world.anthropic.requests.length, sent)
})

test.serial(
  'Messages: what the provider’s own tools cost beyond the reservation never overdraws the wallet',
  async t => {
    const search = { type: 'web_search_20260318', name: 'web_search', max_uses: 2 }
    const ask = (key: string, stream: boolean) => {
      const messages = [{ role: 'user', content: 'Find' }]
      const body = { model: 'claude-opus-4-6', max_tokens: 16, stream, messages, tools: [search] }
      return world.gateway.fetch('/v1/messages', { key, body: { ...body, provider: { only: ['anthropic'] } } })
    }
    const usage = { input_tokens: 400_000, output_tokens: 5, server_tool_use: { web_search_requests: 2 } }
    for (const stream of [false, true])
      for (const [usd, isPaid] of [
        ['10', true],
        ['0.5', false],
      ] as const) {
        const account = await world.gateway.account({ usd })
        world.anthropic.next(messageReply({ usage, content: [{ type: 'text', text: 'Found' }] }))
        const answer = await ask(account.live, stream)
        t.is(answer.status, 200, await answer.text())
        const charged = await chargedNano(world, account)
        const owed = expectedNano('claude-opus-4-6', usageOf(400_000, 5)) + 2 * 10_500_000
        t.is(charged === owed, isPaid)
        t.true(charged > 0 && charged <= owed)
        const { balanceNano } = await world.gateway.services.wallets.view(account.organisationId)
        t.true(balanceNano >= 0n)
        t.is(await excessNano(account), 0)
      }
  },
)

test.serial('200 for a small wallet: sound is reserved by its length', async t => {
  const account = await world.gateway.account({ usd: '0.05' })
  const data = (await sound('wav', 2)).toString('base64')
  const content = [{ type: 'input_audio', input_audio: { data, format: 'wav' } }]
  const answer = await world.gateway.fetch(chat, {
    key: account.live,
    body: saying('gpt-audio-mini', content, { max_tokens: 16 }),
  })
  t.is(answer.status, 200, await answer.clone().text())
})

test.serial('400 for a file that lies in the account at the provider', async t => {
  const account = await world.gateway.account()
  const content = [{ type: 'file', file: { file_id: 'file-abc' } }]
  const answer = await world.gateway.fetch(chat, { key: account.live, body: saying('gpt-5', content) })
  t.is(answer.status, 400)
  const { error } = await answerOf(answer)
  t.is(error.param, 'messages.0.content.0.file.file_id')
  t.is(world.openai.requests.length, 0)
})

test.serial('the balance stays above zero: thirty documents at once on a wallet for one', async t => {
  const account = await world.gateway.account({ usd: '0.05' })
  const content = [{ type: 'text', text: 'Read' }, document(`${filesUrl}/small.pdf`)]
  const body = saying('claude-opus-4-6', content, { max_tokens: 16, provider: { only: ['anthropic'] } })
  const usage = { input_tokens: 3 * 1_568, output_tokens: 5 }
  world.anthropic.next(...Array.from({ length: 30 }, () => messageReply({ usage })))
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => world.gateway.fetch(chat, { key: account.live, body })),
  )
  const statuses = new Set(answers.map(({ status }) => status))
  t.true(
    [...statuses].every(status => status === 200 || status === 402),
    [...statuses].join(),
  )
  await chargedNano(world, account)
  const { balanceNano } = await world.gateway.services.wallets.view(account.organisationId)
  t.true(balanceNano >= 0n, String(balanceNano))
  t.is(await excessNano(account), 0)
})

test.serial('what a provider bills far beyond every bound is booked apart, alerted, and blocks the key', async t => {
  const { services } = world.gateway
  const { db } = services
  const account = await world.gateway.account({ monthly_spend_cap_usd: 0.5 })
  const body = saying('gpt-4.1', 'Hi', { max_tokens: 16, provider: { only: ['openai'] } })
  // Far more than the 16 tokens that were allowed.
  const usage = usageOf(10, 200_000)
  world.openai.next(using(usage))
  t.is((await world.gateway.fetch(chat, { key: account.live, body })).status, 200)
  t.is(await chargedNano(world, account), expectedNano('gpt-4.1', usage), 'all of it is booked')
  const excess = await excessNano(account)
  t.true(excess > expectedNano('gpt-4.1', usageOf(0, 199_000)))
  await handleExcesses(services)
  const refused = await world.gateway.fetch(chat, { key: account.live, body })
  t.is(refused.status, 401)
  t.is((await answerOf(refused)).error.code, 'revoked_api_key')
  const alerts = await db.alert.findMany({ where: { organisationId: account.organisationId } })
  const [alert] = alerts.filter(({ type }) => type === 'key.blocked')
  t.like(alert!.data, { object: 'key.blocked', reason: 'hourly_limit', excess_usd: excess / 1e9 })
  const where = { organisationId: account.organisationId, action: 'key.updated' }
  t.is(await db.auditEvent.count({ where }), 1)
  t.is(await handleExcesses(services), 0, 'once')
  t.deepEqual(await world.gateway.settled(), [])
})

test.serial('200 at its real price where reasoning is not bounded by the limit, for a key with a cap', async t => {
  const account = await world.gateway.account({ monthly_spend_cap_usd: 1_000 })
  const usage = usageOf(20, 12_010, { completion_tokens_details: { reasoning_tokens: 12_000 } })
  xai.next(using({ ...usage, completion_tokens: 10 }))
  const body = saying('grok-4.3', 'Think', { max_tokens: 16, provider: { only: ['xai'] } })
  t.is((await world.gateway.fetch(chat, { key: account.live, body })).status, 200)
  t.is(await chargedNano(world, account), expectedNano('grok-4.3', usage, { provider: 'xai' }))
  t.is(await excessNano(account), 0)
})

test.serial('a document by URL in a delayed job is reserved by its size', async t => {
  const account = await world.gateway.account({ usd: '0.2' })
  const submit = (file: string) => {
    const content = [{ type: 'text', text: 'Read' }, document(`${filesUrl}/${file}`)]
    const body = saying('claude-opus-4-6', content, { max_tokens: 16, provider: { only: ['anthropic'] } })
    return world.gateway.fetch('/v1/jobs', { key: account.live, body: { body, completion_window: '6h' } })
  }
  t.is((await submit('small.pdf')).status, 202)
  t.is((await submit('unreadable.pdf')).status, 402)
})
