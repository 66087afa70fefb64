import fc from 'fast-check'
import { allows, authorise, scopes } from '../../shared/keys/policy.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { policyOf } from '../support/routing/routing.ts'
import { test } from '../support/test.ts'

const nowMs = 1_000

test('agree: allows() and authorise(), for any policy and scope', t => {
  const anyPolicy = fc.record(
    {
      revoked: fc.boolean(),
      expiresAtMs: fc.constantFrom(null, nowMs - 1, nowMs, nowMs + 1),
      scopes: fc.subarray([...scopes]).map(some => new Set<string>(some)),
    },
    { noNullPrototype: true },
  )
  const property = fc.property(anyPolicy, fc.constantFrom(null, ...scopes), (parts, scope) => {
    const policy = policyOf(parts)
    if (allows(policy, scope, nowMs)) t.notThrows(() => authorise(policy, scope, nowMs))
    else t.throws(() => authorise(policy, scope, nowMs))
  })
  fc.assert(property, { numRuns: fuzzRuns(500) })
})
