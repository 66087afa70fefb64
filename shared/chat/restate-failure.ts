import type { GatewayError } from '../base/errors.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { FailedAttempt } from '../engine/failures.ts'
import { inResponsesTerms } from '../engine/responses-error.ts'
import type { DirectKind } from '../kinds/index.ts'
import { restateOverflow } from './messages-overflow.ts'
import type { ChatRunInput } from './run-input.ts'

/** Says what is wrong with a Messages or Responses request in the terms of its format. */
export function restateFailure<K extends DirectKind>(
  failure: GatewayError,
  { kind, body, features }: ChatRunInput<K>,
  failed: readonly FailedAttempt[],
  catalog: Catalog,
): GatewayError {
  if (kind === 'responses') return inResponsesTerms(failure)
  return kind === 'messages' ? restateOverflow(failure, { body, features, failed, catalog }) : failure
}
