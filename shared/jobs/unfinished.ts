import { GatewayError } from '../base/errors.ts'

/** The 429 error for new work while an organisation has too much unfinished work. */
export function tooManyUnfinished(what: string): GatewayError {
  const message = `Your organisation has ${what}. Wait until some of them are over, or cancel them.`
  return new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '60' } })
}
