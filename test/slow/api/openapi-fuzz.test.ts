import { fuzzStores } from '../../prove/fuzz.ts'
import { test } from '../../support/test.ts'
import { useStores } from '../../support/use.ts'

const stores = useStores(test)
/** Of a run of `npm run prove -- --fuzz`, which sends as many as it is told. */
const requests = 2_000

test('2xx or a documented 4xx, as the document describes them, and nothing half done, for random requests to every operation', async t => {
  t.timeout(600_000)
  const result = await fuzzStores(stores, { requests, seed: 20_261_127 })
  t.deepEqual(result.faults, [])
  t.true(result.requests >= requests && result.valid > requests / 6, JSON.stringify(result))
})
