import { setTimeout as sleep } from 'node:timers/promises'
import { after, hang, type Reply, reset } from '../../emulators/emulator.ts'
import { contentPolicy, contextLength, failure, serverError } from '../../emulators/openai.ts'
import { eventually } from '../gateway.ts'
import type { ExecutionContext } from '../test.ts'
import { hidesSecrets, isWhole, spareOf } from './fault-cases.ts'
import { begins, begun, bytes, chunk, costNano, eventsOf, halfBody, jsonOf, whole } from './fault-replies.ts'
import { type Answer, ask, bookedOf, type FaultModel, type FaultWorld, figuresOf, paidNano } from './faults.ts'
import { dataOf } from './gateway.ts'

/** Time-outs of the table, scaled down from half a minute. A call of more than 1.5 s is not repeated at the same target. */
export const tableEnv = {
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '4000',
  UPSTREAM_FIRST_TOKEN_TIMEOUT_MS: '1500',
  UPSTREAM_IDLE_TIMEOUT_MS: '10000',
  UPSTREAM_TOTAL_TIMEOUT_MS: '10000',
  UPSTREAM_RETRY_BUDGET_MS: '30000',
}
/** Longer than a first token may take, shorter than silence may be. */
const slowMs = 3_000

/**
 * Who there is beside the primary: another model that takes longer prompts, named by the request or left to `auto`; another
 * provider of the same model; nobody.
 */
export const setups = ['models', 'two', 'one', 'auto'] as const
export type Setup = (typeof setups)[number]

/**
 * What a fault must come to, and the calls that the primary and the fallback see. A pass is a whole answer, or the error that is
 * the caller's to know; safe is an error that says so. Where streams and whole answers differ, streams come first.
 */
type Outcome = `${'pass' | 'safe'} ${number}p/${number}f`
type Cell = Outcome | readonly [stream: Outcome, plain: Outcome]
type TableFault = Record<Setup, Cell> & {
  title: string
  /** Whether the primary fails so for one call only. */
  once?: true
  stream: Reply
  plain?: Reply
  /** The cost of a whole answer of the primary, where it is not the usual one. */
  costNano?: number
  /** A fault of the request, which its caller has to know. */
  refusal?: true
}

const busy = (status: number, headers = {}) => failure(status, 'Busy.', 'server_error', null, headers)
const count = (completion_tokens: number) => ({
  prompt_tokens: 11,
  completion_tokens,
  total_tokens: 11 + completion_tokens,
})
const head = { id: 'chatcmpl-f', object: 'chat.completion.chunk', created: 7, model: 'm' }
const usageChunk = (tokens: number) => `data: ${JSON.stringify({ ...head, choices: [], usage: count(tokens) })}\n\n`
const malformed = 'data: {"id":"chatcmpl-f","choices":[{"index":0,"delta":{"content":" bro\n\n'
const rest = [chunk({ content: ' a' }), chunk({ content: ' story' }), chunk({}, 'stop')]
const withMalformed = (tokens: number) => begins([malformed, ...rest, usageChunk(tokens), 'data: [DONE]\n\n'])
const half = bytes(200, 'application/json', jsonOf('p1').slice(0, 90))
const stalls: Reply = async (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const piece of begun) response.write(piece)
  await sleep(slowMs)
  response.end()
}
/** Signs of life for a while, and only then an answer. */
const thinks: Reply = async (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (let waits = 0; waits < 10 && !response.destroyed; waits++) {
    response.write(': wait\n\n')
    await sleep(slowMs / 10)
  }
  response.end(eventsOf('p1'))
}

