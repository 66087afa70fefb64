import { type ErrorCode, GatewayError } from './errors.ts'

/** What the holder of a secret that does not work is told: what happened to its key, and who can undo that. */

const whoManages = 'Its creator, or an owner or admin of the organisation,'
const howToEnable = 'enable it again on the dashboard or with a provisioning key.'

function refusal(code: ErrorCode, reason: string, message: string): GatewayError {
  return new GatewayError(code, message, { metadata: { reason } })
}

export function keyRevoked(): GatewayError {
  return refusal('revoked_api_key', 'revoked', 'This API key was revoked for good. Create a new one.')
}

export function keyDisabled(): GatewayError {
  return refusal('revoked_api_key', 'disabled', `This API key is disabled. ${whoManages} can ${howToEnable}`)
}

/** The refusal of a key that the service disabled because of what its requests cost. */
export function keyBlocked(): GatewayError {
  const why = 'its requests cost more than was reserved for them'
  const message = `This API key is blocked: ${why}. ${whoManages} can look at them and ${howToEnable}`
  return refusal('revoked_api_key', 'blocked', message)
}

export function keyExpired(): GatewayError {
  const message = `This API key has expired. ${whoManages} can change its date, or create a new one.`
  return refusal('expired_api_key', 'expired', message)
}

/** The refusal of a secret that a roll replaced. */
export function secretReplaced(): GatewayError {
  return refusal('revoked_api_key', 'replaced', 'This API key was replaced by a newer secret. Use the new one.')
}

export function provisioningKeyRevoked(): GatewayError {
  const message = 'This provisioning key was revoked for good. An operator of this service can create a new one.'
  return refusal('revoked_api_key', 'revoked', message)
}
