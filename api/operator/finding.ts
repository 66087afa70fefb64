/** One line of the doctor's report. A `warning` works but needs attention. */
export type Finding = { state: 'ok' | 'warning' | 'failed'; check: string; detail: string }
