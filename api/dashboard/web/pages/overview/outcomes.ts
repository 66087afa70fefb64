import type { OutcomeCounts } from '../../../wire/usage.ts'

/** The outcomes of requests as charts show them. `status`: the filter of the request log that finds them. */
export const outcomes: { name: keyof OutcomeCounts; label: string; color: string; status: string }[] = [
  { name: 'ok', label: 'Ok', color: 'teal.5', status: 'ok' },
  { name: 'cancelled', label: 'Client disconnected', color: 'gray.5', status: '499' },
  { name: 'invalid', label: 'Invalid', color: 'yellow.4', status: 'invalid' },
  { name: 'refused', label: 'Not allowed', color: 'orange.4', status: 'refused' },
  { name: 'rate_limited', label: 'Rate limited', color: 'violet.5', status: '429' },
  { name: 'failed', label: 'Failed', color: 'red.6', status: 'failed' },
]
