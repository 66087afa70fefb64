import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { createLog, requestLogger } from '../../shared/io/log.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

/** A log whose lines are kept, without their times. */
function keptLog(level: string, base: Record<string, unknown>) {
  const kept: string[] = []
  const write = (line: string) =>
    void kept.push(line.replace(/"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/, '"time":""'))
  return { log: createLog(level, base, { write, flush: () => {} }), kept }
}

const anyText = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'binary', minLength: 40, maxLength: 120 }),
  fc.constantFrom('"', '\\', '\n', '\u2028', '\u007f', 'ünïcödé', '/v1/chat/completions'),
)
const anyValue = fc.oneof(
  anyText,
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constantFrom(null, undefined, 10n, Symbol('s'), () => 1, Number.NaN, -0, 1e21, new Date(0)),
  fc.jsonValue(),
)
const anyFields = fc.oneof(
  fc.dictionary(fc.oneof(anyText, fc.constantFrom('err', 'msg', 'level', 'time', 'status', 'requestId')), anyValue),
  fc.record({ requestId: fc.string(), method: fc.string(), path: anyText, status: fc.nat(), durationMs: fc.nat() }),
)

test('the line of a request is what the logger writes of it, whatever its fields are', t => {
  const property = fc.property(anyFields, fc.tuple(anyText, fc.nat()), (fields, [process, pid]) => {
    const { log, kept } = keptLog('info', { process, pid })
    requestLogger(log)(fields)
    log.info(fields, 'request')
    t.deepEqual([kept.length, kept[0]], [2, kept[1]])
  })
  fc.assert(property, { numRuns: fuzzRuns(3_000) })
})

test('an error among the fields is reduced to its text, and a circle is written as the logger writes it', t => {
  const circle: Record<string, unknown> = {}
  circle.self = circle
  for (const fields of [{ err: new Error('broken') }, { circle }, {}]) {
    const { log, kept } = keptLog('info', {})
    requestLogger(log)(fields)
    log.info(fields, 'request')
    t.is(kept[0], kept[1])
    t.notThrows(() => JSON.parse(kept[0]!))
  }
})

test('no line of a request where the level is above info', t => {
  const { log, kept } = keptLog('warn', {})
  const write = requestLogger(log)
  write({ status: 200 })
  t.is(kept.length, 0)
  log.level = 'info'
  write({ status: 200 })
  t.is(kept.length, 1)
})

test('a logger with bindings of its own writes them with the line', t => {
  const { log, kept } = keptLog('info', { process: 'web' })
  requestLogger(log.child({ part: 'edge' }))({ status: 200 })
  t.like(JSON.parse(kept[0]!), { process: 'web', part: 'edge', status: 200, msg: 'request' })
})

test('lines of all sizes reach standard output whole and in their order, also when the process ends', async t => {
  const lengths = [10, 70_000, 3, 140_000, 1, 60_000, 5_000]
  const program = `
    import { createLog, flushLog, requestLogger } from ${JSON.stringify(new URL('../../shared/io/log.ts', import.meta.url).href)}
    const log = createLog('info')
    const write = requestLogger(log)
    for (const [i, length] of ${JSON.stringify(lengths)}.entries()) {
      write({ i, text: 'ü"x'.repeat(length) })
      log.info({ i, text: 'ü"x'.repeat(length) }, 'request')
    }
    log.flush()
    setTimeout(async () => {
      process.stderr.write('logged')
      await flushLog(log)
      process.exit(0)
    }, 100)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  await once(child.stderr, 'data')
  // Nothing is read for a while, so that a write is in progress when the process ends.
  await sleep(200)
  const lines = (await text(child.stdout)).trimEnd().split('\n')
  t.is(lines.length, 2 * lengths.length)
  for (const [n, line] of lines.entries()) {
    const { i, text: written } = JSON.parse(line)
    t.is(i, n >> 1)
    t.is(written, 'ü"x'.repeat(lengths[i]!))
  }
})