/** The faults of failoverbench, methodology v0.1; malformed chunks of both kinds. */
export const tableFaults: Record<string, TableFault> = {
  S01: {
    title: '429 with Retry-After once',
    once: true,
    stream: busy(429, { 'retry-after-ms': '100' }),
    models: 'pass 2p/0f',
    two: 'pass 1p/1f',
    one: 'pass 2p/0f',
    auto: 'pass 2p/0f',
  },
  S02: {
    title: '429 for ever',
    stream: busy(429),
    models: 'pass 1p/1f',
    two: 'pass 1p/1f',
    one: 'safe 3p/0f',
    auto: 'pass 1p/1f',
  },
  S03: {
    title: '500 once',
    once: true,
    stream: serverError,
    models: 'pass 2p/0f',
    two: 'pass 1p/1f',
    one: 'pass 2p/0f',
    auto: 'pass 2p/0f',
  },
  S04: {
    title: '503 for ever',
    stream: busy(503),
    models: 'pass 1p/1f',
    two: 'pass 1p/1f',
    one: 'safe 3p/0f',
    auto: 'pass 1p/1f',
  },
  S05: {
    title: 'connection reset once',
    once: true,
    stream: reset,
    models: 'pass 1p/1f',
    two: 'pass 1p/1f',
    one: 'pass 2p/0f',
    auto: 'pass 1p/1f',
  },
  S06: {
    title: 'no response',
    stream: hang,
    models: 'pass 1p/1f',
    two: 'pass 1p/1f',
    one: 'safe 1p/0f',
    auto: 'pass 1p/1f',
  },
  S07: {
    title: 'a late first token',
    stream: thinks,
    plain: after(slowMs, whole('p1')),
    models: 'pass 1p/1f',
    two: 'pass 1p/1f',
    one: 'pass 1p/0f',
    auto: 'pass 1p/1f',
  },
  S08: {
    title: 'cut in the middle',
    stream: begins([], 'cut'),
    plain: halfBody,
    models: ['safe 1p/0f', 'pass 1p/1f'],
    two: ['safe 1p/0f', 'pass 1p/1f'],
    one: ['safe 1p/0f', 'safe 3p/0f'],
    auto: ['safe 1p/0f', 'pass 1p/1f'],
  },
  S09: {
    title: 'a stall, then closed',
    stream: stalls,
    plain: after(slowMs, reset),
    models: ['safe 1p/0f', 'pass 1p/1f'],
    two: ['safe 1p/0f', 'pass 1p/1f'],
    one: 'safe 1p/0f',
    auto: ['safe 1p/0f', 'pass 1p/1f'],
  },
  S10: {
    title: 'a malformed chunk beside a whole answer',
    stream: withMalformed(3),
    plain: half,
    costNano: costNano('p1', 11, 3),
    models: ['pass 1p/0f', 'pass 1p/1f'],
    two: ['pass 1p/0f', 'pass 1p/1f'],
    one: ['pass 1p/0f', 'safe 1p/0f'],
    auto: ['pass 1p/0f', 'pass 1p/1f'],
  },
  S10b: {
    title: 'a malformed chunk instead of a piece',
    stream: withMalformed(4),
    plain: half,
    models: ['safe 1p/0f', 'pass 1p/1f'],
    two: ['safe 1p/0f', 'pass 1p/1f'],
    one: 'safe 1p/0f',
    auto: ['safe 1p/0f', 'pass 1p/1f'],
  },
  S11: {
    title: 'no [DONE]',
    stream: whole('p1', { done: false }),
    models: 'pass 1p/0f',
    two: 'pass 1p/0f',
    one: 'pass 1p/0f',
    auto: 'pass 1p/0f',
  },
  S12: {
    title: '400 for the context length',
    stream: contextLength,
    models: 'pass 1p/1f',
    two: 'safe 1p/0f',
    one: 'safe 1p/0f',
    auto: 'pass 1p/1f',
  },
  S13: {
    title: '400 for the content',
    stream: contentPolicy,
    refusal: true,
    models: 'pass 1p/0f',
    two: 'pass 1p/0f',
    one: 'pass 1p/0f',
    auto: 'pass 1p/0f',
  },
  S14: {
    title: 'closed in the middle',
    stream: begins([]),
    plain: half,
    models: ['safe 1p/0f', 'pass 1p/1f'],
    two: ['safe 1p/0f', 'pass 1p/1f'],
    one: 'safe 1p/0f',
    auto: ['safe 1p/0f', 'pass 1p/1f'],
  },
  S16: {
    title: '503, and what it costs',
    stream: busy(503),
    models: 'pass 1p/1f',
    two: 'pass 1p/1f',
    one: 'safe 3p/0f',
    auto: 'pass 1p/1f',
  },
}

/** One cell of the table. */
export type TableCell = { name: string; setup: Setup; stream: boolean }

