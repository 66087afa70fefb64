// What a decision of `auto` costs by itself, in processor time of its thread: `node bench/decision.ts [--rounds 30]`. The
// smallest of the rounds counts, which other processes disturb least.
import { chatRequest } from '../shared/kinds/chat.ts'
import { chatFeatures } from '../shared/routing/features.ts'
import { type Explain, route } from '../shared/routing/router.ts'
import { names, policyOf, worldWith } from '../test/support/routing/routing.ts'
import { readOptions } from './lib/options.ts'
import { chatBody } from './lib/request.ts'

const { values: options } = readOptions({ rounds: 30, decisions: 3_000 })
const plain = { latencyMs: 0, chunks: 1, intervalMs: 0 }
const body = chatBody(plain, false, undefined, { model: 'auto' })
const request = chatRequest.parse(JSON.parse(body))
const policy = policyOf()
const difficulty = () => 0.6

for (const providers of [['openai', 'anthropic', 'gemini'], names]) {
  const inputs = worldWith(providers)
  /** Decides on a request that is not known from before; `isRead` leaves its prompt out. */
  const decide = (explain: Explain, isRead: boolean) => {
    const features = chatFeatures(request, body.length)
    const asked = isRead ? { ...features, difficulty } : features
    return route(inputs, { policy, kind: 'chat', request, features: asked, seed: 's' }, explain)
  }
  const candidates = decide('preview', false).candidates.filter(({ excluded }) => excluded === null).length
  console.log(`${providers.length} providers, ${candidates} candidates`)
  console.log(`  logged                     ${least(() => decide('log', false))} µs`)
  console.log(`  without the explanation    ${least(() => decide('no', false))} µs`)
  console.log(`  and without the difficulty ${least(() => decide('no', true))} µs`)
}

/** The least time of a run over the rounds, in microseconds. */
function least(run: () => unknown): string {
  let leastUs = Number.POSITIVE_INFINITY
  for (let round = 0; round < options.rounds; round++) {
    const before = threadCpuUs()
    for (let i = 0; i < options.decisions; i++) run()
    leastUs = Math.min(leastUs, (threadCpuUs() - before) / options.decisions)
  }
  return leastUs.toFixed(1).padStart(6)
}

function threadCpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}
