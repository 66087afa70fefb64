import { GatewayError } from '../shared/base/errors.ts'

/** Finds the methods of a path: none if no route has it. */
type MethodsOf = (path: string) => readonly string[]

/**
 * The error for an unmatched request: 405 if its path has other methods, otherwise 404, which names the route that a
 * client with a wrong base URL meant.
 */
export function unmatchedRouteError(
  { method, path }: { method: string; path: string },
  methodsOf: MethodsOf = () => [],
): GatewayError {
  const methods = methodsOf(path)
  if (methods.length === 0) {
    const meant = withOneVersion(path)
    const hint = methodsOf(meant).includes(method) ? ` Did you mean ${meant}? Check the base URL of the client.` : ''
    return new GatewayError('not_found', `There is no ${method} ${path}.${hint}`)
  }
  const allow = methods.join(', ')
  return new GatewayError('method_not_allowed', `${path} takes ${allow}, not ${method}.`, { headers: { allow } })
}

/** The path with exactly one `/v1`: base URLs lack it, repeat it, or end in `/api/v1` as OpenRouter's does. */
function withOneVersion(path: string): string {
  return `/v1${path.replace(/^(\/api)?(\/v1)*(?=\/)/, '')}`
}
