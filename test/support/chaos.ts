import { execFile } from 'node:child_process'
import http from 'node:http'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadConfig } from '../../shared/base/config.ts'
import { createLog } from '../../shared/io/log.ts'
import { openServices, type Services } from '../../shared/open-services.ts'
import { checkLedger, openReservations } from '../../shared/wallet/check.ts'
import { countEvents } from '../../shared/wallet/ledger.ts'
import { Emulator, events } from '../emulators/emulator.ts'
import { call, eventually, type Stores } from './gateway.ts'
import { inherited, shortLived } from './stack.ts'
import { inputBoundNano, nanoPerOutputToken } from './wallet/money.ts'

/** One request as its client saw it. */
export type Shot = {
  requestId: string
  url: string
  /** 0 = no answer at all. */
  status: number
  code: string | null
  retryAfter: string | null
  /** True when the answer arrived to its end. */
  whole: boolean
  costNano: number
  endedMs: number
  /** How its connection failed; null = it did not. */
  failure: string | null
}

const prompt = 'What the client says is what the upstream answers. '.repeat(4)
export const shotBody = { model: 'coin', max_tokens: 100, messages: [{ role: 'user', content: prompt }] }
/** No shot can cost more than this, however it is cut off. */
export const maxPerShotNano = inputBoundNano({ ...shotBody, stream: true }) + 100 * nanoPerOutputToken

let shots = 0

/** Sends one chat request, streamed or not, and reads what comes; `agent` has the connections to send it over. Never throws. */
export async function shoot(url: string, key: string, stream: boolean, agent?: http.Agent): Promise<Shot> {
  const shot: Shot = {
    requestId: `shot-${process.pid}-${++shots}`,
    url,
    status: 0,
    code: null,
    retryAfter: null,
    whole: false,
    costNano: 0,
    endedMs: 0,
    failure: null,
  }
  try {
    const headers = { 'x-request-id': shot.requestId }
    const body = stream ? { ...shotBody, stream } : shotBody
    const signal = AbortSignal.timeout(60_000)
    const request = { key, body, headers, signal }
    const response = agent ? await callOver(agent, url, request) : await call(url, chatPath, request)
    shot.status = response.status
    shot.retryAfter = response.headers.get('retry-after')
    const text = await response.text()
    if (response.status !== 200) shot.code = JSON.parse(text).error.code
    else if (stream) readStream(shot, text)
    else readAnswer(shot, text)
  } catch (error) {
    // Cut off: the shot says how far it came.
    shot.failure = String(error)
  }
  shot.endedMs = Date.now()
  return shot
}

const chatPath = '/v1/chat/completions'

type ShotRequest = { key: string; body: object; headers: Record<string, string>; signal: AbortSignal }

/** Like `call`, over the connections of an agent: unlike fetch, it never sends a request a second time. */
async function callOver(agent: http.Agent, url: string, { key, body, headers, signal }: ShotRequest) {
  const own = { ...headers, authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const request = http.request(url + chatPath, { method: 'POST', agent, headers: own, signal }, resolve)
    const fail = (error: Error) => reject(new Error(`${error.message} (reused: ${request.reusedSocket})`))
    request.once('error', fail).end(JSON.stringify(body))
  })
  return {
    status: response.statusCode!,
    headers: new Headers(response.headers as Record<string, string>),
    text: () => textOf(response),
  }
}

function readAnswer(shot: Shot, text: string): void {
  const { usage } = JSON.parse(text) as { usage: { cost: number } }
  shot.whole = true
  shot.costNano = Math.round(usage.cost * 1e9)
}

function readStream(shot: Shot, text: string): void {
  const events = text.split('\n\n').filter(event => event.startsWith('data: {'))
  const finish = events.map(event => JSON.parse(event.slice(6))).find(({ usage }) => usage)
  shot.whole = finish !== undefined && text.endsWith('data: [DONE]\n\n')
  shot.code = events.map(event => JSON.parse(event.slice(6)).error?.code).find(Boolean) ?? null
  if (finish) shot.costNano = Math.round(finish.usage.cost * 1e9)
}

/** Clients that keep asking, each waiting for its answer before the next request, until `stop`. */
export class Load {
  readonly shots: Shot[] = []
  #stopped = false
  readonly #clients: Promise<void>[]

  constructor(targets: () => string[], key: string, clients: number, agent?: http.Agent) {
    this.#clients = Array.from({ length: clients }, (_, i) => this.#client(targets, key, i, agent))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#clients)
  }

  /** Waits until so many more answers have come whole. */
  async more(count: number): Promise<void> {
    const whole = () => this.shots.filter(shot => shot.whole).length
    const goal = whole() + count
    await eventually(() => whole() >= goal, `${count} more whole answers`)
  }

  async #client(targets: () => string[], key: string, index: number, agent?: http.Agent): Promise<void> {
    for (let round = index; !this.#stopped; round++) {
      const urls = targets()
      const shot = await shoot(urls[round % urls.length]!, key, round % 2 === 0, agent)
      this.shots.push(shot)
      if (!shot.whole) await sleep(20)
    }
  }
}

