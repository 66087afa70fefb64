import { getHeapStatistics } from 'node:v8'
import { z } from 'zod'

const mib = 1024 * 1024
const mibOf = (min: number) =>
  z.coerce
    .number()
    .int()
    .min(min)
    .max(65_536)
    .transform(count => count * mib)

/**
 * The default for bodies, in MiB: a sixth of the heap, which Node sizes by the machine. An agent's long conversation takes 3 MB while
 * its answer is streamed, and one organisation may have half.
 */
function defaultBodyMib(): number {
  const heapMib = Math.floor(getHeapStatistics().heap_size_limit / mib)
  return Math.min(512, Math.max(20, Math.floor(heapMib / 6)))
}

/** Load limits of one process. */
export type LoadLimits = {
  /** Memory of the request bodies of running requests, as received and as parsed; one organisation may use half. */
  maxBodyBytes: number
  /** Bytes of buffered responses, being collected or not yet read by the client; one organisation may use half. */
  maxResponseBytes: number
  maxConnections: number
}

/**
 * The variables of the limits. A body may have 10 MiB and a response 64 MiB, and half of each budget must fit one of
 * them.
 */
export const loadLimitVariables = {
  MAX_BODY_MIB_IN_FLIGHT: mibOf(20).prefault(defaultBodyMib),
  MAX_ANSWER_MIB_IN_FLIGHT: mibOf(128).prefault(128),
  MAX_CONNECTIONS: z.coerce.number().int().min(10).max(1_000_000).default(10_000),
}

/** Reads the limits from the variables. */
export function loadLimits(v: z.output<z.ZodObject<typeof loadLimitVariables>>): LoadLimits {
  return {
    maxBodyBytes: v.MAX_BODY_MIB_IN_FLIGHT,
    maxResponseBytes: v.MAX_ANSWER_MIB_IN_FLIGHT,
    maxConnections: v.MAX_CONNECTIONS,
  }
}
