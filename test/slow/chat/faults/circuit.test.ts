import { hang, type Reply, reset } from '../../../emulators/emulator.ts'
import { failure, serverError } from '../../../emulators/openai.ts'
import { hidesSecrets, isWhole, spareOf } from '../../../support/chat/fault-cases.ts'
import { bytes, costNano } from '../../../support/chat/fault-replies.ts'
import {
  type Answer,
  ask,
  askWhileResting,
  bookedOf,
  type FaultModel,
  type FaultWorld,
  figuresOf,
  paidNano,
  startFaultWorld,
} from '../../../support/chat/faults.ts'
import { call, eventually } from '../../../support/gateway.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'

const faults: [title: string, reply: Reply][] = [
  ['500', serverError],
  ['429 without Retry-After', failure(429, 'Slow down.', 'requests', 'rate_limit_exceeded')],
  ['reset connections', reset],
  ['nonsense', bytes(200, 'text/html', '<html></html>')],
  ['401', failure(401, 'Wrong key.', 'invalid_request_error', 'invalid_api_key')],
]
const streams = [false, true]
const idOf = (shape: string, fault: number, stream: boolean) => `${shape}-${fault}-${stream}`
const models: FaultModel[] = faults.flatMap((_, fault) =>
  streams.flatMap(stream => [
    { id: idOf('two', fault, stream), providers: ['p1', 'p2'] },
    { id: idOf('one', fault, stream), providers: ['p1'] },
    { id: idOf('auto', fault, stream), providers: ['p1'], quality: 95 },
    { id: spareOf(idOf('auto', fault, stream)), providers: ['p2'], quality: 40 },
  ]),
)
const chain = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(letter => `chain-${letter}`)
models.push(...chain.map(id => ({ id, providers: ['p1'] })))
for (const id of ['both-false', 'both-true', 'trial-false', 'trial-true']) models.push({ id, providers: ['p1', 'p2'] })
models.push({ id: 'back', providers: ['p1'] }, { id: 'crowd', providers: ['p1', 'p2'] })
models.push({ id: 'stumble', providers: ['p1', 'p2'] }, { id: 'left', providers: ['p1', 'p2'] })
const world = use(
  test,
  () => startFaultWorld(models),
  (it, t) => it.close(t),
)
/** One without a wait. */
const hasty = use(
  test,
  () => startFaultWorld(models, { UPSTREAM_MAX_PAUSE_MS: '1' }),
  (it, t) => it.close(t),
)

const served = (by: 'p1' | 'p2') => ({ by, finish: 'stop', estimated: false, costNano: costNano(by) })

function isFrom(t: ExecutionContext, answer: Answer, by: 'p1' | 'p2', stream: boolean, attempts: number): void {
  isWhole(t, answer, stream, served(by))
  t.is(answer.headers.get('x-gateway-attempts'), String(attempts))
}

/** Asks until the first provider is back in service. */
async function untilServedBy1(of: FaultWorld, key: string, model: string, more: object): Promise<Answer> {
  let answer: Answer | null = null
  await eventually(async () => {
    answer = await ask(of, key, model, more)
    return answer.headers.get('x-gateway-provider') === 'p1' && answer.status === 200
  }, `p1 serves ${model} again`)
  return answer!
}

