import { events } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { provisioningKey, rawCall } from '../../support/api/edge.ts'
import { observe } from '../../support/chaos.ts'
import { createAccount, type Gateway } from '../../support/gateway.ts'
import { excessOf, type Measured, startMeasured } from '../../support/io/measured.ts'
import { connectTo, readAll } from '../../support/io/raw-requests.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'

/**
 * Texts that a regular expression could go over again and again: each of them kept the process busy for seconds or for ever,
 * where an expression had two repetitions beside each other that match the same characters.
 */

const stores = useStores(test)
const upstream = use(test, startOpenAiEmulator)
const web = use(test, () =>
  startMeasured(stores, {
    OPENAI_API_KEY: 'sk-upstream',
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    ANTHROPIC_API_KEY: 'sk-upstream',
    ANTHROPIC_BASE_URL: upstream.url,
    GEMINI_API_KEY: 'sk-upstream',
    GEMINI_BASE_URL: upstream.url,
    MISTRAL_API_KEY: 'sk-upstream',
    MISTRAL_BASE_URL: `${upstream.url}/v1`,
    LOG_LEVEL: 'warn',
  }),
)
const services = use(test, () => observe(stores))
let key: string
let live: string
let provisioning: string
test.before(async () => {
  const account = await createAccount(services)
  const { test: testKey, organisationId } = account
  key = testKey
  live = account.live
  provisioning = await provisioningKey({ url: web.url, services } as Gateway, organisationId)
  for (const shot of Object.values(shots('', 1))) await send(shot())
})

type Shot = { path: string; body: object; bearer?: string }

const kib = 1024
const user = (content: unknown) => ({ model: 'gpt-4o-mini', messages: [{ role: 'user', content }] })
const many = <T>(count: number, one: T) => Array.from({ length: count }, () => one)

/** Requests with a text of some length at a place where its form is looked at, alone or in as many parts as fit a body. */
function shots(text: string, count: number): Record<string, () => Shot> {
  const picture = { type: 'image_url', image_url: { url: text } }
  const chat = '/v1/chat/completions'
  return {
    'the folder of a log export': () => ({
      path: '/api/v1/log-exports',
      bearer: provisioning,
      body: {
        name: 'a',
        kind: 's3',
        bucket: 'logs',
        access_key_id: 'a',
        secret_access_key: 'b',
        streams: ['audit'],
        prefix: text,
      },
    }),
    'an unknown member of a part': () => ({ path: chat, body: user([{ type: 'text', text: 'Hi', note: text }]) }),
    'an unknown member of a block': () => ({
      path: '/v1/messages',
      body: { ...user([{ type: 'text', text: 'Hi', note: text }]), model: 'claude-sonnet-4-5', max_tokens: 9 },
    }),
    'an unknown member of an item': () => ({
      path: '/v1/responses',
      body: {
        model: 'gpt-4o-mini',
        input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hi', note: text }] }],
      },
    }),
    'an unknown member of Google’s parts': () => ({
      path: '/v1beta/models/gemini-2.5-flash:generateContent',
      body: { contents: [{ role: 'user', parts: [{ text: 'Hi', note: text }] }] },
    }),
    'pictures of a chat': () => ({ path: chat, body: user(many(count, picture)) }),
    'pictures for Claude': () => ({ path: chat, body: { ...user(many(count, picture)), model: 'claude-sonnet-4-5' } }),
    'pictures for Gemini': () => ({ path: chat, body: { ...user(many(count, picture)), model: 'gemini-2.5-flash' } }),
    'pictures of Responses': () => ({
      path: '/v1/responses',
      body: {
        model: 'claude-sonnet-4-5',
        input: [{ role: 'user', content: many(count, { type: 'input_image', image_url: text }) }],
      },
    }),
    'files of a chat': () => ({
      path: chat,
      bearer: live,
      body: user(many(count, { type: 'file', file: { filename: 'a.pdf', file_data: text } })),
    }),
    'pages of a document': () => ({
      path: '/v1/ocr',
      body: {
        model: 'mistral-ocr-latest',
        document: { type: 'document_url', document_url: 'https://example.com/a.pdf' },
        pages: text,
      },
    }),
    'the user of Claude Code': () => ({
      path: '/v1/messages',
      body: { ...user('Hi'), model: 'claude-sonnet-4-5', max_tokens: 9, metadata: { user_id: text } },
    }),
    'a signed request for the reasons of a model': () => ({
      path: chat,
      body: { ...user('Hi'), metadata: { user_id: text }, user: text, prompt_cache_key: text },
    }),
  }
}

