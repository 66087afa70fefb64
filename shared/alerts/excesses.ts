import { type Nano, usdFromNano } from '../base/money.ts'
import { dayMs } from '../base/time.ts'
import type { Actor } from '../keys/audit.ts'
import type { Services } from '../services.ts'
import { referenceOf } from '../wallet/causes.ts'
import { type NewAlert, raiseAlerts } from './raise.ts'

const actor: Actor = { kind: 'operator', id: null, name: 'cost control' }
const lookBackMs = 7 * dayMs
const maxPerRound = 50

type ExcessEntry = {
  cause: string
  organisationId: string
  keyId: string
  amountNano: Nano
  hash: string
  name: string
  prefix: string
  last4: string
  revokedAt: Date | null
}

/**
 * Disables the keys of requests whose cost exceeded their reservation, and alerts the organisation and the operator, once per
 * request. Returns how many requests were found. A key that is enabled again stays enabled until the next excess.
 */
export async function blockExceededKeys(services: Services): Promise<number> {
  const { db, keys, webhooks, clock, log } = services
  const since = new Date(clock.now() - lookBackMs)
  const entries = await db.$queryRaw<ExcessEntry[]>`
    SELECT l.cause, l.organisation_id AS "organisationId", k.id AS "keyId", -l.amount_nano AS "amountNano", k.hash, k.name,
      k.prefix, k.last4, k.revoked_at AS "revokedAt"
    FROM ledger_entries l JOIN api_keys k ON k.id = l.key_id
    WHERE l.cause LIKE 'excess:%' AND l.created_at > ${since}
      AND NOT EXISTS (SELECT 1 FROM alerts a WHERE a.cause = l.cause)
    ORDER BY l.created_at LIMIT ${maxPerRound}`
  for (const entry of entries) {
    const { cause, organisationId, keyId, amountNano, hash, revokedAt } = entry
    log.error(
      { organisation: organisationId, key: keyId, cause, excessNano: amountNano },
      'a request cost more than was reserved for it; its key is blocked',
    )
    if (!revokedAt) await keys.patch(null, hash, { disabled: true }, actor)
    const { deliveryIds } = await db.$transaction(tx => raiseAlerts(services, tx, [alertOf(entry)]))
    await webhooks.enqueue(deliveryIds)
  }
  return entries.length
}

function alertOf({ cause, organisationId, keyId, amountNano, hash, name, prefix, last4 }: ExcessEntry): NewAlert {
  return {
    organisationId,
    cause,
    keyId,
    type: 'key.blocked',
    data: {
      object: 'key.blocked',
      key: { hash, name, prefix, last4 },
      reference: referenceOf(cause).reference,
      excess_usd: usdFromNano(amountNano),
    },
  }
}
