/** What rules can measure, and in which terms. */

const minutes = ['5m', '15m', '1h', '24h'] as const
const periods = ['day', 'week', 'month'] as const
export const windows = [...minutes, ...periods] as const
export type Window = (typeof windows)[number]

/** Whether a window begins with a UTC day, week or month, and does not move with the time. */
export function isPeriod(window: string | null): boolean {
  return (periods as readonly (string | null)[]).includes(window)
}

type Kind = {
  /** Null = it is not measured over a time. */
  windows: readonly Window[] | null
  /** The unit of the threshold. */
  unit: 'usd' | 'percent' | 'ms' | 'days'
  /** The largest threshold. */
  max: number
  /** Which requests, keys or endpoints it can be limited to. */
  scope: readonly ('key' | 'model')[]
}

export const ruleKinds = {
  /** The cost of requests since the UTC day, week or month began reached an amount. */
  spend: { windows: periods, unit: 'usd', max: 10_000_000, scope: ['key', 'model'] },
  /** Requests that failed, in percent of all: what the Usage page counts as errors. */
  error_rate: { windows: minutes, unit: 'percent', max: 100, scope: ['key', 'model'] },
  latency_p95: { windows: minutes, unit: 'ms', max: 600_000, scope: ['key', 'model'] },
  ttft_p95: { windows: minutes, unit: 'ms', max: 600_000, scope: ['key', 'model'] },
  /** A key expires within so many days. */
  key_expiring: { windows: null, unit: 'days', max: 365, scope: ['key'] },
  /** A key was not used for so many days. */
  key_unused: { windows: null, unit: 'days', max: 365, scope: ['key'] },
  /** Fewer than so many percent of an endpoint's deliveries of the last 24 hours succeeded. */
  webhook_failing: { windows: null, unit: 'percent', max: 100, scope: [] },
} as const satisfies Record<string, Kind>
export type RuleKind = keyof typeof ruleKinds
export const ruleKindNames = Object.keys(ruleKinds) as [RuleKind, ...RuleKind[]]

/** The properties of a kind, in their general type. */
export function kindOf(kind: RuleKind): Kind {
  return ruleKinds[kind]
}
