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
    inLargeWrites(pino.destination({ dest: 1, sync: false, minLength: 0, maxWrite: 1024 * 1024 })),
  )
}

const writeAtCharacters = 64 * 1024

/** Joins lines into few writes: each write wakes another thread, which costs more than making all its lines. */
function inLargeWrites(destination: ReturnType<typeof pino.destination>) {
  let lines: string[] = []
  let characters = 0
  const write = () => {
    if (characters === 0) return
    destination.write(lines.join(''))
    lines = []
    characters = 0
  }
  return {
    write(line: string) {
      lines.push(line)
      characters += line.length
      if (characters >= writeAtCharacters) write()
    },
    flush(done?: (error?: Error) => void) {
      write()
      destination.flush(done)
    },
  }
}

/**
 * Whatever nobody caught is logged before the process ends with 1: its state cannot be trusted any more. Lines still
 * waiting are written however the process ends.
 */
export function dieLoudly(log: Logger): void {
  // Before the destination's own listener, which writes what it was given.
  process.prependListener('exit', () => log.flush())
  process.on('uncaughtException', error => {
    log.fatal({ err: error }, 'uncaught')
    log.flush()
    process.exit(1)
  })
}
