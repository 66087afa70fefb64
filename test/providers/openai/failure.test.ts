import fc from 'fast-check'
import { normaliseUsage } from '../../../shared/providers/adapters/openai/answer.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { FailureReason } from '../../../shared/providers/provider-error.ts'
import { test } from '../../support/test.ts'

const usageCases: [string, unknown, unknown][] = [
  ['nothing', null, undefined],
  ['an empty object', {}, undefined],
  ['texts', { prompt_tokens: '3', completion_tokens: '4' }, undefined],
  ['negative counts', { prompt_tokens: -3, completion_tokens: 4 }, undefined],
  [
    'a side to derive',
    { prompt_tokens: 3, total_tokens: 7 },
    { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
  ],
  ['a side unknown', { prompt_tokens: 3 }, undefined],
  [
    'reasoning beside the completion',
    { prompt_tokens: 3, completion_tokens: 4, total_tokens: 17, completion_tokens_details: { reasoning_tokens: 10 } },
    { prompt_tokens: 3, completion_tokens: 14, total_tokens: 17, completion_tokens_details: { reasoning_tokens: 10 } },
  ],
  [
    'details above the whole',
    { prompt_tokens: 3, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 9, other: 1 } },
    { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7, prompt_tokens_details: { cached_tokens: 3 } },
  ],
]
for (const [name, given, expected] of usageCases) {
  test(`usage from ${name}`, t => t.deepEqual(normaliseUsage(given) as unknown, expected))
}

test('usage is never negative and always adds up, whatever the upstream says', t => {
  const counts = fc.oneof(fc.integer(), fc.double(), fc.constant(null), fc.string())
  const names = ['prompt_tokens', 'completion_tokens', 'total_tokens', 'prompt_cache_hit_tokens']
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom(...names), counts),
      fc.dictionary(fc.constant('cached_tokens'), counts),
      (json, details) => {
        const usage = normaliseUsage({ ...json, prompt_tokens_details: details })
        if (!usage) return
        t.true(usage.prompt_tokens >= 0 && usage.completion_tokens >= 0)
        t.is(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        t.true((usage.prompt_tokens_details?.cached_tokens ?? 0) <= usage.prompt_tokens)
      },
    ),
  )
})

const error = (fields: object) =>
  JSON.stringify({ error: { message: 'The reason.', type: null, param: null, code: null, ...fields } })
const failures: [number, string, string, FailureReason][] = [
  [400, 'a bad request', error({ type: 'invalid_request_error' }), 'invalid_request'],
  [400, 'a prompt too long, by code', error({ code: 'context_length_exceeded' }), 'context_length'],
  [
    400,
    'a prompt too long, by words',
    error({ message: "This model's maximum context length is 8 tokens." }),
    'context_length',
  ],
  [400, 'a policy', error({ code: 'content_policy_violation' }), 'content_filter'],
  [400, 'OpenRouter’s error type', error({ code: 400, metadata: { error_type: 'refusal' } }), 'content_filter'],
  [400, 'a model that Groq has retired', error({ code: 'model_decommissioned' }), 'model_unavailable'],
  [401, 'a wrong key', error({ code: 'invalid_api_key' }), 'auth'],
  [402, 'no credit', error({ code: 402 }), 'quota'],
  [403, 'a refusal of the account', error({}), 'auth'],
  [403, 'moderation', error({ code: 403, metadata: { reasons: ['violence'], flagged_input: 'x' } }), 'content_filter'],
  [404, 'a lost model', error({ code: 'model_not_found' }), 'model_unavailable'],
  [408, 'a timeout', '', 'server_error'],
  [413, 'Groq’s token rate', error({ code: 'rate_limit_exceeded', type: 'tokens' }), 'rate_limited'],
  [422, 'FastAPI', '{"detail":[{"loc":["body","messages"],"msg":"field required"}]}', 'invalid_request'],
  [429, 'a rate limit', error({ type: 'requests', code: 'rate_limit_exceeded' }), 'rate_limited'],
  [429, 'an empty account', error({ type: 'insufficient_quota', code: 'insufficient_quota' }), 'quota'],
  [429, 'HTML', '<html>Too many</html>', 'rate_limited'],
  [500, 'a crash', error({ type: 'server_error' }), 'server_error'],
  [503, 'an overload', error({ type: 'server_error' }), 'overloaded'],
  [529, 'an overload', '', 'overloaded'],
  [302, 'a redirect', '', 'invalid_response'],
]
for (const [status, cause, body, reason] of failures) {
  test(`${status} of ${cause} is ${reason}`, t => {
    const failed = openai.failure(status, {}, body)
    t.is(failed.reason, reason)
    t.is(failed.status, status)
  })
}

test('failure messages: the provider’s words about the request, never about our account', t => {
  const said = (status: number, body: string) => openai.failure(status, {}, body).message
  t.is(said(400, error({})), 'The reason.')
  t.is(said(400, '{"error":"just text"}'), 'just text')
  t.is(said(400, '[{"error":{"message":"in a list"}}]'), 'in a list')
  t.is(said(422, '{"detail":[{"loc":["body","messages"],"msg":"field required"}]}'), 'messages: field required')
  t.is(said(502, '<html>secret host</html>'), 'The provider answered with status 502.')
  t.notRegex(said(401, error({ message: 'Incorrect API key provided: sk-abc*****xyz.' })), /sk-/)
  t.notRegex(said(429, error({ message: 'Limit in organization org-AbCd1234EfGh on tokens' })), /org-A/)
  t.notRegex(said(400, error({ message: 'Echo: Authorization: Bearer abc.def' })), /abc/)
  t.true(said(400, error({ message: 'x'.repeat(50_000) })).length <= 1000)
})

test('retry-after: milliseconds, seconds and dates', t => {
  const wait = (headers: Record<string, string>) => openai.failure(429, headers, '').retryAfterMs
  t.is(wait({}), null)
  t.is(wait({ 'retry-after': '2' }), 2000)
  t.is(wait({ 'retry-after': '0.5' }), 500)
  t.is(wait({ 'retry-after-ms': '120', 'retry-after': '9' }), 120)
  t.is(wait({ date: 'Fri, 20 Nov 2026 10:00:00 GMT', 'retry-after': 'Fri, 20 Nov 2026 10:00:30 GMT' }), 30_000)
  t.is(wait({ 'retry-after': 'Fri, 20 Nov 2015 10:00:00 GMT' }), 0)
  t.is(wait({ 'retry-after': 'soon' }), null)
  t.is(wait({ 'retry-after': '999999999' }), 86_400_000)
})