const idOf = ({ name, setup, stream }: TableCell) => `${name}-${setup}-${stream ? 'stream' : 'plain'}`

/** The models of a cell: the primary is the better one, and the fallback takes longer prompts. */
export function tableModels(cell: TableCell): FaultModel[] {
  const id = idOf(cell)
  if (cell.setup === 'one') return [{ id, providers: ['p1'] }]
  if (cell.setup === 'two') return [{ id, providers: ['p1', 'p2'] }]
  return [
    { id, providers: ['p1'], quality: 95 },
    { id: spareOf(id), providers: ['p2'], quality: 40, contextLength: 200_000 },
  ]
}

/** What a cell must come to. */
export function expectedOutcome({ name, setup, stream }: TableCell): Outcome {
  const cell = tableFaults[name]![setup]
  return typeof cell === 'string' ? cell : cell[stream ? 0 : 1]
}

/** An account that may use the models of a cell, and its requests. */
export async function tableClient(world: FaultWorld, cell: TableCell) {
  const id = idOf(cell)
  const { setup, stream } = cell
  const isAuto = setup === 'auto'
  const account = await world.gateway.account(isAuto ? { model_allowlist: [id, spareOf(id)], mode: 'quality' } : {})
  const more = { stream, max_tokens: 8, ...(setup === 'models' && { models: [spareOf(id)] }) }
  const calls = () => {
    const fallback = setup === 'two' ? id : spareOf(id)
    return `${world.p1.calls(id).length}p/${world.p2.calls(fallback).length}f`
  }
  return { id, account, calls, ask: () => ask(world, account.live, isAuto ? 'auto' : id, more) }
}

/** Runs a cell and checks what holds for all: the money, the secrets, a healthy call after it. Gives its outcome and its time. */
export async function runCell(t: ExecutionContext, world: FaultWorld, cell: TableCell) {
  const { p1 } = world
  const fault = tableFaults[cell.name]!
  const client = await tableClient(world, cell)
  const reply = cell.stream ? fault.stream : (fault.plain ?? fault.stream)
  if (fault.once) p1.next(client.id, reply)
  else p1.always(client.id, reply)
  const startedMs = Date.now()
  const answer = await client.ask()
  const tookMs = Date.now() - startedMs
  const outcome = `${verdictOf(t, answer, cell, fault)} ${client.calls()}`
  hidesSecrets(t, answer)
  const { costNano: bookedNano } = await bookedOf(world, client.account, answer)
  t.is(await paidNano(world, client.account), Number(bookedNano))
  p1.always(client.id, null)
  const healthy = await client.ask()
  t.is(healthy.status, 200, healthy.text)
  return { outcome, tookMs }
}

/** What a client makes of an answer: whole, or an error that says so. Anything else fails the test. */
function verdictOf(t: ExecutionContext, answer: Answer, { stream }: TableCell, fault: TableFault): 'pass' | 'safe' {
  const data = answer.status === 200 && stream ? dataOf(answer.text) : [JSON.parse(answer.text)]
  const { error } = data.at(-1)
  if (!error) {
    const by = answer.headers.get('x-gateway-provider') === 'p1' ? 'p1' : 'p2'
    const nano = (by === 'p1' && fault.costNano) || costNano(by)
    isWhole(t, answer, stream, { by, finish: 'stop', estimated: false, costNano: nano })
    return 'pass'
  }
  t.true(answer.status === 200 ? data.length > 1 : answer.status >= 400)
  t.truthy(error.message)
  if (answer.status === 400) t.is(error.code, fault.refusal ? 'invalid_request' : 'context_length_exceeded')
  else t.regex(error.code, /^upstream_/)
  return fault.refusal ? 'pass' : 'safe'
}

/** Waits until the primary of a cell may be called again, and asks it. */
export async function isBack(world: FaultWorld, { id, ask: again }: Awaited<ReturnType<typeof tableClient>>) {
  for (let tries = 0; tries < 5; tries++) {
    await eventually(() => figuresOf(world, id, 'p1').cooldownMs === 0, `${id} need not rest any more`)
    const { headers } = await again()
    if (headers.get('x-gateway-provider') === 'p1') return true
  }
  return false
}
