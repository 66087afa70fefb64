/** The classes of requests by which the database sums each hour (migration `usage_hours`). */

export const outcomes = ['ok', 'cancelled', 'rate_limited', 'refused', 'invalid', 'failed'] as const
/** `refused`: 401, 402 or 403; `invalid`: any other 4xx; `failed`: 5xx; `cancelled`: the client disconnected. */
export type Outcome = (typeof outcomes)[number]
