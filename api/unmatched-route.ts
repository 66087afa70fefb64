import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../shared/base/errors.ts'
import { DialectError, type ErrorDialect } from './error-response.ts'
import { findForeignPath } from './foreign-paths.ts'
import { isAnthropic } from './routes/anthropic-models.ts'

/** What Groq's own clients put after any base URL (groq 1.7 of PyPI, resources/chat/completions.py). */
const groqPrefix = '/openai/v1/'
const groqHint = ' Groq’s clients add /openai to any base URL: use OpenAI’s client, with a base URL that ends with /v1.'

/** Finds the methods of a path: none if no route has it. */
type MethodsOf = (path: string) => readonly string[]
type Unmatched = { method: string; path: string; headers: IncomingHttpHeaders }

/**
 * The error for an unmatched request: 404 with what is offered instead if another API has its path, 405 if the path has other
 * methods, otherwise 404; the last two name the route that a client with a wrong base URL meant.
 */
export function unmatchedRouteError(request: Unmatched, methodsOf: MethodsOf = () => []): GatewayError {
  const { method, path } = request
  const meant = () => sameEnding(path, candidate => methodsOf(candidate).includes(method))
  const foreign = foreignPathError(request, meant)
  if (foreign) return foreign
  const methods = methodsOf(path)
  const route = meant()
  const hint = route ? ` Did you mean ${route}? Check the base URL of the client.` : ''
  if (methods.length === 0) {
    return new GatewayError(
      'not_found',
      `There is no ${method} ${path}.${hint}${path.startsWith(groqPrefix) ? groqHint : ''}`,
    )
  }
  const allow = methods.join(', ')
  return new GatewayError('method_not_allowed', `${path} takes ${allow}, not ${method}.${hint}`, { headers: { allow } })
}

/** The dialect of a client that its own headers tell; null = any other. Google's send their key in their own header only. */
export function foreignClientOf(headers: IncomingHttpHeaders): ErrorDialect | null {
  if (isAnthropic(headers)) return 'messages'
  const hasOwnKey = headers.authorization !== undefined || headers['x-api-key'] !== undefined
  return headers['x-goog-api-key'] !== undefined && !hasOwnKey ? 'google' : null
}

/** The 404 for a path of another API; null for any other. */
export function foreignPathError(
  { method, path, headers }: Unmatched,
  ownRoute: () => string | null = () => null,
): GatewayError | null {
  const foreign = findForeignPath({ method, path, client: foreignClientOf(headers) }, ownRoute)
  if (!foreign) return null
  return new DialectError(foreign.dialect, 'not_found', `There is no ${method} ${path}. ${foreign.advice}`)
}

/**
 * The error for an upgrade at a path without one: 426, upon which clients that try a WebSocket first send a plain request.
 */
export function unmatchedSocketError(
  { path, headers }: Omit<Unmatched, 'method'>,
  socketPaths: readonly string[],
): GatewayError {
  const route = sameEnding(path, candidate => socketPaths.includes(candidate))
  const foreign = findForeignPath({ method: 'GET', path, client: foreignClientOf(headers) }, () => route)
  const advice = route ? `Did you mean ${route}? Check the base URL of the client.` : 'Send a plain HTTP request.'
  const message = `There is no WebSocket at ${path}. ${foreign?.advice ?? advice}`
  return foreign
    ? new DialectError(foreign.dialect, 'upgrade_required', message)
    : new GatewayError('upgrade_required', message)
}

/** The most segments that the ending of a mistaken path is looked up with. */
const maxSegments = 4

/**
 * The route with the longest ending of a path: base URLs lack `/v1`, repeat it, or contain what other services have before
 * it. Null if there is none.
 */
function sameEnding(path: string, isRoute: (path: string) => boolean): string | null {
  const segments = path.split('/').slice(1)
  for (let count = Math.min(maxSegments, segments.length); count > 0; count--) {
    const ending = `/${segments.slice(-count).join('/')}`
    const route = [ending, `/v1${ending}`].find(candidate => candidate !== path && isRoute(candidate))
    if (route) return route
  }
  return null
}
