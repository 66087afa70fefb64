import type { Config } from '../shared/base/config.ts'
import { nearMisses } from '../shared/base/near-misses.ts'
import { variables } from '../shared/base/variables.ts'
import type { Catalog } from '../shared/catalog/catalog.ts'

/** Warnings about a configuration that works but is incomplete. One line each. */
export function startWarnings(config: Config, { providers }: Catalog): string[] {
  const { publicUrlIsSet, publicUrl, encryptionKeys, email } = config
  const misspelt = nearMisses(config.variables, Object.keys(variables.shape), [...providers.keys()])
  return [
    ...misspelt.map(([name, meant]) => `${name} has no effect here: did you mean ${meant}?`),
    ...(publicUrlIsSet
      ? []
      : [
          `PUBLIC_URL is not set: the dashboard works at localhost and at IP addresses only, passkeys at ${publicUrl} only`,
        ]),
    ...(encryptionKeys.length > 0
      ? []
      : ['ENCRYPTION_KEY is not set: webhook and signing secrets are stored unencrypted in the database']),
    ...(email.smtpUrl !== null || email.outbox
      ? []
      : ['SMTP_URL is not set: emails are not sent, nor are their links logged']),
  ]
}
