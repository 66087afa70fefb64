import { loadConfig } from '../../../shared/base/config.ts'
import { newId } from '../../../shared/base/ids.ts'
import { type Clock, systemClock } from '../../../shared/base/time.ts'
import { createLog } from '../../../shared/io/log.ts'
import { openServices, type Services } from '../../../shared/open-services.ts'
import { getWebhookSecrets } from '../../../shared/webhooks/secrets.ts'
import { monotonicOf } from '../clocks/monotonic.ts'
import type { Stores } from '../gateway.ts'

export const deliveryEnv = { ALLOW_PRIVATE_URLS: 'true', LOG_LEVEL: 'silent', DATABASE_POOL: '5' }

/** A clock that only advances when it is moved. */
export class StoppedClock implements Clock {
  #nowMs = Date.now()
  now(): number {
    return this.#nowMs
  }
  pass(ms: number): void {
    this.#nowMs += ms
  }
}

export async function webhookServices(
  stores: Pick<Stores, 'databaseUrl' | 'redisUrl'>,
  clock: Clock = systemClock,
  env: Record<string, string> = {},
): Promise<Services> {
  const config = { DATABASE_URL: stores.databaseUrl, REDIS_URL: stores.redisUrl, ...deliveryEnv, ...env }
  return openServices(loadConfig(config), createLog('silent'), { clock, monotonic: monotonicOf(clock) })
}

export async function newOrganisation(services: Services): Promise<{ organisationId: string; secret: string }> {
  const { db, clock } = services
  const organisationId = newId('org')
  await db.organisation.create({ data: { id: organisationId, name: 'Hooked', wallet: { create: {} } } })
  return { organisationId, secret: (await getWebhookSecrets(services, organisationId, clock.now())).secret }
}

/** A finished job without files, as the engine leaves it. */
export async function newJob({ db, clock }: Services, organisationId: string, webhookUrl: string): Promise<string> {
  const id = newId('job')
  const now = new Date(clock.now())
  await db.job.create({
    data: {
      id,
      organisationId,
      keyId: 'key_test',
      requestId: newId('req'),
      environment: 'test',
      kind: 'video',
      status: 'completed',
      stage: 'over',
      model: 'a-model',
      provider: 'sandbox',
      input: {},
      progress: 100,
      result: { outputs: [] },
      month: '2026-11',
      webhookUrl,
      metadata: { order: '7' },
      createdAt: now,
      startedAt: now,
      completedAt: now,
      deadlineAt: now,
    },
  })
  return id
}

/** A finished job with its delivery written, but not queued. */
export async function newDelivery(
  services: Services,
  organisationId: string,
  url: string,
): Promise<{ id: string; jobId: string }> {
  const jobId = await newJob(services, organisationId, url)
  const event = { organisationId, jobId, type: 'job.completed', url, nowMs: services.clock.now() }
  return { id: await services.db.$transaction(tx => services.webhooks.insert(tx, event)), jobId }
}

/** Finished jobs with their deliveries, in few statements. */
export async function newDeliveries(
  services: Services,
  organisationId: string,
  url: string,
  count: number,
): Promise<string[]> {
  const { id: pattern, jobId } = await newDelivery(services, organisationId, url)
  const job = await services.db.job.findUniqueOrThrow({ where: { id: jobId } })
  const delivery = await services.db.webhookDelivery.findUniqueOrThrow({ where: { id: pattern } })
  const jobIds = Array.from({ length: count - 1 }, () => newId('job'))
  const { input, operation, result, error, metadata, ...columns } = job
  const json = { input: {}, result: { outputs: [] }, metadata: {} }
  await services.db.job.createMany({ data: jobIds.map(id => ({ ...columns, ...json, id })) })
  const { data, ...rest } = delivery
  const deliveries = jobIds.map(jobId => ({ ...rest, jobId, id: newId('evt') }))
  await services.db.webhookDelivery.createMany({ data: deliveries })
  return [pattern, ...deliveries.map(({ id }) => id)]
}
