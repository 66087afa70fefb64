import { generateKeyPairSync } from 'node:crypto'
import { fal } from '../../../shared/providers/adapters/fal/protocol.ts'
import type { ProviderCallback, ProviderConnection } from '../../../shared/providers/contract.ts'
import { ProviderError } from '../../../shared/providers/provider-error.ts'
import { json } from '../../emulators/emulator.ts'
import { signed, startFal } from '../../emulators/fal.ts'
import { falVideo } from '../../support/jobs/fal-calls.ts'
import { connectionTo } from '../../support/jobs/queued-adapter.ts'
import { test } from '../../support/test.ts'

const nowMs = 1_795_132_800_000
/** The emulator, a connection to it that knows its keys' address, and a report on one piece of finished work. */
async function world() {
  const started = await startFal()
  const connection = connectionTo('fal', fal, started.url)
  const quirks = { jwks_url: `${started.url}/.well-known/jwks.json` }
  const known: ProviderConnection = { ...connection, provider: { ...connection.provider, quirks } }
  const operation = await fal.queued!.video!.start(falVideo('kling-v3-pro'), connection, null)
  started.finish()
  const id = String(operation.request)
  const { body, headers } = started.callback(id, nowMs)
  const loads: string[] = []
  const callback = (more: Partial<ProviderCallback> = {}): ProviderCallback => ({
    headers,
    raw: body,
    nowMs,
    secret: null,
    connection: known,
    remember: async (name, load) => {
      loads.push(name)
      return load()
    },
    ...more,
  })
  return { ...started, id, body, headers, callback, loads, connection }
}

test('verified when signed by any of the published keys, asked for without our own', async t => {
  const { emulator, callback, loads, close } = await world()
  t.true(await fal.verify!(callback()))
  t.true(await fal.verify!(callback({ nowMs: nowMs + 299_000 })), 'and when it comes again')
  t.deepEqual(loads, ['jwks', 'jwks'])
  t.is(emulator.requests.at(-1)!.headers.authorization, undefined)
  await close()
})

test('refused when forged, changed, old or from the future', async t => {
  const { id, body, headers, callback, loads, privateKey, connection, close } = await world()
  const stranger = generateKeyPairSync('ed25519').privateKey
  const without = (name: string) => ({ ...headers, [`x-fal-webhook-${name}`]: undefined })
  const refused: Record<string, Partial<ProviderCallback>> = {
    'another key': { headers: signed(id, body, stranger, nowMs / 1000) },
    'another body': { raw: Buffer.from(body.toString().replace('OK', 'KO')) },
    'another request': { headers: { ...headers, 'x-fal-webhook-request-id': 'other' } },
    'another time': { headers: { ...headers, 'x-fal-webhook-timestamp': String(nowMs / 1000 + 1) } },
    'a short signature': { headers: { ...headers, 'x-fal-webhook-signature': 'abcd' } },
    'two signatures': { headers: { ...headers, 'x-fal-webhook-signature': ['a', 'b'] } },
    'no signature': { headers: without('signature') },
    'no time': { headers: without('timestamp') },
    'no user': { headers: without('user-id') },
    old: { nowMs: nowMs + 301_000 },
    'of the future': { nowMs: nowMs - 301_000 },
    'a time that is no number': { headers: signed(id, body, privateKey, Number.NaN) },
    'a provider without published keys': {
      connection: { ...connection, provider: { ...connection.provider, quirks: {} } },
    },
  }
  for (const [what, more] of Object.entries(refused)) t.false(await fal.verify!(callback(more)), what)
  const before = loads.length
  await fal.verify!(callback({ nowMs: nowMs + 301_000 }))
  t.is(loads.length, before, 'keys are not asked for on behalf of a stranger')
  await close()
})

test('an error when the published keys cannot be had or read', async t => {
  const { emulator, callback, close } = await world()
  const broken = [
    json(500, {}),
    json(200, { hello: 'world' }),
    json(200, { keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'short' }] }),
  ]
  for (const reply of broken) {
    emulator.next(reply)
    const error = await t.throwsAsync(fal.verify!(callback()), { instanceOf: ProviderError })
    t.is(error!.reason, 'invalid_response')
  }
  await close()
  const error = await t.throwsAsync(fal.verify!(callback()), { instanceOf: ProviderError })
  t.is(error!.reason, 'connection')
})

test('refused when the published keys are of another kind', async t => {
  const { emulator, callback, close } = await world()
  emulator.next(json(200, { keys: [{ kty: 'RSA', n: 'x' }, 'key', null] }))
  t.false(await fal.verify!(callback()))
  await close()
})
