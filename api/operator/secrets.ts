import { z } from 'zod'
import { resealNotifications } from '../../shared/alerts/operator-notifications.ts'
import { resealSlackUrls } from '../../shared/alerts/rules.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import { resealSigningSecret } from '../../shared/keys/signing-secret.ts'
import type { Platform } from '../../shared/platform.ts'
import { resealWebhookSecrets } from '../../shared/webhooks/secrets.ts'
import { readAccountsSecrets } from '../auth/open.ts'
import { type Command, command } from './parse.ts'

const perPage = 500

export const secrets: Command[] = [
  command({
    name: 'secrets encrypt',
    summary: 'Encrypts all stored secrets with the first key of ENCRYPTION_KEY.',
    help: '',
    flags: z.strictObject({}),
    async run(services) {
      if (!services.sealer.encrypts)
        throw new GatewayError(
          'invalid_request',
          'ENCRYPTION_KEY is not set, which is needed for encryption (see README).',
        )
      const { libraryKeys, reencryptTwoFactors } = await import('../auth/encryption.ts')
      // First, because its readers encrypt with it.
      const signing_secret = await encryptSigningSecret(services)
      const [accountsSecret] = await readAccountsSecrets(services)
      const key = libraryKeys(services.sealer, accountsSecret)
      const data = {
        webhook_secrets: await encryptWebhookSecrets(services),
        webhook_endpoints: await services.webhookEndpoints.reseal(),
        log_exports: await services.logExports.reseal(),
        slack_urls: await resealSlackUrls(services),
        operator_notifications: (await resealNotifications(services)) ? 1 : 0,
        signing_secret,
        authenticator_apps: await reencryptTwoFactors(services.db, key),
        stored_responses: await services.storedResponses.reseal(),
        conversation_items: await services.conversations.reseal(),
        request_contents: await services.contents.reseal(),
        server_keys: await services.catalogOverrides.reseal(),
        provider_keys: await services.providerKeys.reseal(),
      }
      const text = `encrypted with the current key: webhook secrets of ${data.webhook_secrets} organisations and ${data.webhook_endpoints} endpoints, credentials of ${data.log_exports} log exports, Slack URLs of ${data.slack_urls} alert rules, ${data.operator_notifications} settings of notifications to operators, ${data.signing_secret} signing secret, ${data.authenticator_apps} authenticator apps, ${data.stored_responses} stored responses, ${data.conversation_items} items and metadata of conversations, ${data.request_contents} logged requests, API keys of ${data.server_keys} servers, ${data.provider_keys} own provider keys`
      return { data: { data }, text }
    },
  }),
]

async function encryptWebhookSecrets(services: Platform): Promise<number> {
  let changed = 0
  for (let after = ''; ; ) {
    const rows = await services.db.organisation.findMany({
      where: { id: { gt: after }, webhookSecret: { not: null } },
      orderBy: { id: 'asc' },
      take: perPage,
    })
    for (const row of rows) if (await resealWebhookSecrets(services, row)) changed++
    if (rows.length < perPage) return changed
    after = rows.at(-1)!.id
  }
}

async function encryptSigningSecret({ db, sealer }: Platform): Promise<number> {
  if ((await db.setting.count({ where: { name: 'signing_secret' } })) === 0) return 0
  const { resealed } = await resealSigningSecret(db, sealer)
  return resealed ? 1 : 0
}
