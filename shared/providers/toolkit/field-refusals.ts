import { GatewayError } from '../../base/errors.ts'
import type { ChatRequest } from '../../kinds/chat.ts'

/** A 400 for a malformed field of a request; `param` is its path, which the message names. */
export function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `${param}: ${message}`, { param })
}

/** A 400 for a field, or a value of one, that this model or its API cannot take; `param` is its path, which the message names. */
export function unsupported(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', `${param}: ${message}`, { param })
}

/** For APIs that give one answer, in text. Throws 400 for a request of more. */
export function assertOneTextAnswer({ n, logprobs, modalities, functions }: ChatRequest): void {
  if ((n ?? 1) > 1) throw unsupported('n', 'this model gives one answer per request')
  if (logprobs) throw unsupported('logprobs', 'this model gives no log probabilities')
  if (modalities?.some(modality => modality !== 'text')) throw unsupported('modalities', 'this model answers in text')
  if (functions) throw unsupported('functions', 'use tools')
}
