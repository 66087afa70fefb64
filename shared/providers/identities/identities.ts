import type { ProviderRow } from '../../catalog/schema.ts'
import { awsIdentity } from './aws.ts'
import { entraIdentity } from './entra.ts'
import { googleIdentity } from './google.ts'
import type { OpenIdentity } from './identity.ts'

/** How the identity of each cloud is opened, by the name in `identity` of a provider's row. */
export const identities: Record<NonNullable<ProviderRow['identity']>, OpenIdentity> = {
  entra: entraIdentity,
  google: googleIdentity,
  aws: awsIdentity,
}
