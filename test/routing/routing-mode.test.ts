import fc from 'fast-check'
import { allows, authorise, scopes } from '../../shared/keys/policy.ts'
import { billingContextOf } from '../../shared/wallet/billing-context.ts'
import { policyOf } from '../support/routing/routing.ts'
import { test } from '../support/test.ts'

const nowMs = 1_000

test('a key is allowed what it would not be refused', t => {
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
  fc.assert(property, { numRuns: 500 })
})

test('requests of one policy have one billing context, those of its next version another', t => {
  const policy = policyOf({ rpmLimit: 5 })
  t.is(billingContextOf(policy), billingContextOf(policy))
  t.like(billingContextOf({ ...policy, version: policy.version + 1, rpmLimit: 6 }), {
    version: policy.version + 1,
    rpmLimit: 6,
  })
  t.is(billingContextOf(policy).rpmLimit, 5)
})
