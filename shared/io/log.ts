import { type Logger, pino } from 'pino'
import { redactMessage } from '../base/redact.ts'
import { systemClock } from '../base/time.ts'

export type { Logger } from 'pino'

/**
 * Serializes an error and its causes for the log, without the request and response objects that some libraries attach.
 */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return error
  const { name, message, stack, cause, code, reason } = error as Error & { code?: unknown; reason?: unknown }
  return {
    type: name,
    message: redactMessage(message),
    ...(typeof code === 'string' && { code }),
    ...(typeof reason === 'string' && { reason }),
    stack: stack === undefined ? stack : redactMessage(stack),
    ...(cause !== undefined && depth < 3 && { cause: describeError(cause, depth + 1) }),
  }
}

/** The log destination: each write is a whole line with its line feed. */
type Lines = { write(line: string): void; flush(done?: () => void): void }

const requestWriters = new WeakMap<Logger, (fields: Record<string, unknown>) => void>()

/**
 * Creates a JSON logger on standard output; `lines` is for tests. No secret is ever passed to it: errors are reduced to
 * their text, without secrets that they quote.
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
 * Returns a writer of the per-request line: the same as `log.info(fields, 'request')` at a third of the cost (lone
 * surrogates are escaped, which would otherwise break the line). For a logger not made by `createLog` it calls
 * `log.info`.
 */
export function requestLogger(log: Logger): (fields: Record<string, unknown>) => void {
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

/**
 * Serializes the members of an object to append them to others; null if that fails, such as for a bigint or a cycle.
 */
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

/** The current time as ISO text, cached per millisecond. */
function isoNow(): string {
  const nowMs = systemClock.now()
  if (nowMs !== isoAtMs) {
    isoAtMs = nowMs
    iso = new Date(nowMs).toISOString()
  }
  return iso
}

function standardOutput() {
  return pino.destination({ dest: 1, sync: false, minLength: 0, maxWrite: 1024 * 1024, contentMode: 'buffer' })
}

const writeAtBytes = 64 * 1024
const maxBytesPerCharacter = 3

/**
 * Batches lines into few writes: each write wakes another thread, which costs more than formatting all its lines. Lines
 * are buffered as bytes: as strings, the collector would copy their many small parts again and again.
 */
function inLargeWrites(destination: ReturnType<typeof pino.destination>): Lines {
  const waiting = Buffer.allocUnsafeSlow(2 * writeAtBytes)
  let bytes = 0
  let isWriting = false
  /** Called once everything is written. A set, as the caller without a callback passes the same function each time. */
  const whenWritten = new Set<() => void>()
  destination.on('drain', () => {
    isWriting = false
    const callbacks = [...whenWritten]
    whenWritten.clear()
    for (const done of callbacks) done()
  })
  const writeBytes = (part: Buffer) => {
    isWriting = true
    // The destination accepts bytes, although its type does not.
    destination.write(part as unknown as string)
  }
  const write = () => {
    if (bytes === 0) return
    writeBytes(Buffer.from(waiting.subarray(0, bytes)))
    bytes = 0
  }
  return {
    write(line) {
      const maxBytes = line.length * maxBytesPerCharacter
      if (bytes + maxBytes > waiting.length) write()
      if (maxBytes > waiting.length) return writeBytes(Buffer.from(line))
      bytes += waiting.write(line, bytes)
      if (bytes >= writeAtBytes) write()
    },
    // The destination's own `flush` calls back before a write that is in progress has ended.
    flush(done) {
      write()
      if (!done) return
      if (isWriting) whenWritten.add(done)
      else done()
    },
  }
}

/** A reader of the log that takes longer does not keep a process from its end. */
const maxFlushMs = 1_000

/** Writes the buffered lines and waits until they are written, for at most a second: an exit would cut a line in progress. */
export async function flushLog(log: Logger): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timeout = setTimeout(resolve, maxFlushMs)
  log.flush(() => resolve())
  await promise
  clearTimeout(timeout)
}

/**
 * Logs uncaught exceptions and exits with 1: the state of the process cannot be trusted any more. Buffered lines are
 * written however the process ends.
 */
export function exitOnUncaught(log: Logger): void {
  // Runs before the destination's own listener, which writes what is buffered there.
  process.prependListener('exit', () => log.flush())
  process.on('uncaughtException', error => {
    log.fatal({ err: error }, 'uncaught')
    log.flush()
    process.exit(1)
  })
}
