// All cases of which test/wallet/files-in-requests.test.ts tries a few.

import fc from 'fast-check'
import { startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'
import { casesOf, faultOf, samples, send, translate } from '../../support/wallet/file-places.ts'

const world = use(test, () => startWorld({ ALLOW_PRIVATE_URLS: 'true' }))

test('a file at every place of every request is reserved, not sent, or refused by name', t => {
  t.timeout(240_000)
  const faults = samples.flatMap(sample => casesOf(sample).flatMap(one => faultOf(one, translate(one)) ?? []))
  t.deepEqual(faults, [])
})

test('a file at many places of requests is reserved, not sent, or refused by name, over HTTP', async t => {
  t.timeout(600_000)
  const account = await world.gateway.account({ usd: '1000' })
  const cases = samples.flatMap(casesOf)
  await fc.assert(
    fc.asyncProperty(fc.nat(cases.length - 1), async index => {
      const one = cases[index]!
      t.is(faultOf(one, await send(world, account, one)), null)
    }),
    { numRuns: 1_500, endOnFailure: true },
  )
})
