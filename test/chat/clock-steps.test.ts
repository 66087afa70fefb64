import http from 'node:http'
import { hang, type Reply } from '../emulators/emulator.ts'
import { reply, serverError } from '../emulators/openai.ts'
import { startXaiRealtime } from '../emulators/xai-realtime.ts'
import { chargedNano, expectedNano, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { MachineClocks } from '../support/clocks/monotonic.ts'
import { type Account, eventually } from '../support/gateway.ts'
import { growth, measured } from '../support/metrics/samples.ts'
import { byMinute, dial, type Listener, spentNano } from '../support/realtime/sessions.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const clocks = new MachineClocks('2027-03-10T12:00:15Z')
const hourMs = 3_600_000
let account: Account

const xai = use(test, startXaiRealtime)
const world = use(test, () => {
  const env = {
    ...measured,
    XAI_API_KEY: 'xai-provider',
    XAI_BASE_URL: `${xai.url}/v1`,
    REALTIME_MAX_MINUTES: '5',
    UPSTREAM_READ_ON_MS: '0',
    OPENROUTER_API_KEY: '',
    UPSTREAM_MAX_PAUSE_MS: '600000',
  }
  return startWorld(env, clocks.wall, clocks.monotonic)
})
test.beforeEach(async () => {
  world.openai.reset()
  account = await world.gateway.account()
})

/** Takes three seconds, in the middle of which the wall clock steps. */
const during =
  (stepMs: number, answer: Reply): Reply =>
  (request, response) => {
    clocks.pass(1_000)
    clocks.step(stepMs)
    clocks.pass(2_000)
    return answer(request, response)
  }

/** A session of xAI's that is paid by its minutes. */
async function open(): Promise<{ client: Listener; id: string }> {
  const client = dial(world.gateway, account.live, byMinute)
  let id = ''
  client.socket.on('upgrade', ({ headers }) => {
    id = String(headers['x-generation-id'])
  })
  client.socket.removeAllListeners('message')
  client.socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) client.events.push(JSON.parse(data.toString()))
  })
  await eventually(() => client.events.length > 0, 'the session is there')
  return { client, id }
}

const spent = () => spentNano({ gateway: world.gateway, services: world.gateway.services }, account)
const stepped = [600_000, -90_000, 24 * hourMs]
for (const stepMs of stepped) {
  const step = `${stepMs / 1_000} s`

  test.serial(`101: a session costs its minutes while the wall clock steps by ${step} and back`, async t => {
    const { client, id } = await open()
    clocks.pass(10_000)
    clocks.step(stepMs)
    clocks.pass(20_000)
    // The tick of every second sees it.
    await eventually(
      async () => (await world.gateway.services.db.ledgerEntry.count({ where: { cause: { contains: id } } })) > 0,
      'a part is charged',
    )
    clocks.step(-stepMs)
    clocks.pass(12_000)
    client.socket.close(1000)
    // $0.08 a minute, with the margin of 5 %.
    t.is(await spent(), (42_000 * 80_000_000 * 1.05) / 60_000)
    t.like(await generationOf(world, id), { status: 101, durationMs: 42_000, firstByteMs: 0 })
  })

  test.serial(`499: a call that its client leaves costs its seconds while the wall clock steps by ${step}`, async t => {
    world.openai.next(hang)
    const headers = { authorization: `Bearer ${account.live}`, 'content-type': 'application/json' }
    const request = http.request(`${world.gateway.url}/v1/chat/completions`, { method: 'POST', headers, agent: false })
    request.on('error', () => {})
    request.end(JSON.stringify(saying('gpt-5.6-luna', 'Tell me', { stream: true, max_tokens: 30_000 })))
    await eventually(() => world.openai.requests.length === 1, 'the request reaches the provider')
    clocks.pass(1_000)
    clocks.step(stepMs)
    clocks.pass(2_000)
    request.destroy()
    await world.openai.requests[0]!.aborted
    const { db } = world.gateway.services
    const where = { organisationId: account.organisationId }
    await eventually(async () => (await db.generation.count({ where })) === 1, 'it is booked')
    const row = await db.generation.findFirstOrThrow({ where })
    // 100 tokens a second.
    t.like(row, { status: 499, completionTokens: 300, durationMs: 3_000 })
    const usage = { prompt_tokens: row.promptTokens, completion_tokens: 300, total_tokens: 0 }
    t.is(await chargedNano(world, account), expectedNano('gpt-5.6-luna', usage))
    clocks.step(-stepMs)
  })

  test.serial(`200: durations in the log and the histograms while the wall clock steps by ${step}`, async t => {
    const by = await growth(world.gateway)
    world.openai.next(during(stepMs, reply))
    const response = await world.gateway.fetch('/v1/chat/completions', {
      key: account.live,
      body: saying('gpt-4o-mini'),
    })
    t.is(response.status, 200)
    await response.text()
    const row = await generationOf(world, response.headers.get('x-generation-id')!)
    t.like(row, { durationMs: 3_000, firstByteMs: 3_000 })
    t.is(await by('headgate_request_duration_seconds_sum', { endpoint: 'POST /v1/chat/completions' }), 3)
    t.is(await by('gen_ai_client_inference_duration_seconds_sum'), 3)
    clocks.step(-stepMs)
  })

  test.serial(`200: a failed call is retried while the wall clock steps by ${step}`, async t => {
    world.openai.next(during(stepMs, serverError), reply)
    const response = await world.gateway.fetch('/v1/chat/completions', {
      key: account.live,
      body: saying('gpt-4o-mini'),
    })
    t.is(response.status, 200)
    await response.text()
    const { attempts, durationMs } = await generationOf(world, response.headers.get('x-generation-id')!)
    t.deepEqual({ attempts, durationMs }, { attempts: 2, durationMs: 3_000 })
    clocks.step(-stepMs)
  })
}

test.serial('session_expired: a session ends after its longest duration, not by a step of the wall clock', async t => {
  const { client } = await open()
  clocks.step(hourMs)
  clocks.pass(299_000)
  // Ticks of every second have seen it.
  await eventually(async () => Number(await spentSoFar()) > 0, 'a part is charged')
  t.is(client.closed, null)
  clocks.step(-hourMs)
  clocks.pass(1_000)
  t.is((await client.end()).error, 'session_expired')
})

async function spentSoFar(): Promise<bigint> {
  const { _sum } = await world.gateway.services.db.ledgerEntry.aggregate({
    where: { organisationId: account.organisationId, kind: 'charge' },
    _sum: { amountNano: true },
  })
  return -(_sum.amountNano ?? 0n)
}
