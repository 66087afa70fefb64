import type { GatewayError } from '../../shared/base/errors.ts'
import { ByteBudget } from '../../shared/io/byte-budget.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

const mib = 1024 * 1024
const chat = '/v1/chat/completions'

const gateway = useGateway(test, { MAX_BODY_MIB_IN_FLIGHT: '20' })

const bodies = () => gateway.services.budgets.bodies.bytes

test.serial('429 and 503 for bodies by the memory that they take once they are parsed', async t => {
  const parts = Array.from({ length: 10_500 }, () => ({ type: 'text', text: 'a' }))
  const leave = new AbortController()
  const send = (key: string, text: string) => {
    const messages = [{ role: 'user', content: [...parts, { type: 'text', text }] }]
    return gateway.fetch(chat, { key, body: { model: 'gpt-4.1', messages }, signal: leave.signal }).then(
      ({ status }) => status,
      () => 'cut',
    )
  }
  const [account, other, third] = await Promise.all([gateway.account(), gateway.account(), gateway.account()])
  const held = [send(account.test, 'sandbox:timeout')]
  await eventually(() => bodies() > 3 * mib, 'its 52,500 strings and objects count, beside its 280 kB')
  t.true(bodies() < 6 * mib)
  held.push(send(account.test, 'sandbox:timeout'))
  await eventually(() => bodies() > 7 * mib, 'another one is held')
  t.is(await send(account.test, 'Hello'), 429)
  held.push(send(other.test, 'sandbox:timeout'), send(other.test, 'sandbox:timeout'))
  await eventually(() => bodies() > 15 * mib, 'the process is full')
  t.is(await send(third.test, 'Hello'), 503)
  const small = { model: 'gpt-4.1', messages: [{ role: 'user', content: 'Hello' }] }
  t.is((await gateway.fetch(chat, { key: third.test, body: small })).status, 200)
  leave.abort()
  t.deepEqual(await Promise.all(held), ['cut', 'cut', 'cut', 'cut'])
  await eventually(() => bodies() === 0, 'nothing is held any more')
})

test('503 and 429 for memory beyond a budget, but never for the only request', t => {
  const budget = new ByteBudget(100, 'request bodies')
  const mine = budget.open('me')
  const yours = budget.open('you')
  mine.take(10)
  mine.grow(60)
  mine.grow(60)
  t.is(budget.bytes, 130)
  t.is(t.throws<GatewayError>(() => budget.open('me').grow(1)).code, 'service_unavailable')
  mine.hold(-90)
  t.is(t.throws<GatewayError>(() => budget.open('me').grow(11)).code, 'rate_limit_exceeded')
  yours.take(10)
  yours.grow(50)
  t.is(t.throws<GatewayError>(() => mine.grow(10)).code, 'service_unavailable')
  mine.release()
  yours.grow(90)
  yours.release()
  t.is(budget.bytes, 0)
})
