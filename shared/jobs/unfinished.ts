import { GatewayError } from '../base/errors.ts'

/** The refusal of new work while an organisation has so much that is not over. */
export function tooManyUnfinished(what: string): GatewayError {
  const message = `Your organisation has ${what}. Wait until some of them are over, or cancel them.`
  return new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '60' } })
}
