import type { Config } from '../shared/base/config.ts'
import { nearMisses } from '../shared/base/near-misses.ts'
import { isLocalUrl } from '../shared/base/production-safety.ts'
import { variables } from '../shared/base/variables.ts'
import type { Catalog } from '../shared/catalog/catalog.ts'

/** Warnings about a configuration that works but is incomplete or unsafe. One line each. */
export function startWarnings(config: Config, { providers }: Catalog): string[] {
  const { publicUrlIsSet, publicUrl, encryptionKeys, email } = config
  const misspelt = nearMisses(config.variables, Object.keys(variables.shape), [...providers.keys()])
  return [
    ...misspelt.map(([name, meant]) => `${name} has no effect here: did you mean ${meant}?`),
    // The outbox shows all emails to anyone; it is for development only.
    ...(publicUrlIsSet || email.outbox
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
    ...(isLocalUrl(publicUrl) ? [] : publicWarnings(config)),
  ]
}

/** Settings that are certainly not meant for a gateway that others reach, or do harm there. */
function publicWarnings({
  publicUrl,
  allowPrivateUrls,
  trustedProxies,
  stripe,
  storageUrl,
  variables,
}: Config): string[] {
  const { protocol } = new URL(publicUrl)
  return [
    ...(allowPrivateUrls
      ? ['ALLOW_PRIVATE_URLS is on: requests and webhooks of customers reach addresses of your own network']
      : []),
    ...(protocol === 'http:' ? ['PUBLIC_URL is not https: passwords, keys and prompts can be read on their way'] : []),
    // A process speaks HTTP alone, so something in front of it speaks HTTPS.
    ...(protocol === 'https:' && trustedProxies === 0
      ? ['TRUSTED_PROXIES is 0 behind the proxy of PUBLIC_URL: all clients count as one address, its own']
      : []),
    ...(stripe && /^[rs]k_test_/.test(stripe.secretKey)
      ? ['STRIPE_SECRET_KEY is of Stripe’s test mode: credits can be bought without money']
      : []),
    ...(storageUrl.startsWith('file:') && variables.includes('DYNO')
      ? ['STORAGE_URL is a folder: dynos share no disk, and lose theirs with each restart']
      : []),
  ]
}
