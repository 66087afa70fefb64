import type { Account } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'
import { testClock } from '../support/wallet/money.ts'

const clock = testClock('2026-12-01T12:00:00Z')
const gateway = useGateway(test, {}, { clock })

/** The model that a request without one gets. */
async function chosen(account: Account, path: string, body: object): Promise<string> {
  const response = await gateway.fetch(path, { key: account.test, body })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`${path} ${response.status}`)
  return response.headers.get('x-gateway-model')!
}

test('200 from the model that suits the key’s mode, where the request names none', async t => {
  const { catalog } = gateway.services
  const bodies = { '/v1/images': { prompt: 'A fox' }, '/v1/audio/speech': { input: 'Good day.' } }
  for (const [path, body] of Object.entries(bodies)) {
    const [cheap, balanced, best] = await Promise.all(
      (['cost', 'balanced', 'quality'] as const).map(async mode =>
        catalog.models.get(await chosen(await gateway.account({ mode }), path, body)),
      ),
    )
    const type = cheap!.type
    const qualities = [...catalog.models.values()].filter(row => row.type === type && !row.disabled)
    t.is(best!.quality, Math.max(...qualities.map(row => row.quality ?? 0)), path)
    t.true(cheap!.quality! <= balanced!.quality! && balanced!.quality! <= best!.quality!, path)
    t.true(cheap!.quality! < best!.quality!, path)
  }
})

test('200 from a model that takes the request, where the best does not', async t => {
  const account = await gateway.account({ mode: 'quality' })
  t.is(await chosen(account, '/v1/audio/speech', { input: 'x', response_format: 'flac' }), 'gpt-4o-mini-tts')
  t.is(await chosen(account, '/v1/audio/speech', { model: 'auto', input: 'x', voice: 'Kore' }), 'gemini-3.8-flash-tts')
})

test.serial('200 from a model that is not retired, or from a retired one where no other takes the request', async t => {
  const account = await gateway.account({ mode: 'cost' })
  const without = () => chosen(account, '/v1/audio/speech', { input: 'Good day.' })
  t.teardown(() => clock.set('2026-12-01T12:00:00Z'))
  clock.set('2027-01-05T23:59:59Z')
  t.is(await without(), 'tts-1')
  clock.set('2027-01-06T00:00:00Z')
  t.not(await without(), 'tts-1')
  t.is(await chosen(account, '/v1/audio/speech', { model: 'tts-1', input: 'Good day.' }), 'tts-1')
  const narrow = await gateway.account({ mode: 'cost', model_allowlist: ['tts-1'] })
  t.is(await chosen(narrow, '/v1/audio/speech', { input: 'Good day.' }), 'tts-1')
})
