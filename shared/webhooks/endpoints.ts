import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Clock } from '../base/time.ts'
import type { WebhookDelivery, WebhookEndpoint } from '../generated/prisma/client.ts'
import { type Actor, audit, changesBetween } from '../io/audit.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import { lockOrganisation } from '../io/organisation-locks.ts'
import { assertPublicUrl, type UrlPolicy } from '../io/safe-url.ts'
import type { Sealer } from '../io/sealer.ts'
import {
  listSigningSecrets,
  newestFirst,
  newSigningSecret,
  type SecretPair,
  type SigningSecrets,
  validSecrets,
  type WebhookSecrets,
} from './secrets.ts'

const maxEndpoints = 20

/** The configurable fields of an endpoint, in the API's format. */
type EndpointFields = { url: string; description: string; events: string[]; enabled: boolean }
type NewEndpoint = Pick<EndpointFields, 'url' | 'events'> &
  Partial<EndpointFields> & { signing_secret: 'own' | 'organisation' }
type EndpointPatch = { [Field in keyof EndpointFields]?: EndpointFields[Field] | undefined }
/** A new endpoint, and its secret if it has one of its own. */
export type CreatedEndpoint = { row: WebhookEndpoint; secret: string | null }

type Deps = { db: Database; sealer: Sealer; clock: Clock; urlPolicy: UrlPolicy }
type SignedDelivery = Pick<WebhookDelivery, 'organisationId' | 'endpointId' | 'requested'>

