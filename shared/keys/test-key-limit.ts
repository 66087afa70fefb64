import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import type { ApiKey } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { lockOrganisation } from '../io/organisation-locks.ts'

/** The fields of an update that decide whether a key is active. */
export type KeyChange = Partial<Pick<ApiKey, 'disabled' | 'expiresAt'>>

/** How many active test keys an organisation may have: those that are not revoked, disabled or expired. */
export class TestKeyLimit {
  readonly #max: number | null
  readonly #clock: Clock

  /** `max` null = any number. */
  constructor(max: number | null, clock: Clock) {
    this.#max = max
    this.#clock = clock
  }

  /** Asserts that there may be one more. The organisation's row is locked until the transaction ends. Throws 403. */
  async assertRoom(tx: Connection, organisationId: string): Promise<void> {
    const max = this.#max
    if (max === null) return
    await lockOrganisation(tx, organisationId)
    const unexpired = [{ expiresAt: null }, { expiresAt: { gt: new Date(this.#clock.now()) } }]
    const where = { organisationId, environment: 'test', revokedAt: null, disabled: false, OR: unexpired } as const
    if ((await tx.apiKey.count({ where })) < max) return
    throw new GatewayError(
      'quota_exceeded',
      `An organisation can have at most ${max} active test keys. Revoke or disable one that is no longer in use.`,
    )
  }

  /** Whether an update makes a disabled or expired test key active again. */
  isReactivated(before: ApiKey, { disabled = before.disabled, expiresAt = before.expiresAt }: KeyChange): boolean {
    return before.environment === 'test' && !this.#isActive(before) && this.#isActive({ disabled, expiresAt })
  }

  #isActive({ disabled, expiresAt }: Required<KeyChange>): boolean {
    return !disabled && (expiresAt === null || expiresAt.getTime() > this.#clock.now())
  }
}
