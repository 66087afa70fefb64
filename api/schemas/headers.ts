type AnswerHeader = { description: string; schema: Record<string, unknown>; example: unknown }

const text = { type: 'string' }
const count = { type: 'integer', minimum: 0 }

/** The response headers by name, as documented. */
export const answerHeaders = {
  'x-request-id': {
    description: 'The id of the request: the one you sent, or a new one. Include it when you report a problem.',
    schema: text,
    example: 'req_01k9h2t5v8',
  },
  'request-id': {
    description: 'The same as `x-request-id`, where Anthropic’s clients look for it.',
    schema: text,
    example: 'req_01k9h2t5v8',
  },
  'x-ratelimit-limit-requests': {
    description: 'The key’s limit of requests per minute. Absent without a limit.',
    schema: count,
    example: 60,
  },
  'x-ratelimit-remaining-requests': { description: 'Remaining requests.', schema: count, example: 59 },
  'x-ratelimit-reset-requests': {
    description: 'Time until the request limit is fully replenished.',
    schema: text,
    example: '1s',
  },
  'x-ratelimit-limit-tokens': {
    description: 'The key’s limit of tokens per minute. Absent without a limit.',
    schema: count,
    example: 100_000,
  },
  'x-ratelimit-remaining-tokens': { description: 'Remaining tokens.', schema: count, example: 99_200 },
  'x-ratelimit-reset-tokens': {
    description: 'Time until the token limit is fully replenished.',
    schema: text,
    example: '0.48s',
  },
  'retry-after': { description: 'Seconds to wait before retrying.', schema: count, example: 2 },
  'www-authenticate': { description: 'The supported authentication scheme.', schema: text, example: 'Bearer' },
  'x-should-retry': {
    description: 'Whether retrying the same request may succeed.',
    schema: { type: 'string', enum: ['true', 'false'] },
    example: 'false',
  },
  'x-generation-id': {
    description: 'The id of the generation, for `GET /v1/generation?id=`.',
    schema: text,
    example: 'gen_01k9h2t5v8',
  },
  'x-gateway-model': { description: 'The model that served the request.', schema: text, example: 'gpt-4o-mini' },
  'x-gateway-upstream-model': {
    description:
      'The provider’s name of the model, whereas the `model` of the response is the gateway’s. Absent if the provider does not report it.',
    schema: text,
    example: 'gpt-4o-mini-2024-07-18',
  },
  'x-gateway-preset': {
    description: 'The preset that the request used, with its version. Absent without one.',
    schema: text,
    example: 'support@3',
  },
  'x-gateway-provider': { description: 'The provider that served the request.', schema: text, example: 'provider-a' },
  'x-gateway-mode': {
    description: 'The routing mode.',
    schema: { type: 'string', enum: ['cost', 'balanced', 'quality'] },
    example: 'balanced',
  },
  'x-gateway-attempts': { description: 'Number of provider calls.', schema: count, example: 1 },
  'x-gateway-max-tokens-clamped': {
    description:
      'The value of `max_tokens` after it was lowered to what the key’s spend cap or the credits can pay. Absent if unchanged.',
    schema: count,
    example: 512,
  },
  'x-gateway-structured-output': {
    description:
      'How the answer is made to be JSON: `native` by the model’s own format, `tool` by a tool that it has to call, `prompt` by an instruction. Then `validated` if the answer was checked against its schema, and `repaired` if its form was put right. Absent if no JSON was asked for.',
    schema: text,
    example: 'tool, validated',
  },
  'x-gateway-dropped': {
    description:
      'Request fields that were not sent to the provider because it does not support them or charges extra for them: comma-separated paths. Absent if none were dropped.',
    schema: text,
    example: 'logit_bias',
  },
  'x-gateway-adjusted': {
    description:
      'Request fields whose value was changed to one that the model accepts, e.g. a `tool_choice` that cannot be forced: comma-separated paths. Absent if none were changed.',
    schema: text,
    example: 'reasoning_effort',
  },
  'x-gateway-reasoning-dropped': {
    description:
      'Whether reasoning state in the request was not sent to the provider, because another account or model made it or it was changed. Absent if none was dropped.',
    schema: { type: 'string', enum: ['1'] },
    example: '1',
  },
  'x-gateway-own-key': {
    description: 'Whether an own provider key of the organisation served the request. Absent if not.',
    schema: { type: 'string', enum: ['1'] },
    example: '1',
  },
  'x-gateway-cache-marked': {
    description:
      'Whether the gateway marked what the provider is to cache, as the request had no cache marks. Absent if not.',
    schema: { type: 'string', enum: ['1'] },
    example: '1',
  },
  'x-gateway-guardrails': {
    description:
      'What the guardrails of the key did with the texts of the request (`input`) and of the answer (`output`): a list with parameters, as in RFC 8941. A stream that is masked as it comes has no counts of its answer. Absent for keys without guardrails.',
    schema: text,
    example: 'input;masked=2;webhook=allowed, output',
  },
  'x-gateway-cache': {
    description:
      'Whether the answer is from the response cache: `hit`, `miss`, or `bypass` if the request is not cached. Absent where the key’s policy has no `cache`.',
    schema: { type: 'string', enum: ['hit', 'miss', 'bypass'] },
    example: 'hit',
  },
  age: { description: 'Of an answer from the response cache: its age in seconds.', schema: count, example: 12 },
  'x-gateway-converted': {
    description:
      'The type of a file that was converted because the provider does not take it, and the type that it was converted to. Absent if the file was sent as it is.',
    schema: text,
    example: 'audio/amr; to=audio/flac',
  },
  'x-gateway-cost-usd': {
    description: 'USD charged. Absent if it is not known before the body is sent.',
    schema: { type: 'string', pattern: '^\\d+(\\.\\d+)?$' },
    example: '0.00042',
  },
  'x-sandbox': {
    description: 'Whether the sandbox served the request: always with test keys.',
    schema: { type: 'string', enum: ['true'] },
    example: 'true',
  },
  'idempotent-replayed': {
    description: 'Whether this is the stored response to the first request with this `Idempotency-Key`.',
    schema: { type: 'string', enum: ['true'] },
    example: 'true',
  },
  etag: {
    description: 'The version of the response, for `if-none-match`.',
    schema: text,
    example: '"q83vEjRWeJCrze8SNFZ4kA"',
  },
  'x-models-etag': {
    description:
      'The version of the model list that Codex reads. It reloads the list when this changes. Absent from responses to keys with an allowlist.',
    schema: text,
    example: '"q83vEjRWeJCrze8SNFZ4kA"',
  },
  'preference-applied': { description: 'The `Prefer` value that was applied.', schema: text, example: 'wait=30' },
  'content-range': { description: 'The range of this part.', schema: text, example: 'bytes 0-1023/146515' },
  'accept-ranges': { description: 'The supported range unit.', schema: text, example: 'bytes' },
} as const satisfies Record<string, AnswerHeader>
export type AnswerHeaderName = keyof typeof answerHeaders

/** The headers of every response from a model. */
export const generationHeaders: AnswerHeaderName[] = [
  'x-generation-id',
  'x-gateway-model',
  'x-gateway-upstream-model',
  'x-gateway-preset',
  'x-gateway-provider',
  'x-gateway-mode',
  'x-gateway-own-key',
  'x-gateway-guardrails',
  'x-gateway-attempts',
  'x-gateway-cost-usd',
  'x-sandbox',
]

/** The headers of every response from a model that makes text or embeddings. */
export const directHeaders: AnswerHeaderName[] = [
  ...generationHeaders,
  'x-gateway-cache',
  'age',
  'x-gateway-max-tokens-clamped',
  'x-gateway-dropped',
  'x-gateway-adjusted',
]

/** The headers of every response from a chat model, in each dialect. */
export const chatHeaders: AnswerHeaderName[] = [
  ...directHeaders,
  'x-gateway-structured-output',
  'x-gateway-reasoning-dropped',
]