/** The webhook endpoints of organisations. Only this class and the sweep of failing endpoints write their table. */
export class WebhookEndpoints {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** All endpoints of an organisation, oldest first. */
  list(organisationId: string): Promise<WebhookEndpoint[]> {
    return this.#deps.db.webhookEndpoint.findMany({
      where: { organisationId },
      orderBy: [{ createdAt: 'asc' }, { id: 'asc' }],
      take: maxEndpoints,
    })
  }

  /** Throws 404, also for an endpoint of another organisation. */
  get(organisationId: string, id: string): Promise<WebhookEndpoint> {
    return find(this.#deps.db, organisationId, id)
  }

  /** Creates an endpoint; `beside` runs in the same transaction. Throws 400 for its URL, 403 beyond the limit. */
  async create(
    organisationId: string,
    { signing_secret: signing, ...fields }: NewEndpoint,
    actor: Actor,
    beside?: TransactionStep<CreatedEndpoint>,
  ): Promise<CreatedEndpoint> {
    const url = await this.#check(fields.url)
    const id = newId('whe')
    const now = new Date(this.#deps.clock.now())
    const secret = signing === 'own' ? newSigningSecret() : null
    const data = {
      id,
      organisationId,
      ...fields,
      url,
      events: unique(fields.events),
      enabledAt: now,
      createdAt: now,
      updatedAt: now,
      ...(secret !== null && { secret: this.#deps.sealer.seal(secret, placeOf(id)) }),
    }
    return this.#deps.db.$transaction(async tx => {
      await lockOrganisation(tx, organisationId)
      if ((await tx.webhookEndpoint.count({ where: { organisationId } })) >= maxEndpoints)
        throw new GatewayError('quota_exceeded', `An organisation can have at most ${maxEndpoints} webhook endpoints.`)
      await assertFree(tx, organisationId, url)
      const row = await tx.webhookEndpoint.create({ data })
      const changes = changesBetween({}, fieldsOf(row))
      const target = { id, name: url }
      await audit(tx, { organisationId, actor, action: 'webhook_endpoint.created', target, changes })
      await beside?.(tx, { row, secret })
      return { row, secret }
    })
  }

  /** Updates the given fields. Disabling an endpoint ends its pending deliveries. Throws 400, 404. */
  async update(organisationId: string, id: string, patch: EndpointPatch, actor: Actor): Promise<WebhookEndpoint> {
    const { url, description, events, enabled } = patch
    const newUrl = url === undefined ? undefined : await this.#check(url)
    const now = new Date(this.#deps.clock.now())
    return this.#deps.db.$transaction(async tx => {
      await lockOrganisation(tx, organisationId)
      const before = await find(tx, organisationId, id)
      if (newUrl !== undefined && newUrl !== before.url) await assertFree(tx, organisationId, newUrl)
      const row = await tx.webhookEndpoint.update({
        where: { id },
        data: {
          ...(newUrl !== undefined && { url: newUrl }),
          ...(description !== undefined && { description }),
          ...(events !== undefined && { events: unique(events) }),
          ...(enabled !== undefined && { enabled, disabledForFailures: false }),
          ...(enabled && !before.enabled && { enabledAt: now }),
          updatedAt: now,
        },
      })
      if (!row.enabled) await endDeliveries(tx, [id], now)
      const changes = changesBetween(fieldsOf(before), fieldsOf(row))
      const target = { id, name: row.url }
      if (Object.keys(changes).length > 0)
        await audit(tx, { organisationId, actor, action: 'webhook_endpoint.updated', target, changes })
      return row
    })
  }

  /** Deletes an endpoint and ends its pending deliveries; its log stays. Throws 404. */
  async delete(organisationId: string, id: string, actor: Actor): Promise<void> {
    await this.#deps.db.$transaction(async tx => {
      await lockOrganisation(tx, organisationId)
      const { url } = await find(tx, organisationId, id)
      // Locks the row: an event that is published meanwhile waits, and then does not find the endpoint.
      await tx.webhookEndpoint.update({ where: { id }, data: { enabled: false } })
      await endDeliveries(tx, [id], new Date(this.#deps.clock.now()))
      await tx.webhookEndpoint.delete({ where: { id } })
      await audit(tx, { organisationId, actor, action: 'webhook_endpoint.deleted', target: { id, name: url } })
    })
  }

  /** Gives an endpoint a new secret of its own; the previous one also signs for 24 hours. Throws 400, 404. */
  async rollSecret(
    organisationId: string,
    id: string,
    actor: Actor,
    beside?: TransactionStep<CreatedEndpoint>,
  ): Promise<CreatedEndpoint> {
    const secret = newSigningSecret()
    return this.#deps.db.$transaction(async tx => {
      await lockOrganisation(tx, organisationId)
      const before = await find(tx, organisationId, id)
      if (before.secret === null)
        throw new GatewayError(
          'invalid_request',
          'This endpoint is signed with the secret of the organisation. Rotate that one instead.',
        )
      const now = new Date(this.#deps.clock.now())
      const data = {
        secret: this.#deps.sealer.seal(secret, placeOf(id)),
        previousSecret: before.secret,
        secretRotatedAt: now,
        updatedAt: now,
      }
      const row = await tx.webhookEndpoint.update({ where: { id }, data })
      const target = { id, name: row.url }
      await audit(tx, { organisationId, actor, action: 'webhook_endpoint.secret_rolled', target })
      await beside?.(tx, { row, secret })
      return { row, secret }
    })
  }

  /** An endpoint's own secrets that are valid now; null if it is signed with the organisation's. */
  secretsOf(row: WebhookEndpoint): WebhookSecrets | null {
    const pair = pairOf(row)
    return pair && validSecrets(this.#deps.sealer, placeOf(row.id), pair, this.#deps.clock.now())
  }

  /**
   * The secrets that sign each delivery: those of its endpoint, and the organisation's if the endpoint has none or the URL was
   * also named by a job, a batch or the alert settings.
   */
  async listDeliverySecrets(deliveries: readonly SignedDelivery[]): Promise<SigningSecrets[]> {
    const { db, clock } = this.#deps
    const endpointIds = [...new Set(deliveries.flatMap(({ endpointId }) => endpointId ?? []))]
    const endpoints =
      endpointIds.length === 0 ? [] : await db.webhookEndpoint.findMany({ where: { id: { in: endpointIds } } })
    const rows = new Map(endpoints.map(row => [row.id, row]))
    const signed = deliveries.map(({ endpointId, requested, organisationId }) => {
      const row = rows.get(endpointId ?? '')
      const own = row && row.secret !== null ? row : null
      return { own, organisationId: own === null || requested ? organisationId : null }
    })
    const organisationIds = [...new Set(signed.flatMap(({ organisationId }) => organisationId ?? []))]
    const shared = await listSigningSecrets(this.#deps, organisationIds, clock.now())
    return signed.map(({ own, organisationId }) => () => [
      ...(own ? newestFirst(this.secretsOf(own)!) : []),
      ...(organisationId === null ? [] : shared.get(organisationId)!()),
    ])
  }

  /** Re-encrypts the secrets of all endpoints with the current key. Returns how many endpoints changed. */
  async reseal(): Promise<number> {
    let changed = 0
    for (let after = ''; ; ) {
      const where = { id: { gt: after }, secret: { not: null } }
      const rows = await this.#deps.db.webhookEndpoint.findMany({
        where,
        orderBy: { id: 'asc' },
        take: resealedPerPage,
      })
      for (const { id, secret, previousSecret } of rows) {
        const data = { secret: this.#reseal(secret, id), previousSecret: this.#reseal(previousSecret, id) }
        if (data.secret === secret && data.previousSecret === previousSecret) continue
        // Compare-and-set: a concurrent roll has already used the current key.
        const { count } = await this.#deps.db.webhookEndpoint.updateMany({
          where: { id, secret, previousSecret },
          data,
        })
        changed += count
      }
      if (rows.length < resealedPerPage) return changed
      after = rows.at(-1)!.id
    }
  }

  #reseal(text: string | null, id: string): string | null {
    if (text === null || this.#deps.sealer.isCurrent(text)) return text
    return this.#deps.sealer.seal(this.#deps.sealer.open(text, placeOf(id)), placeOf(id))
  }

  async #check(url: string): Promise<string> {
    return (await assertPublicUrl(url, { ...this.#deps.urlPolicy, param: 'url' })).url.href
  }
}

const resealedPerPage = 500
const placeOf = (id: string) => `webhook_endpoints.secret:${id}`
const unique = (events: string[]) => [...new Set(events)]

function pairOf({ secret, previousSecret, secretRotatedAt }: WebhookEndpoint): SecretPair | null {
  return secret === null ? null : { secret, previous: previousSecret, rotatedAt: secretRotatedAt }
}

function fieldsOf({ url, description, events, enabled }: WebhookEndpoint): EndpointFields {
  return { url, description, events, enabled }
}

async function find(tx: Connection, organisationId: string, id: string): Promise<WebhookEndpoint> {
  const row = await tx.webhookEndpoint.findFirst({ where: { id, organisationId } })
  if (!row) throw new GatewayError('not_found', `There is no webhook endpoint ${id}.`)
  return row
}

async function assertFree(tx: Connection, organisationId: string, url: string): Promise<void> {
  const taken = await tx.webhookEndpoint.findFirst({ where: { organisationId, url }, select: { id: true } })
  if (taken)
    throw new GatewayError('invalid_request', `The endpoint ${taken.id} has this URL already.`, { param: 'url' })
}

/** Ends the pending deliveries of endpoints, except those that a job, a batch or the alert settings asked for. */
export async function endDeliveries(tx: Connection, endpointIds: string[], now: Date): Promise<void> {
  await tx.webhookDelivery.updateMany({
    where: { endpointId: { in: endpointIds }, status: 'pending', requested: false },
    data: { status: 'failed', nextAttemptAt: now },
  })
}
