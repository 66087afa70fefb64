import http from 'node:http'
import { hang, type Reply } from '../../emulators/emulator.ts'
import { agentReply, startPerplexity } from '../../emulators/perplexity.ts'
import { chargedNano, dataOf } from '../../support/chat/gateway.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const perplexity = use(test, startPerplexity)
const gateway = useGateway(test, () => ({
  PERPLEXITY_API_KEY: 'pplx-secret',
  PERPLEXITY_BASE_URL: perplexity.url,
  UPSTREAM_READ_ON_MS: '300',
}))
test.beforeEach(() => perplexity.reset())

const model = 'sonar'
const messages = [{ role: 'user', content: 'What is new?' }]
const searchNano = 0.0025e9 * 1.05
/** What reading the results of so many searches usually costs: all results so far, after each. */
const readNano = (searches: number) => ((5_000 * searches * (searches + 1)) / 2) * 0.25e3 * 1.05

/** The same question in each format, streamed. */
const formats = {
  '/v1/chat/completions': { model, messages, stream: true },
  '/v1/responses': { model, input: 'What is new?', stream: true },
  '/v1/messages': { model, messages, max_tokens: 50, stream: true },
  [`/v1beta/models/${model}:streamGenerateContent?alt=sse`]: { contents: [{ parts: [{ text: 'What is new?' }] }] },
}

/** The only request of an organisation, once it is booked. */
async function bookedFor(organisationId: string) {
  const { db } = gateway.services
  await eventually(async () => (await db.generation.count({ where: { organisationId } })) === 1, 'it is booked')
  return db.generation.findFirstOrThrow({ where: { organisationId } })
}

/** Asks, leaves once the provider has the question and the answer has `awaited`, if any, and returns what is booked. */
async function leaving(reply: Reply, body: object, awaited?: string) {
  perplexity.reset()
  perplexity.next(reply)
  const account = await gateway.account()
  const headers = { authorization: `Bearer ${account.live}`, 'content-type': 'application/json' }
  const request = http.request(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, agent: false })
  request.on('error', () => {})
  const answered = new Promise<void>(resolve =>
    request.on('response', response => {
      let text = ''
      response.on('data', part => {
        text += part
        if (awaited !== undefined && text.includes(awaited)) resolve()
      })
      response.on('error', () => {})
    }),
  )
  request.end(JSON.stringify({ model, messages, ...body }))
  await eventually(() => perplexity.requests.length === 1, 'the request reaches the provider')
  if (awaited !== undefined) await answered
  request.destroy()
  return { ...(await bookedFor(account.organisationId)), charged: await chargedNano({ gateway }, account) }
}

test.serial(
  'a stream that breaks before its usage is charged the searches that were seen, in every format',
  async t => {
    for (const [path, body] of Object.entries(formats)) {
      const account = await gateway.account()
      // After the first piece of the text: two searches have three events each.
      perplexity.next(agentReply({ searches: 2, cutAfter: 10 }))
      const response = await gateway.fetch(path, { key: account.live, body })
      const text = await response.text()
      t.regex(text, /Echo/, path)
      const row = await bookedFor(account.organisationId)
      t.like(row, { webSearches: 2, estimated: true }, path)
      const charged = await chargedNano({ gateway }, account)
      t.true(charged > 2 * searchNano && charged < 2.1 * searchNano, `${path}: ${charged}`)
    }
  },
)

test.serial('a stream that breaks before any text is not charged', async t => {
  const account = await gateway.account()
  perplexity.next(...Array.from({ length: 6 }, () => agentReply({ searches: 2, cutAfter: 8 })))
  const response = await gateway.fetch('/v1/chat/completions', {
    key: account.live,
    body: { model, messages, stream: true },
  })
  const text = await response.text()
  t.true(response.status >= 500 || dataOf(text).some(event => event.error))
  t.is(await chargedNano({ gateway }, account), 0)
})

test.serial('whoever leaves pays the searches: as stated, else as seen, else as reserved', async t => {
  const asksForUsage = { stream: true, stream_options: { include_usage: true } }
  const whole = await leaving(agentReply({ searches: 3 }), asksForUsage, '"usage":{')
  t.like(whole, { webSearches: 3, estimated: false })
  const seen = await leaving(agentReply({ searches: 2, hangAfter: 10 }), { stream: true }, 'data: ')
  t.like(seen, { status: 499, webSearches: 2, estimated: true })
  const isFor = (charged: number, searches: number) => {
    const nano = searches * searchNano + readNano(searches)
    return charged > nano && charged < nano * 1.1
  }
  t.true(isFor(seen.charged, 2), String(seen.charged))
  for (const stream of [true, false]) {
    const unseen = await leaving(hang, { stream })
    t.like(unseen, { status: 499, webSearches: 5, estimated: true })
    t.true(isFor(unseen.charged, 5), String(unseen.charged))
  }
  const without = await leaving(hang, { stream: true, disable_search: true })
  t.true(without.webSearches === null || without.webSearches === 0)
  t.true(without.charged > 0 && without.charged < searchNano)
})

test.serial('without a search, none is reserved', async t => {
  const account = await gateway.account({ usd: '0.005' })
  const body = { model, messages, max_tokens: 100, disable_search: true }
  t.is((await gateway.fetch('/v1/chat/completions', { key: account.live, body })).status, 200)
  t.is(
    (await gateway.fetch('/v1/chat/completions', { key: account.live, body: { ...body, disable_search: false } }))
      .status,
    402,
  )
})
