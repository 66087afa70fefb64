import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Nano } from '../base/money.ts'
import type { Clock } from '../base/time.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Admission, Reservation } from './admission.ts'
import { debitRefused } from './refusals.ts'
import { bookEntry, type Wallets } from './wallets.ts'

/**
 * Operators have to correct balances: goodwill after an outage, a charge that was wrong, money that was credited to
 * the wrong organisation. Credits by `credit add` are payments or grants; they can neither be negative nor say why.
 *
 * An adjustment is a ledger entry of the kind `adjustment`, positive for a credit and negative for a debit, with a
 * mandatory reason. The organisation sees the amount and the reason in its ledger and audit log; entries are never
 * changed, a wrong adjustment is corrected by another one.
 *
 * - Repetitions. The caller chooses the adjustment's id, which is part of the entry's unique cause. The same
 *   adjustment again changes nothing and is answered with the current balance; another adjustment with the same id is
 *   a 409.
 * - Debits may not take the available balance below zero: 402. The amount is reserved as a request's maximum cost is,
 *   then booked, then the reservation is released. So requests that run concurrently and several debits cannot use
 *   the same money. A process that dies in between leaves a reservation that the sweeper releases.
 * - Below zero on purpose. With `allow_negative` nothing is reserved: the balance may become negative, and requests
 *   get 402 until it is positive again. `ledger check` counts negative adjustments among the reasons a balance may be
 *   below zero.
 *
 * A debit needs Redis, unless it is allowed to go below zero.
 */

/** A correction of a balance by an operator. `id` is the caller's: a repetition of the same adjustment books nothing. */
export type Adjustment = {
  id: string
  organisationId: string
  /** Positive for a credit, negative for a debit. */
  amountNano: Nano
  reason: string
  /** Whether a debit may take the available balance below zero. */
  allowNegative: boolean
}

const maxReleaseMs = 2_000

type WalletServices = { db: Database; wallets: Wallets; admission: Admission; clock: Clock }

/**
 * Books an adjustment. `alongside` runs in the same transaction. Returns false if this adjustment was booked before. Throws
 * 402 for a debit that the available balance does not cover, 409 if another adjustment has the id, 503.
 */
export async function adjustBalance(
  services: WalletServices,
  adjustment: Adjustment,
  alongside: (tx: Connection) => Promise<void>,
): Promise<boolean> {
  if (await wasBooked(services.db, adjustment)) return false
  const { organisationId, amountNano, allowNegative } = adjustment
  // Reserved first, as a request would: no request can be admitted on the same money meanwhile.
  const reservation = amountNano < 0n && !allowNegative ? await reserveDebit(services, adjustment) : null
  try {
    const isBooked = await services.db.$transaction(async tx => {
      const booked = await bookEntry(tx, entryOf(adjustment, services.clock))
      if (booked) await alongside(tx)
      return booked
    })
    // Committed: if Redis is unavailable, the reconciler copies it later.
    await services.wallets.install(organisationId).catch(() => {})
    // A concurrent repetition may have been faster; another adjustment with the id is a 409.
    if (!isBooked) await wasBooked(services.db, adjustment)
    return isBooked
  } finally {
    if (reservation) await release(services, reservation)
  }
}

/** The caller reads the wallet next: waits until the reservation is released, but not for a Redis that is away. */
async function release({ admission }: WalletServices, reservation: Reservation): Promise<void> {
  admission.release(reservation)
  await Promise.race([admission.flush(), sleep(maxReleaseMs, undefined, { ref: false })])
}

const causeOf = ({ id }: Adjustment) => `adjustment:${id}`

function entryOf(adjustment: Adjustment, clock: Clock) {
  const { organisationId, amountNano, reason } = adjustment
  const createdAt = new Date(clock.now())
  return {
    organisationId,
    kind: 'adjustment',
    amountNano,
    cause: causeOf(adjustment),
    note: reason,
    createdAt,
  } as const
}

/** Whether this adjustment is in the ledger. Throws 409 if another one has its id. */
async function wasBooked(db: Database, adjustment: Adjustment): Promise<boolean> {
  const row = await db.ledgerEntry.findUnique({ where: { cause: causeOf(adjustment) } })
  if (!row) return false
  const { organisationId, amountNano, reason } = adjustment
  if (row.organisationId === organisationId && row.amountNano === amountNano && row.note === reason) return true
  throw new GatewayError('idempotency_key_reused', 'Another adjustment has this id.', { param: 'id' })
}

/** Reserves the amount of a debit. Throws 402, 503. */
async function reserveDebit(
  { admission }: WalletServices,
  { organisationId, amountNano }: Adjustment,
): Promise<Reservation> {
  // It belongs to no key: the organisation's id takes its place, and a cap or a rate limit does not apply.
  const billing = {
    hash: organisationId,
    version: 0,
    keyId: organisationId,
    rateKey: organisationId,
    organisationId,
    expiresAtMs: null,
    rpmLimit: null,
    tpmLimit: null,
    capNano: null,
    spendsMoney: true,
  }
  try {
    // Under an unconfirmed version, so that it is never stale.
    const reservation = await admission.extend(billing, 'unconfirmed', newId('adj'), Number(-amountNano))
    return reservation as Reservation
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'insufficient_credits') throw error
    throw debitRefused(error, -amountNano)
  }
}
