import { after, events, hang } from '../../../emulators/emulator.ts'
import { examine, type Fault, type Outcome, titleOf, useFaults } from '../../../support/chat/fault-cases.ts'
import { beginning, begins, begun, drip, headOnly, whole } from '../../../support/chat/fault-replies.ts'
import { test } from '../../../support/test.ts'

const lasting: Outcome = { is: 'lasting', reason: 'timeout', status: null }
const broken: Outcome = { is: 'broken', reason: 'timeout', code: 'upstream_timeout', text: beginning.text }
const answer: Outcome = { is: 'answer' }

/** Says something every 100 ms and never comes to an end. */
const endless = events([...begun, ...Array.from({ length: 200 }, () => ': wait\n\n')], { intervalMs: 100, end: 'hang' })

/** The wait for the first byte and silence may last 3 s, the whole answer 10 s. */
const env = {
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '3000',
  UPSTREAM_IDLE_TIMEOUT_MS: '3000',
  UPSTREAM_TOTAL_TIMEOUT_MS: '10000',
}

const faults: Fault[] = [
  { title: 'no answer at all', reply: hang, outcome: lasting },
  { title: 'silence after the head', reply: headOnly, outcome: lasting },
  {
    title: 'silence after a comment',
    reply: events([': wait\n\n'], { end: 'hang' }),
    outcome: lasting,
    only: 'stream',
  },
  { title: 'silence after the first content', reply: begins([], 'hang'), outcome: broken, only: 'stream' },
  { title: 'no end after the first content', reply: endless, outcome: broken, only: 'stream' },
  { title: 'no end', reply: drip(1_000, 100), outcome: lasting, only: 'whole' },
  { title: 'a first byte that comes late', reply: after(700, whole('p1')), outcome: answer },
  { title: 'an answer that takes longer than any silence may', reply: drip(50, 100), outcome: answer },
]

const { cases, world } = useFaults(test, faults, env)

for (const one of cases) {
  test(titleOf(one), async t => {
    await examine(t, world, one)
    if (one.fault.outcome === answer) return
    // The call ends with the client’s request.
    await Promise.all(world.p1.calls(one.id).map(({ aborted }) => aborted))
  })
}
