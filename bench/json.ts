// How long hostile JSON blocks a process: `node bench/json.ts [options] [words of a body's name]`, see README.md.
import { execFileSync } from 'node:child_process'
import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../shared/base/errors.ts'
import { parseJson } from '../shared/base/json.ts'
import { validate } from '../shared/base/validate.ts'
import { directKinds } from '../shared/kinds/index.ts'
import { chatFeatures, completionFeatures, embeddingFeatures } from '../shared/routing/features.ts'
import { type HostileBody, hostileBodies } from './lib/hostile-bodies.ts'
import { readOptions } from './lib/options.ts'
import { chatBody } from './lib/request.ts'
import { spread } from './lib/statistics.ts'

const { values: options, positionals } = readOptions({ rounds: 7, 'max-ms': 100, only: '' })
const warmRequests = 2_000
/** The parts in which a socket hands over a body. */
const partBytes = 64 * 1024

/** Milliseconds of this thread in each turn, and of time in the longest, which other processes add to. */
type Turns = { parse: number; validate: number; features: number }
type Measured = { turns: Turns; elapsedMs: number; outcome: string }

const featuresOf = {
  chat: (body: never, bytes: number) => chatFeatures(body, bytes).difficulty(),
  completion: completionFeatures,
  embedding: embeddingFeatures,
}

/** Takes a body as `api/app.ts` does, and measures each turn of the event loop. */
async function take(kind: HostileBody['kind'], raw: Buffer): Promise<Measured> {
  const turns = { parse: 0, validate: 0, features: 0 }
  let elapsedMs = 0
  const parts: Buffer[] = []
  for (let at = 0; at < raw.length; at += partBytes) parts.push(Buffer.from(raw.subarray(at, at + partBytes)))
  const timed = async <T>(turn: keyof Turns, work: () => T): Promise<T> => {
    await setImmediate()
    const startedMs = performance.now()
    const before = process.threadCpuUsage()
    try {
      return work()
    } finally {
      const { user, system } = process.threadCpuUsage(before)
      turns[turn] = (user + system) / 1_000
      elapsedMs = Math.max(elapsedMs, performance.now() - startedMs)
    }
  }
  try {
    const value = await timed('parse', () => parseJson(Buffer.concat(parts)))
    const body = await timed('validate', () => validate<unknown>(directKinds[kind], value))
    await timed('features', () => featuresOf[kind](body as never, raw.length))
    return { turns, elapsedMs, outcome: 'taken' }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { turns, elapsedMs, outcome: `${error.status} ${error.code}` }
  }
}

/** Measures one body in this process, which has seen ordinary requests before. */
async function measureHere(name: string): Promise<Measured[]> {
  const { kind, text } = hostileBodies[name]!
  const ordinary = Buffer.from(chatBody({ latencyMs: 0, chunks: 1, intervalMs: 0 }, false))
  for (let i = 0; i < warmRequests; i++) await take('chat', ordinary)
  const raw = Buffer.from(text())
  const rounds: Measured[] = []
  for (let round = 0; round < options.rounds; round++) rounds.push(await take(kind, raw))
  return rounds
}

/** The same in a process of its own: what one body leaves behind costs no other. */
function measure(name: string): Measured[] {
  const command = [...process.execArgv, import.meta.filename, '--rounds', String(options.rounds), '--only', name]
  return JSON.parse(execFileSync(process.execPath, command, { encoding: 'utf8' }))
}

const max = ({ parse, validate, features }: Turns) => Math.max(parse, validate, features)
const shown = (ms: number) => ms.toFixed(ms < 10 ? 1 : 0).padStart(7)

function report(): void {
  const over: string[] = []
  let longestBlockMs = 0
  console.log(`${['first', 'median', 'parse', 'valid.', 'feat.', 'time'].map(head => head.padStart(7)).join('')}  body`)
  for (const name of Object.keys(hostileBodies).filter(name => positionals.every(word => name.includes(word)))) {
    const rounds = measure(name)
    const first = max(rounds[0]!.turns)
    const usual = spread(rounds.map(({ turns }) => max(turns))).median
    const turns = (['parse', 'validate', 'features'] as const).map(
      turn => spread(rounds.map(round => round.turns[turn])).median,
    )
    const elapsedMs = spread(rounds.map(round => round.elapsedMs)).median
    console.log(`${[first, usual, ...turns, elapsedMs].map(shown).join('')}  ${name} (${rounds[0]!.outcome})`)
    longestBlockMs = Math.max(longestBlockMs, usual)
    if (Math.min(first, usual) > options['max-ms']) over.push(name)
  }
  console.log(JSON.stringify({ longestBlockMs }))
  if (over.length === 0) return
  console.error(`longer than ${options['max-ms']} ms: ${over.join('; ')}`)
  process.exitCode = 1
}

if (options.only) console.log(JSON.stringify(await measureHere(options.only)))
else report()