async function send({ path, body, bearer = key }: Shot): Promise<number> {
  const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' }
  const { status } = await rawCall(web.url, { method: 'POST', path, headers, body: Buffer.from(JSON.stringify(body)) })
  return status
}

/** What work does too much of, by the best of three. */
async function excessBy(work: () => Promise<unknown>): Promise<string | null> {
  const measured: Measured[] = []
  for (let round = 0; round < 3; round++) {
    measured.push(await web.measure(work))
    const best = (name: keyof Measured) => Math.min(...measured.map(one => one[name]))
    const excess = excessOf({ blockMs: best('blockMs'), grownMb: best('grownMb') })
    if (!excess || round === 2) return excess
  }
  return null
}

const end = '!'
const texts: Record<string, { text: string; count: number }> = {
  'letters without an end': { text: 'a'.repeat(27) + end, count: 1 },
  'line breaks': { text: '\n'.repeat(64 * kib) + end, count: 1 },
  spaces: { text: ' '.repeat(64 * kib) + end, count: 1 },
  'line breaks after base64': { text: 'A'.repeat(2 * kib) + '\n'.repeat(64 * kib) + end, count: 1 },
  'many starts of spaces': { text: ' '.repeat(290) + end, count: 12_000 },
  'many URIs of tabs': { text: `data:${'\t'.repeat(480)};base64${'\t'.repeat(480)}`, count: 5_000 },
  'many URIs of parameters': { text: `data:${';="'.repeat(320)}`, count: 5_000 },
  'sessions in a name': { text: `user_${'_session_s'.repeat(100)}${end}`, count: 1 },
  'pages of spaces': { text: `1${' '.repeat(64 * kib)}-${end}`, count: 1 },
}

for (const [what, { text, count }] of Object.entries(texts))
  test.serial(`served within bounds: ${what}, wherever texts have a form`, async t => {
    for (const [where, shot] of Object.entries(shots(text, count)))
      t.is(await excessBy(() => send(shot())), null, where)
  })

test.serial('400 within bounds: subprotocols of many tabs, of a caller without a key', async t => {
  const head = ['GET /v1/realtime HTTP/1.1', 'host: gateway', 'connection: upgrade', 'upgrade: websocket']
  const request = [...head, `sec-websocket-protocol: a${'\t'.repeat(15_000)}b`, '', ''].join('\r\n')
  const blocksMs: number[] = []
  for (let round = 0; round < 3; round++) {
    const { blockMs } = await web.measure(async () => {
      const socket = await connectTo(web.url)
      socket.write(request)
      t.regex((await readAll(socket)).toString(), /^HTTP\/1.1 400 /)
    })
    blocksMs.push(blockMs)
  }
  // It took 60 to 90 ms, and many of them may come at once.
  t.true(Math.min(...blocksMs) < 50, `${blocksMs}`)
})

test.serial('502 within bounds: an error of megabytes in a stream of Claude', async t => {
  const message = 'a-'.repeat(4 * kib * kib)
  const error = { type: 'error', error: { type: 'invalid_request_error', message } }
  const shot = (stream: boolean) => ({
    path: '/v1/messages',
    bearer: live,
    body: { ...user('Hi'), model: 'claude-sonnet-4-5', max_tokens: 9, stream, provider: { only: ['anthropic'] } },
  })
  await send(shot(false))
  const excess = await excessBy(async () => {
    upstream.next(events([`event: error\ndata: ${JSON.stringify(error)}\n\n`]))
    await send(shot(true))
  })
  // It blocked for most of a second.
  t.is(excess, null)
})
