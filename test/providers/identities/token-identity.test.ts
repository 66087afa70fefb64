import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Token, TokenIdentity } from '../../../shared/providers/identities/token-identity.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { test } from '../../support/test.ts'

const hourMs = 3_600_000

/** A service whose tokens live for an hour of a clock that the test moves. */
function bench(lifetimeMs = hourMs) {
  const time = { nowMs: 1_000_000 }
  const pending: { give(): void; fail(error: Error): void }[] = []
  const state = { asked: 0 }
  const fetch = () =>
    new Promise<Token>((resolve, reject) => {
      const number = ++state.asked
      pending.push({
        give: () => resolve({ text: `token-${number}`, expiresAtMs: time.nowMs + lifetimeMs }),
        fail: reject,
      })
    })
  const identity = new TokenIdentity(fetch, { now: () => time.nowMs })
  const authorized = async () => (await identity.authorize()).authorization
  return { time, pending, state, identity, authorized }
}

test('one token for requests at the same time, and for later ones while it is valid', async t => {
  const { time, pending, state, identity, authorized } = bench()
  t.is(state.asked, 0)
  const both = Promise.all([authorized(), authorized()])
  pending[0]!.give()
  t.deepEqual(await both, ['Bearer token-1', 'Bearer token-1'])
  time.nowMs += hourMs - 5 * 60_000
  t.is(await authorized(), 'Bearer token-1')
  t.is(state.asked, 1)
  identity.close()
})

test('a new token ahead of the end of the old one, which requests have meanwhile', async t => {
  const { time, pending, state, identity, authorized } = bench()
  const first = authorized()
  pending[0]!.give()
  await first
  time.nowMs += hourMs - 3 * 60_000
  t.is(await authorized(), 'Bearer token-1')
  t.is(await authorized(), 'Bearer token-1')
  t.is(state.asked, 2)
  pending[1]!.give()
  await sleep(0)
  t.is(await authorized(), 'Bearer token-2')
  identity.close()
})

test('the old token while no new one can be had, and its failure once it has ended', async t => {
  const { time, pending, state, identity, authorized } = bench()
  const first = authorized()
  pending[0]!.give()
  await first
  time.nowMs += hourMs - 2 * 60_000
  t.is(await authorized(), 'Bearer token-1')
  pending[1]!.fail(new Error('away'))
  await sleep(0)
  t.is(await authorized(), 'Bearer token-1')
  t.is(state.asked, 2)
  time.nowMs += 2 * 60_000
  const late = authorized()
  pending[2]!.fail(Object.assign(new Error('still away'), { status: 503 }))
  const error = await t.throwsAsync<ProviderError>(late, { instanceOf: ProviderError })
  t.like(error, { reason: 'overloaded', unsent: true })
  // A moment later nobody is asked again.
  await t.throwsAsync(authorized(), { instanceOf: ProviderError })
  t.is(state.asked, 3)
  identity.close()
})

test('auth for a refusal, whose words only the operator sees', async t => {
  const { pending, identity, authorized } = bench()
  const refused = authorized()
  pending[0]!.fail(Object.assign(new Error('invalid_client: the secret is wrong'), { statusCode: 401 }))
  const error = await t.throwsAsync<ProviderError>(refused, { instanceOf: ProviderError })
  t.like(error, { reason: 'auth', status: 401, unsent: true })
  t.false(error!.message.includes('invalid_client'))
  t.regex(String((error!.cause as Error).message), /invalid_client/)
  identity.close()
})

test('a new token after a refusal by the provider', async t => {
  const { pending, identity, authorized } = bench()
  const first = authorized()
  pending[0]!.give()
  await first
  t.is(identity.secret, 'token-1')
  identity.recordRefusal()
  const second = authorized()
  pending[1]!.give()
  t.is(await second, 'Bearer token-2')
  identity.close()
})

test('a process ends with an identity that is open', async t => {
  const module = JSON.stringify(join(import.meta.dirname, '../../../shared/providers/identities/token-identity.ts'))
  const script = `import { TokenIdentity } from ${module}
    const fetch = async () => ({ text: 'token', expiresAtMs: Date.now() + 3_600_000 })
    console.log((await new TokenIdentity(fetch, Date).authorize()).authorization)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  t.is(stdout, 'Bearer token\n')
})