for (const [number, [title, reply]] of faults.entries()) {
  for (const stream of streams) {
    const after = `after three times ${title}${stream ? ' (stream)' : ''}`

    test(`200 from the second provider alone ${after}, from the first one once it is back`, async t => {
      const id = idOf('two', number, stream)
      const account = await world.gateway.account()
      world.p1.always(id, reply)
      for (let i = 0; i < 3; i++) isFrom(t, await ask(world, account.live, id, { stream }), 'p2', stream, 2)
      t.is(world.p1.calls(id).length, 3)
      const { answer, calls } = await askWhileResting(world, account.live, id, { stream })
      isFrom(t, answer, 'p2', stream, 1)
      t.is(calls, 0)
      world.p1.always(id, null)
      isFrom(t, await untilServedBy1(world, account.live, id, { stream }), 'p1', stream, 1)
    })

    test(`200 from another model alone ${after} when auto`, async t => {
      const id = idOf('auto', number, stream)
      const account = await world.gateway.account({ model_allowlist: [id, spareOf(id)], mode: 'quality' })
      world.p1.always(id, reply)
      // With quick retries two requests fail often enough.
      for (let i = 0; i < 3 && world.p1.calls(id).length < 3; i++)
        isWhole(t, await ask(world, account.live, 'auto', { stream }), stream, served('p2'))
      await eventually(() => figuresOf(world, id, 'p1').circuit !== 'closed', 'the circuit is open')
      const { answer, calls } = await askWhileResting(world, account.live, id, { stream }, 'auto')
      isFrom(t, answer, 'p2', stream, 1)
      t.is(answer.headers.get('x-gateway-model'), spareOf(id))
      t.is(calls, 0)
      world.p1.always(id, null)
      isFrom(t, await untilServedBy1(world, account.live, 'auto', { stream }), 'p1', stream, 1)
    })

    test(`503 without a call ${after} without a fallback and without time to wait`, async t => {
      const id = idOf('one', number, stream)
      const account = await hasty.gateway.account()
      hasty.p1.always(id, reply)
      for (let i = 0; i < 3; i++) {
        const failed = await ask(hasty, account.live, id, { stream })
        t.is(failed.status, 502)
        t.is(failed.headers.get('x-gateway-attempts'), '1')
        await bookedOf(hasty, account, failed)
      }
      const { answer, calls, maxRestMs } = await askWhileResting(hasty, account.live, id, { stream })
      t.is(answer.status, 503)
      t.is(answer.headers.get('x-should-retry'), title === '401' ? 'false' : null)
      t.like(JSON.parse(answer.text).error, { code: 'no_provider_available', type: 'service_unavailable_error' })
      const retryAfterS = Number(answer.headers.get('retry-after'))
      t.true(retryAfterS >= 1 && retryAfterS <= Math.ceil(maxRestMs / 1_000), `${retryAfterS} s of ${maxRestMs} ms`)
      t.is(calls, 0)
      hidesSecrets(t, answer)
      t.is(await paidNano(hasty, account), 0)
      hasty.p1.always(id, null)
      isFrom(t, await untilServedBy1(hasty, account.live, id, { stream }), 'p1', stream, 1)
    })
  }
}

for (const stream of streams) {
  test(`502 after five calls when both providers fail for good (stream: ${stream})`, async t => {
    const id = `both-${stream}`
    world.p1.always(id, serverError)
    world.p2.always(id, reset)
    const account = await world.gateway.account()
    const answer = await ask(world, account.live, id, { stream })
    t.is(answer.status, 502)
    const { error } = JSON.parse(answer.text)
    t.is(error.code, 'upstream_error')
    t.is(error.metadata.attempts.length, 5)
    t.is(answer.headers.get('x-gateway-attempts'), '5')
    t.is(world.p1.calls(id).length + world.p2.calls(id).length, 5)
    t.deepEqual(error.metadata.attempts.slice(0, 2), [
      { provider: 'p1', model: id, status: 500, reason: 'server_error' },
      { provider: 'p2', model: id, status: null, reason: 'connection' },
    ])
    t.like(await bookedOf(world, account, answer), { attempts: 5, status: 502, costNano: 0n })
    t.is(await paidNano(world, account), 0)
  })

  test(`200 from the others while one request tries whether a provider is back (stream: ${stream})`, async t => {
    const id = `trial-${stream}`
    const { live } = await world.gateway.account()
    world.p1.always(id, serverError)
    for (let i = 0; i < 3; i++) await ask(world, live, id, { stream })
    const trial = Promise.withResolvers<void>()
    // The head alone says that it is not back.
    world.p1.always(id, async (_request, response) => {
      response.writeHead(500, { 'content-type': 'application/json' }).flushHeaders()
      if (world.p1.calls(id).length === 4) await trial.promise
      response.end('{"error":{"message":"Oops."}}')
    })
    await eventually(() => figuresOf(world, id, 'p1').circuit === 'half_open', 'the circuit is half open')
    const first = ask(world, live, id, { stream })
    await eventually(() => world.p1.calls(id).length === 4, 'a request probes')
    const others = await Promise.all(Array.from({ length: 5 }, () => ask(world, live, id, { stream })))
    t.is(world.p1.calls(id).length, 4)
    for (const other of others) isFrom(t, other, 'p2', stream, 1)
    trial.resolve()
    isFrom(t, await first, 'p2', stream, 2)
  })
}

