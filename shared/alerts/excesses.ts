import { type Nano, usdFromNano } from '../base/money.ts'
import { dayMs } from '../base/time.ts'
import type { Actor } from '../keys/audit.ts'
import type { Services } from '../services.ts'
import { referenceOf } from '../wallet/causes.ts'
import { type NewAlert, tell } from './tell.ts'

const actor: Actor = { kind: 'operator', id: null, name: 'cost control' }
const lookBackMs = 7 * dayMs
const maxPerRound = 50

type Exceeded = {
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
 * Blocks the keys of requests that cost more than was reserved for them, and alerts their organisations and the operator, once
 * per request. Answers how many requests were found. A key that somebody enables again stays enabled until the next one.
 */
export async function blockExceeded(services: Services): Promise<number> {
  const { db, keys, webhooks, clock, log } = services
  const since = new Date(clock.now() - lookBackMs)
  const found = await db.$queryRaw<Exceeded[]>`
    SELECT l.cause, l.organisation_id AS "organisationId", k.id AS "keyId", -l.amount_nano AS "amountNano", k.hash, k.name,
      k.prefix, k.last4, k.revoked_at AS "revokedAt"
    FROM ledger_entries l JOIN api_keys k ON k.id = l.key_id
    WHERE l.cause LIKE 'excess:%' AND l.created_at > ${since}
      AND NOT EXISTS (SELECT 1 FROM alerts a WHERE a.cause = l.cause)
    ORDER BY l.created_at LIMIT ${maxPerRound}`
  for (const entry of found) {
    const { cause, organisationId, keyId, amountNano, hash, revokedAt } = entry
    log.error(
      { organisation: organisationId, key: keyId, cause, excessNano: amountNano },
      'a request cost more than was reserved for it; its key is blocked',
    )
    if (!revokedAt) await keys.patch(null, hash, { disabled: true }, actor)
    const { deliveryIds } = await db.$transaction(tx => tell(services, tx, [alertOf(entry)]))
    await webhooks.enqueue(deliveryIds)
  }
  return found.length
}

function alertOf({ cause, organisationId, keyId, amountNano, hash, name, prefix, last4 }: Exceeded): NewAlert {
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
