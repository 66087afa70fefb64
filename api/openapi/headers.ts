import type { Endpoint, Header } from '../endpoint.ts'
import { isRepeatable } from '../request-lifecycle.ts'
import { type AnswerHeaderName, answerHeaders } from '../schemas/headers.ts'
import type { Components, Json } from './components.ts'

export const rateLimitHeaders = Object.keys(answerHeaders).filter(name =>
  name.startsWith('x-ratelimit-'),
) as AnswerHeaderName[]

const idempotencyKey: Header = {
  name: 'Idempotency-Key',
  maxLength: 255,
  description:
    'Makes the request safe to retry: the same key with the same request within 24 hours returns the first response again.',
}

/** The headers that every response of an endpoint can have. */
export function commonHeaders({ access }: Endpoint): AnswerHeaderName[] {
  return typeof access === 'object' && 'scope' in access ? ['x-request-id', ...rateLimitHeaders] : ['x-request-id']
}

/** Response headers by name, as references. */
export function headersOf(names: readonly AnswerHeaderName[], components: Components): Json {
  return Object.fromEntries(names.map(name => [name, components.refer('headers', name, answerHeaders[name])]))
}

/** The request headers of an endpoint, as references. */
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
