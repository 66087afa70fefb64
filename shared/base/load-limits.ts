import { z } from 'zod'

const mib = 1024 * 1024
const mibOf = (least: number) =>
  z.coerce
    .number()
    .int()
    .min(least)
    .max(65_536)
    .transform(count => count * mib)

/** What one process takes on at a time. */
export type LoadLimits = {
  /** Bytes of request bodies held by requests under way; half of them for one organisation. */
  maxBodyBytes: number
  /** Bytes of whole answers under way, collected or not read yet by their client; half of them for one organisation. */
  maxAnswerBytes: number
  maxConnections: number
}

/** The variables of the limits. A body may have 10 MiB and an answer 64 MiB, and half of each budget must have room for one. */
export const loadVariables = {
  MAX_BODY_MIB_IN_FLIGHT: mibOf(20).prefault(96),
  MAX_ANSWER_MIB_IN_FLIGHT: mibOf(128).prefault(128),
  MAX_CONNECTIONS: z.coerce.number().int().min(10).max(1_000_000).default(10_000),
}

/** The limits that the variables set. */
export function loadLimits(v: z.output<z.ZodObject<typeof loadVariables>>): LoadLimits {
  return {
    maxBodyBytes: v.MAX_BODY_MIB_IN_FLIGHT,
    maxAnswerBytes: v.MAX_ANSWER_MIB_IN_FLIGHT,
    maxConnections: v.MAX_CONNECTIONS,
  }
}
