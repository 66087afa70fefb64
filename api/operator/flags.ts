import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Platform } from '../../shared/platform.ts'

export const org = z.string().min(1)
/** Why an operator does something: shown in the audit log. */
export const reason = z.string().trim().min(1).max(500)
export const number = z
  .string()
  .regex(/^\d{1,15}(\.\d{1,9})?$/, 'must be a number')
  .transform(Number)

/** The organisation of this id. Throws 404. */
export async function findOrganisation({ db }: Platform, id: string) {
  const row = await db.organisation.findUnique({ where: { id } })
  if (!row) throw new GatewayError('not_found', `There is no organisation ${id}.`)
  return row
}
