/** What the database keeps of each hour (migration `usage_hours`): outcome classes and histograms of durations. */

export const outcomes = ['ok', 'cancelled', 'rate_limited', 'refused', 'invalid', 'failed'] as const
/** `refused`: 401, 402 or 403; `invalid`: any other 4xx; `failed`: 5xx; `cancelled`: the client disconnected. */
export type Outcome = (typeof outcomes)[number]

/** The upper bounds of the buckets; the last bucket has none. */
const boundsMs = [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400]
export const bucketCount = boundsMs.length + 1

/**
 * The duration that `share` (0–1) of the counted durations do not exceed, in milliseconds, interpolated within its bucket; null
 * if none was counted. Durations beyond the last bound count as twice that bound.
 */
export function percentileMs(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  const wanted = share * total
  let below = 0
  for (const [i, count] of counts.entries()) {
    if (count > 0 && below + count >= wanted) {
      const from = i === 0 ? 0 : boundsMs[i - 1]!
      const to = boundsMs[i] ?? 2 * from
      return Math.round(from + ((wanted - below) / count) * (to - from))
    }
    below += count
  }
  return 2 * boundsMs.at(-1)!
}
