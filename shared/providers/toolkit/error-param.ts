import { ProviderError } from '../provider-error.ts'

/** The same error for another request field; null = no known field. */
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
 * Awaits a response and maps the field of its error to ours. `fields`: our fields by the provider's; `fieldOf` extracts
 * the provider's field.
 */
export async function mapErrorParam<T>(
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
