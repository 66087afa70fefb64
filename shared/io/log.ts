import { type Logger, pino } from 'pino'

export type { Logger } from 'pino'

/** What the log has of an error and its causes: never the request or response objects some libraries hang onto them. */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return error
  const { name, message, stack, cause, code, reason } = error as Error & { code?: unknown; reason?: unknown }
  return {
    type: name,
    message,
    ...(typeof code === 'string' && { code }),
    ...(typeof reason === 'string' && { reason }),
    stack,
    ...(cause !== undefined && depth < 3 && { cause: describeError(cause, depth + 1) }),
  }
}

/** A JSON logger on standard output. Nothing that is a secret is ever passed to it: errors are reduced to their text. */
export function createLog(level: string, base: Record<string, unknown> = {}) {
  return pino(
    { level, base, timestamp: pino.stdTimeFunctions.isoTime, serializers: { err: error => describeError(error) } },
    pino.destination({ dest: 1, sync: false, minLength: 8_192 }),
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
