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

/**
 * What a request is answered with; its failure names the field of ours that it is about. `fields`: ours by the provider's own;
 * `fieldOf` tells the provider's.
 */
export async function named<T>(
  fields: Readonly<Record<string, string>>,
  answer: Promise<T>,
  fieldOf: (error: ProviderError) => string | null = ({ param }) => param,
): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error
    const theirs = fieldOf(error) ?? ''
    throw withParam(error, Object.hasOwn(fields, theirs) ? fields[theirs]! : null)
  }
}
