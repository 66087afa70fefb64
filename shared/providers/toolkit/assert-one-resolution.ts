import { listOf, unsupported } from '../../kinds/media.ts'
import type { Target } from '../contract.ts'

/**
 * For a provider that takes no resolution: asserts that the model's row offers at most one. Throws a GatewayError 400
 * `unsupported_capability`.
 */
export function assertOneResolution({ model, provider }: Target): void {
  if (listOf(model, 'resolutions').length > 1)
    throw unsupported(model, 'resolution', `at ${provider.name} has one resolution, which cannot be chosen`)
}
