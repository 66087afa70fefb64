import { Emulator, type Recorded, type Reply } from '../emulators/emulator.ts'
import {
  chatReply,
  failure,
  insufficientQuota,
  rateLimited,
  serverError,
  startOpenAiEmulator,
} from '../emulators/openai.ts'
import { saying } from '../support/chat/gateway.ts'
import {
  type Account,
  call,
  eventually,
  freshStores,
  type Gateway,
  type Process,
  type Stores,
  startGateway,
  startProcess,
} from '../support/gateway.ts'
import { dumpRedis } from '../support/io/leaks.ts'
import { test } from '../support/test.ts'

const secrets = ['upstream-first-7f3a', 'upstream-second-9c1b', 'upstream-third-2e8d']

let stores: Stores
let openai: Emulator
let openrouter: Emulator
/** Two gateways on the same stores: one in this process, one whose log is seen. */
let gateway: Gateway
let web: Process
let account: Account
/** What the provider says to one of its keys, for one model or, with `*`, for all. */
const answers = new Map<string, Reply>()
const seen: string[] = []

test.before(async () => {
  stores = await freshStores()
  openai = await Emulator.start((request, response) => {
    const { model } = request.body
    const reply = answers.get(`${keyOf(request)} ${model}`) ?? answers.get(`${keyOf(request)} *`) ?? chatReply()
    return reply(request, response)
  })
  openrouter = await startOpenAiEmulator()
  const env = {
    OPENAI_API_KEY: secrets.join(', '),
    OPENAI_BASE_URL: `${openai.url}/v1`,
    OPENROUTER_API_KEY: 'upstream-other-55aa',
    OPENROUTER_BASE_URL: `${openrouter.url}/v1`,
  }
  gateway = await startGateway(stores, env)
  web = await startProcess('web', stores, { ...env, LOG_LEVEL: 'trace' })
  account = await gateway.account({ usd: '100' })
})
test.after.always(async () => {
  await gateway?.close()
  await Promise.all([web?.kill(), openai?.close(), openrouter?.close()])
  await stores?.drop()
})
test.beforeEach(async () => {
  // Every test has models of its own, and finds every key rested.
  answers.clear()
  openai.reset()
})

/** Which of the three keys a request came with: 0, 1 or 2. */
function keyOf({ headers }: Recorded): number {
  return secrets.indexOf(String(headers.authorization).slice('Bearer '.length))
}

async function ask(base: string, model: string, more: object = {}) {
  const response = await call(base, '/v1/chat/completions', { key: account.live, body: saying(model, 'Hello', more) })
  const text = await response.text()
  const headers = Object.fromEntries(response.headers)
  seen.push(text, JSON.stringify(headers))
  return { status: response.status, attempts: headers['x-gateway-attempts'], headers, text }
}

/** Waits until both gateways leave a key alone for a model: in three requests each its turn would come. */
function known(model: string, key: number): Promise<void> {
  return eventually(async () => !(await keysUsed(model, 3)).includes(key), 'both gateways know')
}

/** The keys that so many requests to each gateway use. */
async function keysUsed(model: string, count = 6): Promise<number[]> {
  openai.reset()
  for (let i = 0; i < count; i++) for (const base of [gateway.url, web.url]) await ask(base, model)
  return openai.requests.map(keyOf).toSorted()
}

