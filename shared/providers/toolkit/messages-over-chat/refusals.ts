import type { GatewayError } from '../../../base/errors.ts'
import { unsupported } from '../field-refusals.ts'

/**
 * What a target cannot take, in the words that Anthropic's clients look for in the message of a 400: they repeat the
 * request without it.
 */
type RejectedCapability = 'image_block' | 'document_block'

/** A 400 for what this target cannot take although others can. */
export function rejected(capability: RejectedCapability, param: string, message: string): GatewayError {
  return unsupported(param, `${message} (capability_rejected: ${capability})`)
}

/** Anthropic's 400 for an unknown `type`, upon which its clients omit the tool or block. */
export function unexpectedTag(param: string, type: string): GatewayError {
  const tag = type.slice(0, 100)
  return unsupported(param, `Input tag '${tag}' found using 'type' does not match any of the expected tags`)
}
