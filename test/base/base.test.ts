import fc from 'fast-check'
import { errorCodes, GatewayError } from '../../shared/base/errors.ts'
import { type IdPrefix, newId } from '../../shared/base/ids.ts'
import {
  nanoCeilFromPico,
  nanoFromPico,
  nanoFromUsd,
  picoPerUnit,
  ppmFromPercent,
  usdFromNano,
  usdPerUnit,
  withMargin,
} from '../../shared/base/money.ts'
import { monthOf, nextMonthStart } from '../../shared/base/time.ts'
import { test } from '../support/test.ts'

/** The table of docs/errors.md. */
const table: [number, string, string[]][] = [
  [400, 'invalid_request_error', ['invalid_json', 'invalid_request', 'unknown_field', 'missing_field']],
  [400, 'invalid_request_error', ['consent_required', 'context_length_exceeded', 'unsupported_capability']],
  [400, 'invalid_request_error', ['url_not_allowed', 'guardrail_blocked']],
  [401, 'authentication_error', ['missing_api_key', 'invalid_api_key', 'revoked_api_key', 'expired_api_key']],
  [402, 'billing_error', ['insufficient_credits', 'monthly_spend_cap_reached']],
  [403, 'permission_error', ['insufficient_scope', 'model_not_allowed', 'email_not_verified', 'wrong_key_type']],
  [403, 'permission_error', ['service_tier_not_allowed', 'no_own_key', 'own_key_refused']],
  [404, 'not_found_error', ['not_found', 'model_not_found']],
  [405, 'invalid_request_error', ['method_not_allowed']],
  [409, 'conflict_error', ['idempotency_key_reused', 'idempotency_in_progress', 'not_cancellable', 'not_deletable']],
  [413, 'invalid_request_error', ['request_too_large', 'file_too_large']],
  [415, 'invalid_request_error', ['unsupported_media_type']],
  [426, 'invalid_request_error', ['upgrade_required']],
  [429, 'rate_limit_error', ['rate_limit_exceeded']],
  [500, 'internal_error', ['internal_error']],
  [502, 'upstream_error', ['upstream_error', 'upstream_invalid_response']],
  [503, 'service_unavailable_error', ['no_provider_available', 'service_unavailable', 'guardrail_unavailable']],
  [504, 'upstream_error', ['upstream_timeout']],
]
/** What only realtime sessions say (docs/decisions/realtime.md). */
const ofSessions: typeof table = [
  [402, 'billing_error', ['session_spend_limit_reached']],
  [403, 'permission_error', ['origin_not_allowed']],
  [408, 'invalid_request_error', ['request_timeout', 'session_expired']],
]
/** What only WebSocket connections say (docs/decisions/responses-websocket.md). */
const ofConnections: typeof table = [
  [400, 'invalid_request_error', ['previous_response_not_found', 'websocket_connection_limit_reached']],
  [499, 'invalid_request_error', ['response_cancelled']],
]
/** What a model wrote that cannot be used (docs/errors.md). */
const ofModels: typeof table = [
  [400, 'invalid_request_error', ['tool_use_failed', 'json_validate_failed', 'output_parse_failed']],
]
/** What quotas say (docs/decisions/quotas.md). */
const ofQuotas: typeof table = [[403, 'permission_error', ['quota_exceeded']]]
/** What keys of suspended organisations get (docs/decisions/suspension.md). */
const ofSuspension: typeof table = [[403, 'permission_error', ['organisation_suspended']]]
/** What only the dashboard’s routes say (docs/decisions/accounts.md). */
const ofDashboard: typeof table = [
  [401, 'authentication_error', ['not_signed_in']],
  [403, 'permission_error', ['insufficient_role', 'two_factor_required']],
]

test('every error code has the documented status and type', t => {
  const known = new Set<string>(errorCodes)
  for (const [status, type, codes] of [
    ...table,
    ...ofSessions,
    ...ofConnections,
    ...ofModels,
    ...ofQuotas,
    ...ofSuspension,
    ...ofDashboard,
  ]) {
    for (const code of codes) {
      t.true(known.delete(code), code)
      const error = new GatewayError(code as (typeof errorCodes)[number], 'Do this.', { metadata: { a: 1 } })
      t.is(error.status, status, code)
      t.deepEqual(error.body, {
        error: { message: 'Do this.', type, code: error.code, param: null, metadata: { a: 1 } },
      })
    }
  }
  t.deepEqual([...known], [])
  t.deepEqual(new GatewayError('invalid_json', 'x', { param: 'a.0' }).body.error, {
    message: 'x',
    type: 'invalid_request_error',
    code: 'invalid_json',
    param: 'a.0',
  })
})

