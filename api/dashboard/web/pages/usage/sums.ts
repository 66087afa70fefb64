import type { Sums } from '../../../wire/usage.ts'

/** Requests that did not succeed, without those whose client disconnected. */
export function errorsOf({ rate_limited: limited, refused, invalid, failed }: Sums): number {
  return limited + refused + invalid + failed
}
