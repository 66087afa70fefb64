import { dayMs } from '../../../shared/base/time.ts'
import type { LastError as ReportedError, ReportedHealth } from '../../../shared/providers/health-report.ts'
import type {
  Deployment,
  DeploymentState,
  LastError,
  Provider,
  ProviderKey,
  ProviderState,
} from '../wire/operator-home.ts'

/** Consecutive failures from which a deployment counts as down, as they open its circuit. */
const failuresToBeDown = 3

/** `offsetMs`: by how much the clock of the report is ahead. */
export function presentError(error: ReportedError, offsetMs: number): LastError {
  const { atMs, sinceMs, recoveredMs, failures, reason, status, message } = error
  const iso = (ms: number) => new Date(ms - offsetMs).toISOString()
  return {
    at: iso(atMs),
    failing_since: recoveredMs === null ? iso(sinceMs) : null,
    failures,
    reason,
    status,
    message,
  }
}

/** Whether nothing has succeeded since the last failure, and that was within a day. */
function isFailing({ lastError }: Pick<ReportedHealth, 'lastError'>, nowMs: number): boolean {
  return lastError !== null && lastError.recoveredMs === null && nowMs - lastError.atMs < dayMs
}

/**
 * The state of a deployment. One that failed until its traffic stopped does not become healthy by being forgotten: its state is
 * `recovering` until a call says otherwise.
 */
export function deploymentState(report: ReportedHealth, nowMs: number): DeploymentState {
  const { circuit, cooldownMs, lastError } = report
  if (circuit === 'open') return 'down'
  if (circuit === 'half_open') return 'recovering'
  if (isFailing(report, nowMs) && lastError!.failures >= failuresToBeDown) return 'recovering'
  return cooldownMs > 0 ? 'cooldown' : 'healthy'
}

/** Failures that an API key alone may cause. */
const keyFaults: ReadonlySet<string> = new Set(['auth', 'quota', 'rate_limited'])

/** The state of a provider's API key, from refusals of that key and from calls that only it served. */
export function keyOf(
  provider: string,
  { id: key, label }: { id: string; label: string },
  reports: readonly ReportedHealth[],
  nowMs: number,
): ProviderKey {
  const own = reports.filter(report => report.provider === provider && report.key === key)
  const calls = reports.filter(report => report.provider === provider && report.key === null)
  const errors = [...own, ...calls].flatMap(({ lastError }) =>
    lastError?.key === key && keyFaults.has(lastError.reason) ? lastError : [],
  )
  const last = errors.sort((a, b) => b.atMs - a.atMs)[0] ?? null
  const cooldownMs = Math.max(0, ...own.map(report => report.cooldownMs))
  const refusal = errors.find(({ reason, recoveredMs }) => (reason === 'auth' || reason === 'quota') && !recoveredMs)
  const isRefused = refusal !== undefined && nowMs - refusal.atMs < dayMs && !hasSucceeded(calls, refusal.atMs)
  return {
    id: key,
    label,
    state: isRefused ? 'refused' : cooldownMs > 0 ? 'rate_limited' : 'accepted',
    retry_in_ms: Math.round(cooldownMs),
    last_error: last && presentError(last, 0),
  }
}

function hasSucceeded(calls: readonly ReportedHealth[], sinceMs: number): boolean {
  return calls.some(({ lastError }) => (lastError?.recoveredMs ?? 0) > sinceMs)
}

/**
 * The state of a provider. It is down if it may not be called at all, and also if nothing succeeded at it within a day (`succeeded`
 * false) and what was called last failed, although a probe may be sent.
 */
export function providerState(
  { keys, deployments }: { keys: readonly ProviderKey[]; deployments: readonly Pick<Deployment, 'state'>[] },
  succeeded: boolean,
): ProviderState {
  if (keys.length > 0 && keys.every(({ state }) => state === 'refused')) return 'down'
  const count = (wanted: DeploymentState) => deployments.filter(({ state }) => state === wanted).length
  const [down, recovering, healthy] = [count('down'), count('recovering'), count('healthy')]
  if (down + recovering > 0 && healthy === 0 && (down === deployments.length || !succeeded)) return 'down'
  if (down > 0) return 'degraded'
  if (recovering > 0) return 'recovering'
  return count('cooldown') > 0 || keys.some(({ state }) => state !== 'accepted') ? 'degraded' : 'healthy'
}

const order: ProviderState[] = ['down', 'degraded', 'recovering', 'paused', 'healthy', 'not_configured']

/** Worst first, then by traffic and name. */
export function compareProviders(a: Provider, b: Provider): number {
  const byState = order.indexOf(a.state) - order.indexOf(b.state)
  return byState || (b.day?.requests ?? 0) - (a.day?.requests ?? 0) || a.name.localeCompare(b.name)
}
