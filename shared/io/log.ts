import { type Logger, pino } from 'pino'

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

/** Whatever nobody caught is logged before the process ends with 1: its state cannot be trusted any more. */
export function dieLoudly(log: Logger): void {
  process.on('uncaughtException', error => {
    log.fatal({ err: error }, 'uncaught')
    log.flush()
    process.exit(1)
  })
}
