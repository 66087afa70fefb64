import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Platform } from '../../shared/platform.ts'

export const org = z.string().min(1)
/** Why an operator does something: shown in the audit log. */
export const reason = z.string().trim().min(1).max(500)
/** A number as a flag: 0 or more, in plain digits. */
export const number = z
  .string()
  .regex(/^\d{1,15}(\.\d{1,9})?$/, 'must be 0 or more, in digits, with at most 9 after the point')
  .transform(Number)

/** The organisation of this id. Throws 404. */
export async function findOrganisation({ db }: Platform, id: string) {
  const row = await db.organisation.findUnique({ where: { id } })
  if (!row) throw new GatewayError('not_found', `There is no organisation ${id}.`)
  return row
}