test('dollars become whole nano-dollars and back', t => {
  const pairs: [string | number, bigint][] = [
    ['25', 25_000_000_000n],
    ['0.000000001', 1n],
    ['-1.5', -1_500_000_000n],
    [0.1 + 0.2, 300_000_000n],
    [0.000_000_000_4, 0n],
    [1e-9, 1n],
    [999_999.999_999_999, 999_999_999_999_999n],
  ]
  for (const [usd, nano] of pairs) t.is(nanoFromUsd(usd), nano, String(usd))
  t.is(nanoFromUsd('1.5000000000'), 1_500_000_000n)
  for (const wrong of ['', '1.', '.5', '1e3', '1,5', ' 1', '0x1', 'NaN', '0.0000000001'])
    t.throws(() => nanoFromUsd(wrong), { instanceOf: RangeError }, wrong)
  fc.assert(
    // Up to 4 million dollars a JSON number holds every nano-dollar exactly.
    fc.property(
      fc.bigInt(-4_000_000_000_000_000n, 4_000_000_000_000_000n),
      nano => nanoFromUsd(usdFromNano(nano)) === nano,
    ),
  )
})

test('prices are whole pico-dollars per unit, and are shown without an exponent', t => {
  t.is(picoPerUnit('2.5', 1_000_000), 2_500_000n)
  t.is(picoPerUnit('0.04'), 40_000_000_000n)
  t.throws(() => picoPerUnit('0.0000001', 1_000_000), { instanceOf: RangeError })
  t.is(usdPerUnit(2_500_000n), '0.0000025')
  t.is(usdPerUnit(1n), '0.000000000001')
  t.is(usdPerUnit(0n), '0')
  t.is(usdPerUnit(12_000_000_000_000n), '12')
  fc.assert(fc.property(fc.bigInt(0n, 10n ** 24n), pico => picoPerUnit(usdPerUnit(pico)) === pico))
})

test('what is charged rounds half up, what is reserved rounds up', t => {
  t.deepEqual([0n, 499n, 500n, 1499n, 1500n].map(nanoFromPico), [0n, 0n, 1n, 1n, 2n])
  t.deepEqual([0n, 1n, 1000n, 1001n].map(nanoCeilFromPico), [0n, 1n, 1n, 2n])
  fc.assert(fc.property(fc.bigInt(0n, 10n ** 20n), pico => nanoCeilFromPico(pico) >= nanoFromPico(pico)))
})

test('a margin is added in parts per million, rounded up', t => {
  t.is(ppmFromPercent('5'), 50_000n)
  t.is(ppmFromPercent('2.5'), 25_000n)
  t.throws(() => ppmFromPercent('0.00001'), { instanceOf: RangeError })
  t.is(withMargin(1_000_000n, ppmFromPercent('2.5')), 1_025_000n)
  t.is(withMargin(1n, 50_000n), 2n)
  t.is(withMargin(0n, 50_000n), 0n)
})

test('ids have their prefix, are unique and sort by time', async t => {
  const shapes: [IdPrefix, RegExp][] = [
    ['chatcmpl', /^chatcmpl-[0-9a-z]{24}$/],
    ['cmpl', /^cmpl-[0-9a-z]{24}$/],
    ['file', /^file-[0-9a-z]{24}$/],
    ['batch_req', /^batch_req_[0-9a-z]{24}$/],
    ['job', /^job_[0-9a-z]{24}$/],
    ['req', /^req_[0-9a-z]{24}$/],
  ]
  for (const [prefix, shape] of shapes) t.regex(newId(prefix), shape)
  t.is(new Set(Array.from({ length: 10_000 }, () => newId('req'))).size, 10_000)
  const earlier = newId('req')
  const from = Date.now()
  while (Date.now() === from) await new Promise(setImmediate)
  t.true(earlier < newId('req'))
})

test('UTC: every month begins and ends in it', t => {
  const last = Date.UTC(2026, 11, 31, 23, 59, 59, 999)
  t.is(monthOf(last), '2026-12')
  t.is(monthOf(last + 1), '2027-01')
  t.is(monthOf(last), '2026-12')
  t.is(monthOf(Date.UTC(2028, 1, 29)), '2028-02')
  t.is(nextMonthStart(last), '2027-01-01T00:00:00.000Z')
  t.is(nextMonthStart(Date.UTC(2026, 0, 31)), '2026-02-01T00:00:00.000Z')
})
