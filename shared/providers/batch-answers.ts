import type { Bytes } from '../io/bytes.ts'
import { linesOf } from '../io/lines.ts'
import { type BatchAnswer, ProviderError } from './contract.ts'
import { optionalText, parsed } from './fields.ts'

/** What became of one request, without its name. */
export type BatchOutcome = { json: unknown } | { error: ProviderError }

/** An answer may have pictures or sound in it. */
const mostLineBytes = 64 * 1024 * 1024

/**
 * The answers in a file of results, one JSON object a line, each named by its `custom_id`. A line that does not tell whose
 * answer it is says nothing of anybody's and is passed over.
 */
export async function* batchAnswers(
  body: Bytes,
  outcomeOf: (line: unknown) => BatchOutcome,
): AsyncGenerator<BatchAnswer> {
  for await (const lines of linesOf(body, mostLineBytes))
    for (const { bytes } of lines) {
      const line = bytes && parsed(bytes.toString())
      const id = optionalText(line, 'custom_id')
      if (id !== null) yield { id, ...outcomeOf(line) }
    }
}

/** Of a request that the provider had no time for, and did not run. */
export function batchExpired(): ProviderError {
  return new ProviderError('timeout', 'The provider did not come to the request within its time.', { unsent: true })
}

/** Of a request that the provider did not run because its batch was stopped. */
export function batchCancelled(): ProviderError {
  return new ProviderError('server_error', 'The provider stopped the batch before the request was run.', {
    unsent: true,
  })
}