/** An OpenAI upstream that takes its time: `pieces` words at `intervalMs`, streamed or as one answer at the end. */
export function startSlowUpstream(pieces: number, intervalMs: number): Promise<Emulator> {
  const words = Array.from({ length: pieces }, (_, i) => `word${i} `)
  const usage = { prompt_tokens: 50, completion_tokens: pieces, total_tokens: 50 + pieces }
  const head = { id: 'chatcmpl-slow', created: 1_795_132_800, model: 'upstream-coin' }
  const choice = (delta: object, finish_reason: string | null = null) => [{ index: 0, delta, finish_reason }]
  const chunk = (choices: unknown[], more = {}) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`
  const chunks = [
    chunk(choice({ role: 'assistant', content: '' })),
    ...words.map(content => chunk(choice({ content }))),
    chunk(choice({}, 'stop')),
    chunk([], { usage }),
    'data: [DONE]\n\n',
  ]
  const message = { role: 'assistant', content: words.join(''), refusal: null }
  const choices = [{ index: 0, message, finish_reason: 'stop', logprobs: null }]
  const answer = JSON.stringify({ ...head, object: 'chat.completion', choices, usage })
  return Emulator.start(async (request, response) => {
    if (request.body.stream) return events(chunks, { intervalMs })(request, response)
    await sleep(pieces * intervalMs)
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer)
  })
}

/** The services over the stores, without any part in what goes on: to create accounts and to look. */
export async function observe(stores: Pick<Stores, 'databaseUrl' | 'redisUrl'>, env = {}): Promise<Services> {
  const urls = { DATABASE_URL: stores.databaseUrl, REDIS_URL: stores.redisUrl }
  return openServices(loadConfig({ ...env, ...urls, DATABASE_POOL: '3' }), createLog('silent'))
}

/** Runs `operator ledger check` as its own process. */
export async function ledgerCheck(
  stores: Pick<Stores, 'databaseUrl' | 'redisUrl'>,
  furtherEnv: Record<string, string> = {},
): Promise<{ exitCode: number; report: { ok: boolean; invariants: { name: string; breaches: string[] }[] } }> {
  const root = join(import.meta.dirname, '../..')
  const env = { ...inherited, DATABASE_URL: stores.databaseUrl, REDIS_URL: stores.redisUrl, ...furtherEnv }
  return new Promise((resolve, reject) => {
    const child = execFile(
      process.execPath,
      [...shortLived, 'api/operator.ts', 'ledger', 'check', '--json'],
      { cwd: root, env },
      (_error, stdout, stderr) => {
        if (child.exitCode === null || stdout === '') reject(new Error(`ledger check failed: ${stderr}`))
        else resolve({ exitCode: child.exitCode, report: JSON.parse(stdout) })
      },
    )
  })
}

/** Waits until nothing is in flight: no reservation open, no usage event waiting. */
export async function quiet({ redis }: Pick<Services, 'redis'>, withinMs = 60_000): Promise<void> {
  const still = async () => (await openReservations(redis)).length === 0 && (await countEvents(redis)).waiting === 0
  await eventually(() => still().catch(() => false), 'nothing is in flight', withinMs)
}

/** The violations of the money invariants; re-checks those that a running gateway may just be changing. */
export async function breaches({ db, redis }: Pick<Services, 'db' | 'redis'>): Promise<string[]> {
  for (let look = 1; ; look++) {
    const invariants = await checkLedger(db, redis)
    const found = invariants.flatMap(({ name, breaches }) => breaches.map(breach => `${name}: ${breach}`))
    if (found.length === 0 || look === 4) return found
    await sleep(500)
  }
}

export type Account = { organisationId: string; shots: readonly Shot[] }

/**
 * Compares what clients got with what was charged. Gives one line per fault: a whole answer not charged exactly once at
 * its price, a charge without such an answer beyond what a cut-off one may cost. `excused` whole answers may be unbilled.
 */
export async function billingFaults(
  { db }: Pick<Services, 'db'>,
  { organisationId, shots }: Account,
  excused: (shot: Shot) => boolean = () => false,
): Promise<string[]> {
  const entries = await db.ledgerEntry.findMany({ where: { organisationId, kind: 'charge' } })
  const generations = await db.generation.findMany({ where: { organisationId } })
  const requestOf = new Map(generations.map(({ id, requestId }) => [`generation:${id}`, requestId]))
  const charges = new Map<string, number[]>()
  for (const { cause, amountNano } of entries) {
    const request = requestOf.get(cause) ?? cause
    charges.set(request, [...(charges.get(request) ?? []), -Number(amountNano)])
  }
  const faults: string[] = []
  for (const shot of shots) {
    const charged = charges.get(shot.requestId) ?? []
    charges.delete(shot.requestId)
    const right = shot.whole
      ? (charged.length === 1 && charged[0] === shot.costNano) || (charged.length === 0 && excused(shot))
      : charged.length <= (shot.status === 0 || shot.status === 200 ? 1 : 0) && (charged[0] ?? 0) <= maxPerShotNano
    if (!right) faults.push(`${JSON.stringify(shot)} was charged ${JSON.stringify(charged)}`)
  }
  for (const [request, charged] of charges) faults.push(`${request}, which was never sent, was charged ${charged}`)
  return faults
}

export function count(shots: readonly Shot[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, whole } of shots) {
    const name = `${status}${status === 200 && !whole ? ' cut' : ''}`
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}
