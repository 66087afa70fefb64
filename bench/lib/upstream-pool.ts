import { Pool } from 'undici'

const timeoutMs = 600_000

/** The connections of a subject to the emulated upstream. */
export function openUpstreamPool(upstream: string): Pool {
  return new Pool(upstream, {
    connections: 8_192,
    pipelining: 1,
    keepAliveTimeout: 60_000,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
  })
}
