import type { Config } from './config.ts'

const leewayMs = 5 * 60_000

/**
 * Longer than the slowest request can take, in milliseconds: its last call starts at the end of the retry budget and uses the
 * whole timeout.
 */
export function requestDeadlineMs({ upstream, retry }: Config): number {
  return retry.budgetMs + upstream.totalTimeoutMs + leewayMs
}

const startLeewayMs = 15_000

/**
 * Longer than the single start request of a job can take, in milliseconds, including reading its files and saving the response.
 */
export function startLeaseMs({ upstream }: Config): number {
  return upstream.connectTimeoutMs + upstream.firstByteTimeoutMs + upstream.idleTimeoutMs + startLeewayMs
}
