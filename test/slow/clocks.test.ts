import { runCells } from '../clocks/matrix.ts'
import { test } from '../support/test.ts'

/** Steps that the whole matrix (test/clocks) tries one by one, here at once the processes in opposite directions. */
const steps = { web: 600_000, worker: -600_000, postgres: 5_000, redis: 5_000 }

test('every kind of work is right while the clocks of all processes and stores step away and back', async t => {
  t.timeout(180_000)
  await runCells([steps], (_steps, faults) => t.deepEqual(faults, []))
})
