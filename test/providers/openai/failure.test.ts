import fc from 'fast-check'
import { normaliseUsage } from '../../../shared/providers/adapters/openai/answer.ts'
import { reportedFailure } from '../../../shared/providers/adapters/openai/failure.ts'
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
/** xAI's words for an account without money. */
const xaiSpent =
  'Your team 1 has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit.'
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
  [400, 'terms of Groq', error({ code: 'model_terms_required', type: 'invalid_request_error' }), 'model_unavailable'],
  [403, 'a model that is blocked at Groq', error({ code: 'model_permission_blocked_org' }), 'model_unavailable'],
  [403, 'a model of Alibaba', error({ message: 'Access to model denied. Please make sure …' }), 'model_unavailable'],
  [429, 'an account that is not active', error({ code: 'billing_not_active' }), 'quota'],
  [429, 'the same by its type', error({ code: null, type: 'billing_not_active' }), 'quota'],
  [429, 'an account that was ended', error({ code: null, type: 'access_terminated' }), 'auth'],
  [401, 'a wrong key', error({ code: 'invalid_api_key' }), 'auth'],
  [402, 'no credit', error({ code: 402 }), 'quota'],
  [403, 'a refusal of the account', error({}), 'auth'],
  [403, 'moderation', error({ code: 403, metadata: { reasons: ['violence'], flagged_input: 'x' } }), 'content_filter'],
  [404, 'a lost model', error({ code: 'model_not_found' }), 'model_unavailable'],
  [405, 'FastAPI', '{"detail":"Method Not Allowed"}', 'model_unavailable'],
  [408, 'a timeout', '', 'server_error'],
  [410, 'an address that is gone', '{"error":"It is no longer supported."}', 'model_unavailable'],
  [451, 'a region', '<html>Access denied due to cross-border isolation policy.</html>', 'model_unavailable'],
  [499, 'a proxy', '', 'server_error'],
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
/** An error of a server behind OpenRouter. */
const relayed = (code: number, raw: object | string, provider_name: string) => ({
  error: {
    message: 'Provider returned error',
    code,
    metadata: { raw: typeof raw === 'string' ? raw : JSON.stringify(raw), provider_name },
  },
})
/** What providers say of the gateway's account, or of a text, with a status that means something else elsewhere. */
const misleading: [status: number, cause: string, body: object, FailureReason][] = [
  // UKGovernmentBEIS/inspect_ai#2267, theopenco/llmgateway#1785; Wei-Shaw/sub2api#5359
  [
    403,
    'xAI’s usage guidelines',
    {
      code: 'The caller does not have permission to execute the specified operation',
      error:
        'Content violates usage guidelines. Team: 1, API key ID: 2, Model: grok-4-0709, Failed check: SAFETY_CHECK_TYPE_BIO',
    },
    'content_filter',
  ],
  [
    403,
    'the same by its newer code',
    { code: 'permission-denied', error: 'Content violates usage guidelines. ' },
    'content_filter',
  ],
  [
    403,
    'xAI’s refusal of the account',
    { code: 'permission-denied', error: 'Access to the chat endpoint is denied' },
    'auth',
  ],
  // Anantys-oss/koan#2412, continuedev/continue#10373 (429), #12670; tetsuo-ai/agenc-core#2483
  [403, 'xAI’s spending limit', { code: 'permission-denied', error: xaiSpent }, 'quota'],
  [429, 'the same', { code: 'resource-exhausted', error: xaiSpent }, 'quota'],
  [
    403,
    'xAI’s new team without credits',
    { error: "Your newly created team doesn't have any credits or licenses yet. You can purchase those on x." },
    'quota',
  ],
  [
    403,
    'xAI’s empty account',
    { code: 'personal-team-blocked:spending-limit', error: 'You have run out of credits or need a Grok subscription.' },
    'quota',
  ],
  // continuedev/continue#10778
  [
    400,
    'xAI’s wrong key',
    {
      code: 'Client specified an invalid argument',
      error: 'Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai.',
    },
    'auth',
  ],
  // pollinations/pollinations#12136, theopenco/llmgateway#3838
  [
    412,
    'Fireworks’ suspended account',
    {
      error: {
        message:
          'Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices. Please go to https://fireworks.ai/account/billing for more information.',
        param: null,
        code: 'PRECONDITION_FAILED',
        type: 'error',
      },
    },
    'quota',
  ],
  // musistudio/claude-code-router#1071; zhayujie/CowAgent#2910
  [
    429,
    'Z.ai’s empty account',
    { error: { code: '1113', message: 'Insufficient balance or no resource package. Please recharge.' } },
    'quota',
  ],
  [429, 'the same in Chinese', { error: { code: '1113', message: '余额不足或无可用资源包,请充值。' } }, 'quota'],
  // anomalyco/opencode#25458; MoonshotAI/Kimi-K2#5 (403)
  [
    429,
    'Moonshot’s empty account',
    {
      error: { message: 'Your account is suspended due to insufficient balance', type: 'exceeded_current_quota_error' },
    },
    'quota',
  ],
  [
    403,
    'Moonshot’s account that is not active',
    {
      error: {
        message: 'Your account x is not active, organization x exceeded current quota',
        type: 'exceeded_current_quota_error',
      },
    },
    'quota',
  ],
  // hsliuping/TradingAgents-CN#170
  [
    400,
    'Alibaba’s account in arrears',
    { error: { code: 'Arrearage', message: 'Access denied, please make sure your account is in good standing.' } },
    'quota',
  ],
  // coze-dev/coze-studio#2195
  [
    403,
    'BytePlus’ account in arrears',
    {
      error: {
        code: 'AccountOverdueError',
        message: 'The request failed because your account has an overdue balance.',
      },
    },
    'quota',
  ],
  // crewAIInc/crewAI#783
  [
    400,
    'Groq’s restricted organisation',
    { error: { message: 'Organization has been restricted.', code: 'organization_restricted' } },
    'auth',
  ],
  // 666ghj/BettaFish#108, deepseek-ai/DeepSeek-V2#30
  [
    400,
    'DeepSeek’s content risk',
    { error: { message: 'Content Exists Risk', type: 'invalid_request_error', code: 'invalid_request_error' } },
    'content_filter',
  ],
  // camel-ai/owl#432
  [
    400,
    'Alibaba’s inspection',
    { error: { code: 'data_inspection_failed', message: 'Input data may contain inappropriate content.' } },
    'content_filter',
  ],
  // MoonshotAI/kimi-cli#1002
  [
    400,
    'Moonshot’s high risk',
    {
      error: {
        code: 400,
        message: 'The request was rejected because it was considered high risk',
        type: 'content_filter',
      },
    },
    'content_filter',
  ],
  // OpenRouterTeam/ai-sdk-provider#24, anomalyco/opencode#25458; Davidvandijcke/coarse#183
  [
    401,
    'a key of OpenRouter’s that Anthropic refuses',
    relayed(401, { type: 'error', error: { type: 'authentication_error', message: 'invalid x-api-key' } }, 'Anthropic'),
    'model_unavailable',
  ],
  [
    429,
    'OpenRouter’s empty account at Moonshot',
    relayed(429, { error: { message: 'Your account is suspended due to insufficient balance' } }, 'Moonshot AI'),
    'model_unavailable',
  ],
  [
    403,
    'xAI’s usage guidelines through OpenRouter',
    relayed(403, { error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO' }, 'xAI'),
    'content_filter',
  ],
  [
    429,
    'a rate limit behind OpenRouter',
    relayed(429, 'z-ai/glm-5.3-flash is temporarily rate-limited upstream.', 'BaseTen'),
    'rate_limited',
  ],
  [
    403,
    'terms of a provider behind OpenRouter',
    {
      error: {
        message: 'The request is prohibited due to a violation of provider Terms Of Service.',
        code: 403,
        metadata: { provider_name: null },
      },
    },
    'model_unavailable',
  ],
  // The text of a request that an error quotes says nothing about the account.
  [400, 'a quoted text', { error: `Invalid value: '${xaiSpent}'` }, 'invalid_request'],
  [400, 'another', { error: "Invalid value: 'Incorrect API key provided'" }, 'invalid_request'],
  [400, 'a third', { error: "Invalid value: 'Content Exists Risk'" }, 'invalid_request'],
]
for (const [status, cause, body, reason] of misleading) {
  test(`${reason} for ${status} of ${cause}`, t =>
    t.is(openai.failure(status, {}, JSON.stringify(body)).reason, reason))
}

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

test('a rate limit without retry-after: the delay in its words, or the time at which it ends', t => {
  const wait = (body: object, headers = {}) =>
    openai.failure(429, headers, JSON.stringify({ error: body })).retryAfterMs
  const limited = (words: string) => ({ message: `Rate limit reached for m. ${words}`, code: 'rate_limit_exceeded' })
  t.is(wait(limited('Please try again in 2.112s. Visit …')), 2_112)
  t.is(wait(limited('Please try again in 342ms.')), 342)
  t.is(wait(limited('Please try again in 6m0s.')), 360_000)
  t.is(wait(limited('Please try again in 1h2m3.5s.')), 3_723_500)
  t.is(wait(limited('Please try again in 99h.')), 86_400_000)
  t.is(wait(limited('Please try again in a while.')), null)
  t.is(wait(limited('Please try again in 9s.'), { 'retry-after': '2' }), 2_000)
  t.is(wait({ message: 'You have no quota. Try again in 9s.', code: 'insufficient_quota' }), null)
  const resets = (reset: unknown) =>
    wait({ message: 'Rate limit exceeded', code: 429, metadata: { headers: { 'X-RateLimit-Reset': reset } } })
  t.true(resets(String(Date.now() + 60_000))! > 50_000)
  t.is(resets(String(Date.now() - 60_000)), 0)
  t.is(resets('soon'), null)
  const inStream = reportedFailure({ error: limited('Please try again in 20s.') })
  t.like(inStream, { reason: 'rate_limited', retryAfterMs: 20_000 })
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
