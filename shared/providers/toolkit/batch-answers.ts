import { isObject } from '../../base/is-object.ts'
import type { Bytes } from '../../io/bytes.ts'
import { splitLines } from '../../io/lines.ts'
import type { BatchAnswer } from '../contract.ts'
import { ProviderError } from '../provider-error.ts'
import { invalidResponse, parseJsonOrNull, readOptionalText } from './json-fields.ts'

/** The result of one batch request, without its id. */
export type BatchOutcome = { json: unknown } | { error: ProviderError }

/** A response may contain images or audio. */
const maxLineBytes = 64 * 1024 * 1024

/**
 * The results in a result file, one JSON object per line, identified by `custom_id`. Lines without an id are skipped; an answer that is
 * no object is an `invalid_response`.
 */
export async function* batchAnswers(
  body: Bytes,
  outcomeOf: (line: unknown) => BatchOutcome,
): AsyncGenerator<BatchAnswer> {
  for await (const lines of splitLines(body, maxLineBytes))
    for (const { bytes } of lines) {
      const line = bytes && parseJsonOrNull(bytes.toString())
      const id = readOptionalText(line, 'custom_id')
      if (id !== null) yield { id, ...readable(outcomeOf(line)) }
    }
}

function readable(outcome: BatchOutcome): BatchOutcome {
  const isReadable = 'error' in outcome || isObject(outcome.json)
  return isReadable ? outcome : { error: invalidResponse('a result has no answer') }
}

/** For a request that the provider did not run before the batch expired. */
export function batchExpired(): ProviderError {
  return new ProviderError('timeout', 'The provider did not come to the request within its time.', { unsent: true })
}

/** For a request that the provider did not run because its batch was cancelled. */
export function batchCancelled(): ProviderError {
  return new ProviderError('server_error', 'The provider stopped the batch before the request was run.', {
    unsent: true,
  })
}
