type AnswerHeader = { description: string; schema: Record<string, unknown>; example: unknown }

const text = { type: 'string' }
const count = { type: 'integer', minimum: 0 }

/** The headers of answers, by name, as the documentation has them. */
export const answerHeaders = {
  'x-request-id': {
    description: 'The id of the request: the one it came with, or a new one. Quote it when you report a problem.',
    schema: text,
    example: 'req_01k9h2t5v8',
  },
  'x-ratelimit-limit-requests': {
    description: 'Requests per minute that the key may make. Absent where it has no such limit.',
    schema: count,
    example: 60,
  },
  'x-ratelimit-remaining-requests': { description: 'How many of them are left.', schema: count, example: 59 },
  'x-ratelimit-reset-requests': { description: 'When all of them are back.', schema: text, example: '1s' },
  'x-ratelimit-limit-tokens': {
    description: 'Tokens per minute that the key may use. Absent where it has no such limit.',
    schema: count,
    example: 100_000,
  },
  'x-ratelimit-remaining-tokens': { description: 'How many of them are left.', schema: count, example: 99_200 },
  'x-ratelimit-reset-tokens': { description: 'When all of them are back.', schema: text, example: '0.48s' },
  'retry-after': { description: 'When to try again, in seconds.', schema: count, example: 2 },
  'www-authenticate': { description: 'How to send the key.', schema: text, example: 'Bearer' },
  'x-should-retry': {
    description: 'Whether the same request may succeed later.',
    schema: { type: 'string', enum: ['true', 'false'] },
    example: 'false',
  },
  'x-generation-id': {
    description: 'The id of what a model was asked for; `GET /v1/generation?id=` looks it up.',
    schema: text,
    example: 'gen_01k9h2t5v8',
  },
  'x-gateway-model': { description: 'The model that answered.', schema: text, example: 'gpt-4o-mini' },
  'x-gateway-upstream-model': {
    description:
      'What the provider calls the model. The `model` of the answer is the gateway’s own name of it. Absent where the provider does not say.',
    schema: text,
    example: 'gpt-4o-mini-2024-07-18',
  },
  'x-gateway-provider': { description: 'The provider that answered.', schema: text, example: 'provider-a' },
  'x-gateway-mode': {
    description: 'The routing mode.',
    schema: { type: 'string', enum: ['cost', 'balanced', 'quality'] },
    example: 'balanced',
  },
  'x-gateway-attempts': { description: 'How many calls of providers it took.', schema: count, example: 1 },
  'x-gateway-max-tokens-clamped': {
    description: 'What the key’s spend cap made of `max_tokens`. Absent where it changed nothing.',
    schema: count,
    example: 512,
  },
  'x-gateway-dropped': {
    description:
      'Fields of the request that the provider did not get: it does not know them, or charges for them apart. By path, separated by commas; absent where nothing was dropped.',
    schema: text,
    example: 'logit_bias',
  },
  'x-gateway-cost-usd': {
    description: 'USD charged. Absent where it is not known before the body is sent.',
    schema: { type: 'string', pattern: '^\\d+(\\.\\d+)?$' },
    example: '0.00042',
  },
  'x-sandbox': {
    description: 'Whether the sandbox answered: always with test keys.',
    schema: { type: 'string', enum: ['true'] },
    example: 'true',
  },
  'idempotent-replayed': {
    description: 'Whether this is the kept answer to the first request with this `Idempotency-Key`.',
    schema: { type: 'string', enum: ['true'] },
    example: 'true',
  },
  'preference-applied': { description: 'The `Prefer` that was followed.', schema: text, example: 'wait=30' },
  'content-range': { description: 'The part that this is.', schema: text, example: 'bytes 0-1023/146515' },
  'accept-ranges': { description: 'What a `Range` may count.', schema: text, example: 'bytes' },
} as const satisfies Record<string, AnswerHeader>
export type AnswerHeaderName = keyof typeof answerHeaders

/** Of every answer that a model gave. */
export const generationHeaders: AnswerHeaderName[] = [
  'x-generation-id',
  'x-gateway-model',
  'x-gateway-upstream-model',
  'x-gateway-provider',
  'x-gateway-mode',
  'x-gateway-attempts',
  'x-gateway-cost-usd',
  'x-sandbox',
]
