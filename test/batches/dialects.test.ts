import { startAnthropicBatches } from '../emulators/anthropic-batches.ts'
import type { BatchEmulator } from '../emulators/batches.ts'
import { json, text } from '../emulators/emulator.ts'
import { startOpenAiBatches } from '../emulators/openai-batches.ts'
import {
  createBatch,
  type Door,
  ended,
  jsonLines,
  lineFaults,
  resultsOf,
  uploadInput,
} from '../support/batches/gateway.ts'
import { asking, type Dialect, dialects, foreignModel, nativeModel, readAnswer } from '../support/chat/dialects.ts'
import { chargedNano, expectedNano, startWorld } from '../support/chat/gateway.ts'
import type { Account } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers } from '../support/workers.ts'

const openai = use(test, () => startOpenAiBatches({ polls: 1 }))
const anthropic = use(test, () => startAnthropicBatches({ polls: 1 }))
const world = use(test, () =>
  startWorld({
    OPENAI_BASE_URL: `${openai.url}/v1`,
    ANTHROPIC_BASE_URL: anthropic.url,
    OPENROUTER_API_KEY: '',
  }),
)
use(test, () => startWorkers(world.gateway.services))
test.beforeEach(() => {
  for (const { script, emulator } of [openai, anthropic]) {
    Object.assign(script, { polls: 1, answers: Number.POSITIVE_INFINITY, instead: () => null, refusals: [], lost: 0 })
    emulator.reset()
  }
})

/** 5 % margin, less half. */
const percent = -47.5
const providerOf = (dialect: Dialect) => (dialect === '/v1/responses' ? openai : anthropic)
const doorOf = ({ live }: Pick<Account, 'live'>): Door => ({ url: world.gateway.url, key: live })
const direct = ({ emulator }: BatchEmulator) =>
  emulator.requests.filter(({ path }) => /^\/v1\/(responses|messages|chat\/completions)$/.test(path))

const linesOf = (dialect: Dialect, model: string, count: number, more: object = {}) =>
  Array.from({ length: count }, (_, i) => ({
    custom_id: `line-${i}`,
    method: 'POST',
    url: dialect,
    body: asking(dialect, model, `Hello number ${i}`, more),
  }))

/** Runs a batch to its end, with its next look brought forward whenever it waits for one. */
async function run(account: Pick<Account, 'live'>, endpoint: Dialect, lines: object[], routing: string) {
  const door = doorOf(account)
  const { id } = await createBatch(door, await uploadInput(door, jsonLines(lines)), {
    endpoint,
    batch_routing: routing,
  })
  const hurrying = setInterval(() => void world.gateway.services.batchWakes.promote(id).catch(() => {}), 100)
  const batch = await ended(door, id).finally(() => clearInterval(hurrying))
  return { batch: batch as typeof batch & { provider: string | null }, results: await resultsOf(door, batch) }
}

const idsOf = (lines: { custom_id: string }[]) => lines.map(({ custom_id }) => custom_id)
const totalNano = (model: string, bodies: object[]) =>
  bodies.reduce((sum: number, body) => sum + expectedNano(model, readAnswer(body).usage, { percent }), 0)

