import { createHmac } from 'node:crypto'
import { isEqual } from '../base/is-equal.ts'
import { findOwnKey } from '../keys/own-keys.ts'
import type { QueuedKind } from '../kinds/index.ts'
import type { Platform } from '../platform.ts'
import type { Protocol, ProviderConnection, QueuedAdapter } from '../providers/contract.ts'
import { isOwnKeyId } from '../providers/own-accounts.ts'
import type { RunningJob } from './jobs.ts'

/** When a job is looked at again whose provider is not configured now. */
export const unconfiguredDelayMs = 30_000

/** The adapter and authenticated client of the provider that runs a job. */
export type JobProvider = { adapter: QueuedAdapter<QueuedKind>; protocol: Protocol; connection: ProviderConnection }

/**
 * Connects to a job's provider; null when it is no longer configured. A job of an own provider key always has that key, in its
 * current form: `own_key_gone` when it was deleted.
 */
export async function jobProviderOf(services: Platform, job: RunningJob): Promise<JobProvider | 'own_key_gone' | null> {
  const { catalog, upstreams, db } = services
  const provider = catalog.providers.get(job.provider ?? '')
  if (!provider) return null
  const offers = catalog.models.get(job.model)?.providers ?? []
  const deployment = offers.find(one => one.provider === provider.name)
  if (isOwnKeyId(job.credentialId)) {
    const key = await findOwnKey(db, job.credentialId!)
    if (!key) return 'own_key_gone'
    const served = upstreams.queued(job.kind as QueuedKind, provider, job.environment)
    const own = upstreams.ownAccount(provider, key)
    return served && own && { ...served, connection: upstreams.connectionTo(provider, 'live', key.id, deployment, own) }
  }
  if (!upstreams.isConfigured(provider.name, job.environment)) return null
  const served = upstreams.queued(job.kind as QueuedKind, provider, job.environment)
  const connection = upstreams.connectionTo(provider, job.environment, job.credentialId, deployment)
  return served && { ...served, connection }
}

/** Whether a provider reports a job's completion by callback: it signs its requests and can reach this gateway. */
export function reportsBack({ config }: Platform, { environment, provider }: RunningJob, protocol: Protocol): boolean {
  const { verify, verifiesBySecret, callbackJobId } = protocol
  if (environment === 'test' || !config.reachable || !verify || callbackJobId) return false
  return !verifiesBySecret || Boolean(config.providers.get(provider ?? '')?.webhookSecret)
}

/** A job's own callback URL. It cannot be forged, and it only triggers a poll. */
export async function callbackUrl({ config, signingSecret }: Platform, jobId: string): Promise<string> {
  return `${config.publicUrl}/callbacks/${jobId}/${tokenOf(await signingSecret.get(), jobId)}`
}

/** Whether a callback's token is that of the job. */
export async function isCallbackToken({ signingSecret }: Platform, jobId: string, token: string): Promise<boolean> {
  const secrets = await signingSecret.all()
  return secrets.some(secret => isEqual(token, tokenOf(secret, jobId)))
}

function tokenOf(secret: string, jobId: string): string {
  return createHmac('sha256', secret).update(`callback:${jobId}`).digest('base64url')
}
