import { awsIdentity } from './aws.ts'
import { entraIdentity } from './entra.ts'
import { googleIdentity } from './google.ts'
import type { Identity, IdentityOptions } from './identity.ts'

/** How the identity of each cloud is opened, by the name in `identity` of a provider's row. */
const openers: Record<NonNullable<IdentityOptions['provider']['identity']>, (options: IdentityOptions) => Identity> = {
  entra: entraIdentity,
  google: googleIdentity,
  aws: awsIdentity,
}

/** Opens the gateway's identity at a provider whose row names one. */
export function openIdentity(options: IdentityOptions): Identity {
  return openers[options.provider.identity!](options)
}