test('200 from the others while one request tries whether a provider is back, and the client of an older call leaves', async t => {
  const { live, organisationId } = await world.gateway.account()
  // A stream: of a whole answer the usage would be awaited, for longer than a probe's lease.
  const body = { model: 'left', messages: [{ role: 'user', content: 'Hello' }], stream: true }
  world.p1.always('left', hang)
  const leaving = new AbortController()
  const older = call(world.gateway.url, '/v1/chat/completions', { key: live, body, signal: leaving.signal })
  await eventually(() => world.p1.calls('left').length === 1, 'the provider works on the older call')
  world.p1.always('left', serverError)
  for (let i = 0; i < 3; i++) await ask(world, live, 'left')
  const trial = Promise.withResolvers<void>()
  world.p1.always('left', async (request, response) => {
    if (world.p1.calls('left').length === 5) await trial.promise
    serverError(request, response)
  })
  await eventually(() => figuresOf(world, 'left', 'p1').circuit === 'half_open', 'the circuit is half open')
  const first = ask(world, live, 'left')
  await eventually(() => world.p1.calls('left').length === 5, 'a request probes')
  leaving.abort()
  await t.throwsAsync(older, { name: 'AbortError' })
  const { generation } = world.gateway.services.db
  await eventually(async () => (await generation.count({ where: { organisationId } })) === 4, 'the older call is over')
  isFrom(t, await ask(world, live, 'left'), 'p2', false, 1)
  t.is(world.p1.calls('left').length, 5)
  trial.resolve()
  isFrom(t, await first, 'p2', false, 2)
})

test('502 after five calls however many models the request names', async t => {
  for (const id of chain) world.p1.always(id, serverError)
  const account = await world.gateway.account()
  const answer = await ask(world, account.live, chain[0]!, { models: chain.slice(1) })
  t.is(answer.status, 502)
  const { attempts } = JSON.parse(answer.text).error.metadata
  t.deepEqual(
    attempts.map(({ model }: { model: string }) => model),
    [chain[0], ...chain.slice(0, 4)],
    'the first one has a quick retry',
  )
  t.deepEqual(
    chain.map(id => world.p1.calls(id).length),
    [2, 1, 1, 1, 0, 0, 0],
  )
  t.is(await paidNano(world, account), 0)
})

test('200 from a provider that is back after many failures, though another serves meanwhile', async t => {
  const { live } = await world.gateway.account()
  for (let i = 0; i < 10; i++) isFrom(t, await ask(world, live, 'crowd'), 'p1', false, 1)
  world.p1.always('crowd', serverError)
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(world, live, 'crowd')))
  for (const answer of answers) isWhole(t, answer, false, served('p2'))
  world.p1.always('crowd', null)
  isFrom(t, await untilServedBy1(world, live, 'crowd', {}), 'p1', false, 1)
})

test('200 from the first provider still after two failures, too few for its circuit', async t => {
  const { live } = await world.gateway.account()
  for (let i = 0; i < 6; i++) isFrom(t, await ask(world, live, 'stumble'), 'p1', false, 1)
  world.p1.next('stumble', serverError, serverError)
  for (let i = 0; i < 2; i++) isFrom(t, await ask(world, live, 'stumble'), 'p2', false, 2)
  isFrom(t, await ask(world, live, 'stumble'), 'p1', false, 1)
})

test('200 after a wait when the only provider comes back while its circuit is open', async t => {
  world.p1.next('back', serverError, serverError, serverError)
  const account = await world.gateway.account()
  const failed = await ask(world, account.live, 'back')
  t.is(failed.status, 502)
  isFrom(t, await ask(world, account.live, 'back'), 'p1', false, 1)
  t.is(world.p1.calls('back').length, 4)
})
