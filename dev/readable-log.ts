import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { styleText } from 'node:util'

type Line = { level: number; time: string; msg: string; process?: string; err?: LoggedError } & Record<string, unknown>
type LoggedError = { type?: string; message?: string; stack?: string; cause?: LoggedError }

const levels: Record<number, ['DEBUG' | 'INFO' | 'WARN' | 'ERROR' | 'FATAL', Parameters<typeof styleText>[0]]> = {
  20: ['DEBUG', 'dim'],
  30: ['INFO', 'green'],
  40: ['WARN', 'yellow'],
  50: ['ERROR', 'red'],
  60: ['FATAL', 'red'],
}
const errorLevel = 50
/** Enough to find the place; the JSON log has all. */
const maxStackLines = 6
const maxCauses = 3
/** Fields that are the same in every line of a process. */
const repeated = new Set(['level', 'time', 'msg', 'process', 'pid', 'err'])

/** Copies a log of JSON lines as text that people read; what is no such line stays as it is. */
export function copyReadably(log: Readable, terminal: Writable): void {
  createInterface(log).on('line', line => terminal.write(`${readable(line)}\n`))
}

/** One line of a JSON log as text. */
export function readable(line: string): string {
  const parsed = parse(line)
  if (parsed === null) return line
  const [name, style] = levels[parsed.level] ?? ['INFO', 'green']
  const time = parsed.time.slice(11, 23)
  const fields = Object.entries(parsed).filter(
    ([field, value]) => !repeated.has(field) && value !== null && value !== '',
  )
  const text = fields.map(([field, value]) => `${field}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const head = [styleText('dim', time), styleText(style, name.padEnd(5)), parsed.process, parsed.msg]
  const first = [...head, text.length > 0 && styleText('dim', text.join(' '))].filter(Boolean).join(' ')
  const { err } = parsed
  // An error of the gateway's own is told by the line.
  const isTold = err?.message === parsed.msg && parsed.level < errorLevel
  return [first, ...errorLines(isTold ? err?.cause : err, parsed.level >= errorLevel)].join('\n')
}

function parse(line: string): Line | null {
  if (!line.startsWith('{')) return null
  try {
    const parsed = JSON.parse(line) as Line
    const { level, time, msg } = parsed
    return typeof level === 'number' && typeof time === 'string' && typeof msg === 'string' ? parsed : null
  } catch {
    return null
  }
}

/** An error with its causes; where it was thrown if it is one that somebody has to mend. */
function errorLines(error: LoggedError | undefined, hasStack: boolean, depth = 0): string[] {
  if (!error || depth > maxCauses) return []
  const stack = hasStack && depth === 0 ? (error.stack ?? '').split('\n').slice(1, 1 + maxStackLines) : []
  return [
    `    ${depth === 0 ? '' : 'caused by '}${error.type ?? 'Error'}: ${error.message ?? ''}`,
    ...stack.map(one => styleText('dim', one)),
    ...errorLines(error.cause, hasStack, depth + 1),
  ]
}
