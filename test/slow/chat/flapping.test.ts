import { setTimeout as sleep } from 'node:timers/promises'
import { hang, type Reply, reset } from '../../emulators/emulator.ts'
import { failure, rateLimited, serverError } from '../../emulators/openai.ts'
import { hidesSecrets, isWhole, type Shape, spareOf } from '../../support/chat/fault-cases.ts'
import { bytes, costNano, type ProviderName } from '../../support/chat/fault-replies.ts'
import { type Answer, ask, type FaultModel, paidNano, startFaultWorld } from '../../support/chat/faults.ts'
import { type Account, eventually } from '../../support/gateway.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const flapsForMs = 30_000
const pauseMs = 100

/** What the provider does in turn while it is down, 2 to 3 s each. */
const downs: Reply[] = [
  serverError,
  reset,
  failure(503, 'Busy.', 'server_error', null),
  hang,
  bytes(200, 'text/html', '<html></html>'),
  rateLimited('1'),
]

/** A steady caller, one request after the other. */
type Lane = { id: string; shape: Shape; stream: boolean }
const lanes: Lane[] = (['two', 'one', 'auto'] as const).flatMap(shape =>
  [false, true].map(stream => ({ id: `${shape}-${stream}`, shape, stream })),
)
const models: FaultModel[] = lanes.flatMap(({ id, shape }) => [
  { id, providers: shape === 'two' ? ['p1', 'p2'] : ['p1'], quality: 95 },
  { id: spareOf(id), providers: ['p2'], quality: 40 },
])
const world = use(
  test,
  () =>
    startFaultWorld(models, {
      UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '4000',
      UPSTREAM_TOTAL_TIMEOUT_MS: '4000',
    }),
  (it, t) => it.close(t),
)

/** Counts the ups (even) and downs (odd) of the first provider. */
let phase = 0
const isUp = (one: number) => one % 2 === 0

async function flap(): Promise<void> {
  const endMs = Date.now() + flapsForMs
  while (Date.now() < endMs) {
    const down = downs[Math.floor(phase / 2) % downs.length]!
    phase++
    for (const { id } of lanes) world.p1.always(id, down)
    await sleep(2_000 + Math.random() * 1_000)
    phase++
    for (const { id } of lanes) world.p1.always(id, null)
    await sleep(2_000 + Math.random() * 1_000)
  }
}

type Tally = { requests: number; attempts: number; costNano: number; failed: number }

/** Asks until `over`, and checks every single outcome. */
async function drive(t: ExecutionContext, lane: Lane, account: Account, over: () => boolean): Promise<Tally> {
  const tally: Tally = { requests: 0, attempts: 0, costNano: 0, failed: 0 }
  let servedIn = -1
  while (!over()) {
    const began = phase
    const answer = await ask(world, account.live, lane.shape === 'auto' ? 'auto' : lane.id, { stream: lane.stream })
    const attempts = Number(answer.headers.get('x-gateway-attempts') ?? 0)
    t.true(attempts <= 5)
    tally.requests++
    tally.attempts += attempts
    hidesSecrets(t, answer)
    if (answer.status === 200) {
      const by = answer.headers.get('x-gateway-provider') as ProviderName
      isWhole(t, answer, lane.stream, served(by))
      tally.costNano += costNano(by)
      if (by === 'p1') servedIn = phase
    } else {
      isOwnFault(t, lane, answer)
      tally.failed++
      // Once the provider serves again, it fails no more until it is down again.
      t.false(isUp(began) && began === phase && servedIn === phase, answer.text)
    }
    await sleep(pauseMs)
  }
  return tally
}

const served = (by: ProviderName) => ({ by, finish: 'stop', estimated: false, costNano: costNano(by) })

/** Only a request without any other provider may fail, with one error. */
function isOwnFault(t: ExecutionContext, { id, shape }: Lane, { status, text }: Answer): void {
  t.is(shape, 'one', `${id}: ${text}`)
  t.true([502, 503, 504].includes(status), text)
  const { code } = JSON.parse(text).error
  t.regex(code, /^(upstream_error|upstream_invalid_response|upstream_timeout|no_provider_available)$/)
}

test('200 or one error for every request while a provider flaps for 30 s, then 200 from it again', async t => {
  const accounts = await Promise.all(
    lanes.map(({ id, shape }) =>
      world.gateway.account(shape === 'auto' ? { model_allowlist: [id, spareOf(id)], mode: 'quality' } : {}),
    ),
  )
  let over = false
  const flapping = flap().finally(() => {
    over = true
  })
  const tallies = await Promise.all(lanes.map((lane, i) => drive(t, lane, accounts[i]!, () => over)))
  await flapping
  t.deepEqual(await world.gateway.settled(), [])
  for (const [i, { id, shape }] of lanes.entries()) {
    const { requests, attempts, costNano: cost } = tallies[i]!
    t.log(id, tallies[i])
    const calls = world.p1.calls(id).length + world.p2.calls(shape === 'auto' ? spareOf(id) : id).length
    t.is(calls, attempts)
    t.is(await paidNano(world, accounts[i]!), cost)
    const { organisationId } = accounts[i]!
    const rows = await world.gateway.services.db.generation.count({ where: { organisationId } })
    t.true(rows <= requests && rows >= requests - tallies[i]!.failed, `${rows} of ${requests}`)
  }
  for (const [i, { id, shape, stream }] of lanes.entries()) {
    await eventually(async () => {
      const answer = await ask(world, accounts[i]!.live, shape === 'auto' ? 'auto' : id, { stream })
      return answer.headers.get('x-gateway-provider') === 'p1' && answer.headers.get('x-gateway-attempts') === '1'
    }, `p1 serves ${id} again`)
  }
})
