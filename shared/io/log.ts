import { pino } from 'pino'

export type { Logger } from 'pino'

/** A JSON logger on standard output; headers that carry secrets are cut out wherever they stand. */
export function createLog(level: string, base: Record<string, unknown> = {}) {
  return pino(
    {
      level,
      base,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: { paths: ['*.authorization', '*["x-api-key"]', '*["x-goog-api-key"]', '*.secret'], censor: '[secret]' },
    },
    pino.destination({ dest: 1, sync: false, minLength: 4096 }),
  )
}
