import type { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { FailedAttempt } from '../engine/failures.ts'
import { inResponsesTerms } from '../engine/responses-error.ts'
import type { DirectKind } from '../kinds/index.ts'
import { restateOverflow } from './restate-overflow.ts'
import type { ChatRunInput } from './run-input.ts'

/** Says what is wrong with a request in the terms of its format. */
export function restateFailure<K extends DirectKind>(
  failure: GatewayError,
  { kind, body, features }: ChatRunInput<K>,
  failed: readonly FailedAttempt[],
  catalog: Catalog,
): GatewayError {
  const restated = restateOverflow(failure, { kind, body, features, failed, catalog })
  return kind === 'responses' ? inResponsesTerms(restated) : restated
}
