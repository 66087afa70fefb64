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

/** Where lines go: each is a whole one, with its line feed. */
type Lines = { write(line: string): void; flush(done?: (error?: Error) => void): void }

const requestWriters = new WeakMap<Logger, (fields: Record<string, unknown>) => void>()

/**
 * A JSON logger on standard output; `lines` is for tests. Nothing that is a secret is ever passed to it: errors are reduced to
 * their text.
 */
export function createLog(
  level: string,
  base: Record<string, unknown> = {},
  lines: Lines = inLargeWrites(standardOutput()),
): Logger {
  const timestamp = () => `,"time":"${isoNow()}"`
  const log = pino({ level, base, timestamp, serializers: { err: error => describeError(error) } }, lines)
  requestWriters.set(log, requestWriter(log, base, lines))
  return log
}

/**
 * A writer of the one line that every request has: what `log.info(fields, 'request')` writes, for a third of its cost (and half a
 * surrogate pair escaped, where that would break it). A logger that `createLog` did not make writes the line itself.
 */
export function requestLines(log: Logger): (fields: Record<string, unknown>) => void {
  return requestWriters.get(log) ?? (fields => log.info(fields, 'request'))
}

function requestWriter(log: Logger, base: Record<string, unknown>, lines: Lines) {
  const level = `{"level":${log.levels.values.info},"time":"`
  const bound = `"${membersOf(base) ?? ''}`
  return (fields: Record<string, unknown>) => {
    if (!log.isLevelEnabled('info')) return
    const members = 'err' in fields ? null : membersOf(fields)
    if (members === null) log.info(fields, 'request')
    else lines.write(`${level}${isoNow()}${bound}${members},"msg":"request"}\n`)
  }
}

/** The members of an object as they follow others in its JSON; null where it has none, such as for a bigint or a circle. */
function membersOf(fields: Record<string, unknown>): string | null {
  try {
    const json = JSON.stringify(fields)
    return json.length > 2 ? `,${json.slice(1, -1)}` : ''
  } catch {
    return null
  }
}

let isoAtMs = -1
let iso = ''

/** The present moment; of the same millisecond the same text. */
function isoNow(): string {
  const nowMs = Date.now()
  if (nowMs !== isoAtMs) {
    isoAtMs = nowMs
    iso = new Date(nowMs).toISOString()
  }
  return iso
}

function standardOutput() {
  return pino.destination({ dest: 1, sync: false, minLength: 0, maxWrite: 1024 * 1024 })
}

const writeAtBytes = 64 * 1024
const maxBytesPerCharacter = 3

/**
 * Joins lines into few writes: each write wakes another thread, which costs more than making all its lines. They wait as bytes:
 * the collector would copy the many small strings they are made of again and again.
 */
function inLargeWrites(destination: ReturnType<typeof pino.destination>): Lines {
  const waiting = Buffer.allocUnsafeSlow(2 * writeAtBytes)
  let bytes = 0
  const write = () => {
    if (bytes === 0) return
    destination.write(waiting.toString('utf8', 0, bytes))
    bytes = 0
  }
  return {
    write(line) {
      const maxBytes = line.length * maxBytesPerCharacter
      if (bytes + maxBytes > waiting.length) write()
      if (maxBytes > waiting.length) return void destination.write(line)
      bytes += waiting.write(line, bytes)
      if (bytes >= writeAtBytes) write()
    },
    flush(done) {
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
