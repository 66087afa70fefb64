import { z } from 'zod'
import { GatewayError } from '../base/errors.ts'

/** Accepts any value, so that missing consent is reported separately from other faults of the body. */
export const sourceFaceConsent = z
  .unknown()
  .optional()
  .meta({ type: 'boolean', const: true, description: 'You state that the person shown agreed. Must be true.' })

/** Throws 400 `consent_required` unless the caller stated that the face's owner consented (docs/media.md). */
export function assertConsent(consent: unknown): void {
  if (consent === true) return
  throw new GatewayError(
    'consent_required',
    'Set `source_face_consent` to true to state that the person whose face this is agreed to its use.',
    { param: 'source_face_consent' },
  )
}
