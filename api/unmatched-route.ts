import { GatewayError } from '../shared/base/errors.ts'

/** The error for an unmatched request: 405 if its path has other methods, otherwise 404. */
export function unmatchedRouteError(
  { method, path }: { method: string; path: string },
  methods: readonly string[],
): GatewayError {
  if (methods.length === 0) return new GatewayError('not_found', `There is no ${method} ${path}.`)
  const allow = methods.join(', ')
  return new GatewayError('method_not_allowed', `${path} takes ${allow}, not ${method}.`, { headers: { allow } })
}
