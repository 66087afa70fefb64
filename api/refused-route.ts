import { GatewayError } from '../shared/base/errors.ts'

/** Why no route takes a request: 405 where its path takes other methods, 404 where it takes none. */
export function refusedRoute(
  { method, path }: { method: string; path: string },
  methods: readonly string[],
): GatewayError {
  if (methods.length === 0) return new GatewayError('not_found', `There is no ${method} ${path}.`)
  const allow = methods.join(', ')
  return new GatewayError('method_not_allowed', `${path} takes ${allow}, not ${method}.`, { headers: { allow } })
}
