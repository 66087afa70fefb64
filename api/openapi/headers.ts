import { type AnswerHeaderName, answerHeaders } from '../answer-headers.ts'
import type { Endpoint, Header } from '../endpoint.ts'
import type { Components, Json } from './components.ts'

export const rateLimitHeaders = Object.keys(answerHeaders).filter(name =>
  name.startsWith('x-ratelimit-'),
) as AnswerHeaderName[]

const idempotencyKey: Header = {
  name: 'Idempotency-Key',
  maxLength: 255,
  description: 'The same key with the same request within 24 hours gives the first answer again.',
}

/** The headers that every answer of an endpoint can have. */
export function commonHeaders({ access }: Endpoint): AnswerHeaderName[] {
  return typeof access === 'object' && 'scope' in access ? ['x-request-id', ...rateLimitHeaders] : ['x-request-id']
}

/** Whether an `Idempotency-Key` counts. */
export function isRepeatable({ method, access }: Endpoint): boolean {
  return method === 'post' && access !== 'public'
}

/** Response headers by name, as references. */
export function headersOf(names: readonly AnswerHeaderName[], components: Components): Json {
  return Object.fromEntries(names.map(name => [name, components.refer('headers', name, answerHeaders[name])]))
}

/** The request headers that an endpoint reads, as references. */
export function headerParameters(endpoint: Endpoint, components: Components): Json[] {
  const read = [...(endpoint.headers ?? []), ...(isRepeatable(endpoint) ? [idempotencyKey] : [])]
  return read.map(({ name, maxLength, description }) =>
    components.refer('parameters', name, {
      name,
      in: 'header',
      required: false,
      schema: { type: 'string', maxLength },
      description,
    }),
  )
}