test.serial('200 with each API key in turn', async t => {
  t.deepEqual(await keysUsed('gpt-4o'), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
})

test.serial('200 at once with another key after 429; both gateways leave the first alone for that model', async t => {
  answers.set('0 gpt-4.1', rateLimited('30'))
  let limited = await ask(gateway.url, 'gpt-4.1')
  while (openai.requests.every(request => keyOf(request) !== 0)) limited = await ask(gateway.url, 'gpt-4.1')
  t.is(limited.status, 200)
  t.is(limited.attempts, '2')
  t.is(limited.headers['x-gateway-provider'], 'openai')
  const [first, second] = openai.requests.slice(-2)
  t.is(keyOf(first!), 0)
  t.not(keyOf(second!), 0)
  await known('gpt-4.1', 0)
  t.false((await keysUsed('gpt-4.1')).includes(0))
  t.true((await keysUsed('gpt-4.1-mini')).includes(0), 'another model')
})

test.serial(
  '200 for all of many requests at once while one key is limited, without asking it again and again',
  async t => {
    answers.set('1 gpt-4o-mini', rateLimited('30'))
    const many = Array.from({ length: 40 }, (_, i) => ask(gateway.url, 'gpt-4o-mini', { stream: i % 2 === 0 }))
    for (const { status, attempts } of await Promise.all(many)) {
      t.is(status, 200)
      t.true(Number(attempts) <= 2)
    }
    await known('gpt-4o-mini', 1)
    t.false((await keysUsed('gpt-4o-mini')).includes(1))
  },
)

test.serial('200 at once with another key after a 429 without Retry-After, too', async t => {
  answers.set('2 o3', failure(429, 'Slow down.', 'requests', 'rate_limit_exceeded'))
  let limited = await ask(gateway.url, 'o3')
  while (openai.requests.every(request => keyOf(request) !== 2)) limited = await ask(gateway.url, 'o3')
  t.is(limited.status, 200)
  t.is(limited.attempts, '2')
  t.not(keyOf(openai.requests.at(-1)!), 2)
})

for (const [title, model, other, reply] of [
  ['401', 'gpt-5.4', 'gpt-5.4-mini', failure(401, `Incorrect API key: ${secrets[2]}`, 'auth', 'invalid_api_key')],
  ['no credit left', 'gpt-5.5', 'gpt-5.4-nano', insufficientQuota],
] as const) {
  test.serial(
    `200 with another key after ${title}; the key is left alone for every model, and the log says so`,
    async t => {
      const key = title === '401' ? 2 : 1
      answers.set(`${key} *`, reply)
      const before = web.output().length
      await eventually(async () => {
        const { status } = await ask(web.url, model)
        return status === 200 && openai.requests.some(request => keyOf(request) === key)
      }, 'the key was tried')
      t.is(openai.requests.filter(request => keyOf(request) === key).length, 1)
      await known(other, key)
      t.false((await keysUsed(model)).includes(key))
      await eventually(() => web.output().slice(before).includes('the provider refuses our API key'), 'it is logged')
    },
  )
}

test.serial(
  '502 once, then 503 without a call, when all keys are in cooldown; a second provider takes over',
  async t => {
    // Of the three keys, two rest already for every model.
    answers.set('0 gpt-5.1', rateLimited('40'))
    const failed = await ask(gateway.url, 'gpt-5.1')
    t.is(failed.status, 502)
    t.is(failed.headers['retry-after'], '40')
    openai.reset()
    const refused = await ask(gateway.url, 'gpt-5.1')
    t.is(refused.status, 503)
    t.is(JSON.parse(refused.text).error.code, 'no_provider_available')
    t.true(Number(refused.headers['retry-after']) <= 60 && Number(refused.headers['retry-after']) >= 1)
    t.is(openai.requests.length, 0)
    answers.set('0 gpt-5', rateLimited('40'))
    const first = await ask(gateway.url, 'gpt-5')
    t.is(first.status, 200)
    t.is(first.attempts, '2')
    const second = await ask(gateway.url, 'gpt-5')
    t.is(second.attempts, '1')
    t.is(second.headers['x-gateway-provider'], 'openrouter')
  },
)

test.serial('no API key is in Redis, in an answer or in the log', async t => {
  answers.set('0 gpt-5-mini', serverError)
  answers.set('0 gpt-5.6-luna', failure(400, 'Bad request.', 'invalid_request_error', null))
  for (const base of [gateway.url, web.url]) for (const model of ['gpt-5-mini', 'gpt-5.6-luna']) await ask(base, model)
  await gateway.services.health.sync()
  const dump = await dumpRedis(gateway.services.redis)
  t.true(dump.includes('openai|gpt-5.1|'), 'the keys are there by their ids')
  await eventually(() => web.output().includes('attempt failed'), 'failures are in the log')
  const log = web.output()
  for (const secret of [...secrets, 'upstream-other-55aa']) {
    t.false(dump.includes(secret), 'Redis')
    t.false(log.includes(secret), 'log')
    t.false(seen.join('\n').includes(secret), 'answers')
  }
})