for (const dialect of dialects) {
  for (const [how, model, routing, provider] of [
    ['run by the gateway, as the provider gave them', nativeModel[dialect], 'gateway', null],
    ['translated', foreignModel[dialect], 'auto', null],
    [
      'by the provider’s own batch',
      nativeModel[dialect],
      'provider',
      dialect === '/v1/responses' ? 'openai' : 'anthropic',
    ],
  ] as const)
    test.serial(`${dialect}: answers in its format, ${how}, at the batch price`, async t => {
      const account = await world.gateway.account()
      const lines = linesOf(dialect, model, 5)
      const { batch, results } = await run(account, dialect, lines, routing)
      t.like(batch, { status: 'completed', provider, endpoint: dialect, model }, JSON.stringify(batch))
      t.deepEqual(batch.request_counts, { total: 5, completed: 5, failed: 0 })
      t.deepEqual(lineFaults(idsOf(lines), results), [])
      for (const { custom_id, response } of results.output)
        t.is(readAnswer(response!.body).text, `Echo: Hello number ${custom_id.slice('line-'.length)}`)
      const charged = await chargedNano(world, account)
      t.is(
        charged,
        totalNano(
          model,
          results.output.map(({ response }) => response!.body),
        ),
      )
      t.is(Math.round(batch.cost_usd! * 1e9), charged)
      t.is(direct(providerOf(dialect)).length > 0, provider === null && how !== 'translated')
      const { organisationId } = account
      const where = { organisationId, kind: dialect.slice('/v1/'.length), status: 200 }
      t.is(await world.gateway.services.db.generation.count({ where }), 5)
    })

  test.serial(`${dialect}: a line's own fault is in the error file, in the words of the provider`, async t => {
    for (const routing of ['gateway', 'provider']) {
      const account = await world.gateway.account()
      const error = { type: 'invalid_request_error', message: 'this is not a request' }
      const refusal = json(400, dialect === '/v1/messages' ? { type: 'error', error } : { error })
      providerOf(dialect).script.instead = ({ body }) => (JSON.stringify(body).includes('number 1') ? refusal : null)
      if (routing === 'gateway') providerOf(dialect).emulator.next(refusal)
      const { batch, results } = await run(account, dialect, linesOf(dialect, nativeModel[dialect], 2), routing)
      t.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 }, routing)
      const { status_code, body } = results.errors[0]!.response!
      t.is(status_code, 400)
      t.is(body.error.message, error.message)
      // Messages have the body of their own format, Responses that of OpenAI with our code.
      if (dialect === '/v1/messages') t.is(body.type, 'error')
      else t.is(body.error.code, 'invalid_request')
    }
  })

  test.serial(`${dialect}: unsuitable lines fail the batch before any is run, naming the field`, async t => {
    const faults: [more: object, param: string, code: string][] = [
      [{ stream: true }, 'body.stream', 'invalid_request'],
      [{ temperature: 'hot' }, 'body.temperature', 'invalid_request'],
      [{ model: 'no-such-model' }, 'body.model', 'model_not_found'],
    ]
    if (dialect === '/v1/messages') faults.push([{ max_tokens: undefined }, 'body.max_tokens', 'missing_field'])
    else
      for (const [name, value] of Object.entries({
        store: true,
        background: true,
        previous_response_id: 'resp_1',
        conversation: 'conv_1',
      }))
        faults.push([{ [name]: value }, `body.${name}`, 'unsupported_capability'])
    const account = await world.gateway.account()
    const lines = faults.flatMap(([more], i) =>
      linesOf(dialect, nativeModel[dialect], 1, more).map(line => ({ ...line, custom_id: `line-${i}` })),
    )
    const { batch } = await run(account, dialect, lines, 'auto')
    t.is(batch.status, 'failed')
    t.deepEqual(
      batch.errors!.data.map(({ line, param, code }) => ({ line, param, code })),
      faults.map(([, param, code], i) => ({ line: i + 1, param, code })),
    )
    t.is(openai.emulator.requests.length + anthropic.emulator.requests.length, 0)
    t.is(await chargedNano(world, account), 0)
  })
}

test.serial('an answer that its provider wrote on many lines is one line of the file, digit for digit', async t => {
  const account = await world.gateway.account()
  const answer = {
    id: 'resp_1',
    object: 'response',
    model: 'm',
    status: 'completed',
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'a\nb' }], precise: 'P' }],
    usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
  }
  const written = JSON.stringify(answer, null, 2).replace('"P"', '0.10000000000000000001').replaceAll('\n', '\r\n')
  openai.emulator.next(text(200, written, { 'content-type': 'application/json' }))
  const { results } = await run(account, '/v1/responses', linesOf('/v1/responses', 'gpt-4o-mini', 1), 'gateway')
  t.is(results.output.length, 1)
  t.is(results.output[0]!.response!.body.output[0].content[0].text, 'a\nb')
  const key = account.live
  const list = await world.gateway.fetch('/v1/files?purpose=batch_output', { key })
  const { data } = (await list.json()) as { data: { id: string }[] }
  const file = await (await world.gateway.fetch(`/v1/files/${data[0]!.id}/content`, { key })).text()
  t.true(file.includes('0.10000000000000000001'))
})

test.serial('Messages whose prompt may grow, or with a document by URL, are run by the gateway', async t => {
  const documents = [{ type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' } }]
  for (const more of [
    { tools: [{ type: 'web_search_20260318', name: 'web_search', max_uses: 1 }] },
    { tools: [{ type: 'web_fetch_20250910', name: 'web_fetch', max_uses: 1 }] },
    { messages: [{ role: 'user', content: documents }] },
  ]) {
    const account = await world.gateway.account()
    const { batch } = await run(
      account,
      '/v1/messages',
      linesOf('/v1/messages', 'claude-sonnet-4-5', 1, more),
      'provider',
    )
    t.is(batch.status, 'failed')
    t.like(batch.errors!.data[0], { param: 'batch_routing', code: 'invalid_request' })
  }
})
