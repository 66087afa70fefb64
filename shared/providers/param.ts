import { ProviderError } from './contract.ts'

/** The same failure, about another field of the request; null = about none that is known. */
export function withParam(error: ProviderError, param: string | null): ProviderError {
  const { reason, message, status, retryAfterMs, unsent, cause } = error
  return new ProviderError(reason, message, {
    ...(status !== null && { status }),
    ...(retryAfterMs !== null && { retryAfterMs }),
    ...(param !== null && { param }),
    unsent,
    cause,
  })
}
