import { once } from 'node:events'
import { WebSocket } from 'ws'
import { newId } from '../../../shared/base/ids.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import type { Services } from '../../../shared/open-services.ts'
import { openReservations } from '../../../shared/wallet/check.ts'
import { type ProviderSession, SessionEmulator } from '../../emulators/sessions.ts'
import { breaches } from '../chaos.ts'
import { monotonicAt } from '../clocks/monotonic.ts'
import { type Account, eventually, type Gateway, type Stores, startGateway, untilBooked } from '../gateway.ts'
import type { Test } from '../test.ts'
import { spendKinds, type TestClock, testClock } from '../wallet/money.ts'

/** Paid by the token, and by the minute. */
export const byToken = 'gpt-realtime-2.1'
export const byMinute = 'grok-voice'
/** What is reserved ahead for them, with the margin: 4,000 tokens of sound in and 2,000 out, or a minute. */
export const stretchNano = { [byToken]: 268_800_000, [byMinute]: 84_000_000 }
export const chargeEveryMs = 15_000

/** A gateway whose providers of sessions are emulated, with a clock that tests move. */
export type SessionWorld = {
  gateway: Gateway
  provider: SessionEmulator
  clock: TestClock
  /** Sets the wall clock of the machine forward or back, while no time passes. */
  setClock(byMs: number): void
  services: Services
  close(): Promise<void>
}

export async function startSessions(
  stores: Stores,
  env: Record<string, string> = {},
  at = '2027-03-10T12:00:10Z',
  serve: (session: ProviderSession) => void = () => {},
): Promise<SessionWorld> {
  const provider = await SessionEmulator.start(serve)
  const clock = testClock(at)
  let setByMs = 0
  const monotonic = { now: () => monotonicAt(clock.now() - setByMs) }
  const settings = { ...providerSettings(provider), DATABASE_POOL: '3', ...env }
  const gateway = await startGateway(stores, settings, clock, monotonic)
  return {
    gateway,
    provider,
    clock,
    setClock(byMs) {
      setByMs += byMs
      clock.advance(byMs)
    },
    services: gateway.services,
    async close() {
      await gateway.close()
      await provider.close()
    },
  }
}

/** Starts worlds of a file, over its stores unless it is given others, which are closed after its tests. */
export function useSessions(test: Test, stores: Stores) {
  const worlds: SessionWorld[] = []
  test.atEnd(() => Promise.all(worlds.map(it => it.close())))
  return async ({ env = {}, at, on = stores }: { env?: Record<string, string>; at?: string; on?: Stores } = {}) => {
    const world = await startSessions(on, env, at)
    worlds.push(world)
    return world
  }
}

export function providerSettings(provider: SessionEmulator): Record<string, string> {
  return {
    OPENAI_API_KEY: 'sk-provider',
    OPENAI_BASE_URL: `${provider.url}/v1`,
    XAI_API_KEY: 'xai-provider',
    XAI_BASE_URL: `${provider.url}/v1`,
  }
}

/** Tokens as `response.done` reports them. */
export type Tokens = {
  input?: number
  cached?: number
  audioIn?: number
  cachedAudio?: number
  output?: number
  audioOut?: number
}

/** What the tokens of `byToken` cost, in nano-dollars with the margin of 5 %: computed apart from the product. */
export function tokensNano(...uses: Tokens[]): number {
  let micro = 0n // USD per million tokens are micro-dollars per token; in millionths of them.
  const add = (tokens: number, usdPerMillion: number) => {
    micro += BigInt(tokens) * BigInt(usdPerMillion * 10)
  }
  for (const { input = 0, cached = 0, audioIn = 0, cachedAudio = 0, output = 0, audioOut = 0 } of uses) {
    add(cached, 0.4)
    add(audioIn - cachedAudio, 32)
    add(input - cached - (audioIn - cachedAudio), 4)
    add(audioOut, 64)
    add(output - audioOut, 24)
  }
  // Tenths of micro-dollars: 100 nano-dollars each, of which 5 % more are 105.
  return Number(micro * 105n)
}

/** One session as its client sees it. */
export class Listener {
  readonly socket: WebSocket
  // biome-ignore lint/suspicious/noExplicitAny: events of every shape
  readonly events: any[] = []
  closed: { code: number; reason: string } | null = null

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data: Buffer) => this.events.push(JSON.parse(data.toString())))
    socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() }
    })
    socket.on('error', () => {}) // The close says the rest.
  }

  /** Waits until it is closed, and how: the code, and the code of the last error event. */
  async end(): Promise<{ code: number; error: string | null }> {
    await eventually(() => this.closed !== null, 'the session is closed')
    return { code: this.closed!.code, error: this.error?.code ?? null }
  }

  /** The last error event's. */
  // biome-ignore lint/suspicious/noExplicitAny: errors of every shape
  get error(): any {
    return this.events.filter(({ type }) => type === 'error').at(-1)?.error
  }
}

/** One session as its client and its provider see it. */
export class Talk extends Listener {
  readonly provider: ProviderSession
  readonly id: string

  constructor(socket: WebSocket, provider: ProviderSession, id: string) {
    super(socket)
    this.provider = provider
    this.id = id
  }

  /** The provider begins a response; what it returns ends it with a usage. Resolve once the client has heard of it. */
  async begin(): Promise<(tokens: Tokens) => Promise<void>> {
    const id = newId('evt')
    await this.tell({ type: 'response.created', response: { id, status: 'in_progress' } })
    return tokens => this.tell({ type: 'response.done', response: { id, status: 'completed', usage: usageOf(tokens) } })
  }

  /** The provider reports the usage of a whole response. Resolves once the client has heard of it. */
  async use(tokens: Tokens): Promise<void> {
    const end = await this.begin()
    await end(tokens)
  }

  /** The provider says something. Resolves once the client has heard it, or the session is over. */
  async tell(event: object): Promise<void> {
    const eventId = newId('evt')
    this.provider.send({ ...event, event_id: eventId })
    const heard = () => this.events.some(({ event_id }) => event_id === eventId)
    await eventually(() => heard() || this.closed !== null, 'the client heard the provider')
  }

  /** The client leaves; resolves once the provider has heard. */
  async leave(): Promise<void> {
    this.socket.close(1000)
    await eventually(() => this.provider.closed !== null, 'the provider is left')
    await eventually(() => this.closed !== null, 'the client is closed')
  }
}

function usageOf({ input = 0, cached = 0, audioIn = 0, cachedAudio = 0, output = 0, audioOut = 0 }: Tokens) {
  return {
    total_tokens: input + output,
    input_tokens: input,
    output_tokens: output,
    input_token_details: {
      text_tokens: input - audioIn,
      audio_tokens: audioIn,
      cached_tokens: cached,
      cached_tokens_details: { text_tokens: cached - cachedAudio, audio_tokens: cachedAudio },
    },
    output_token_details: { text_tokens: output - audioOut, audio_tokens: audioOut },
  }
}

/** The refusal of an upgrade. */
export class Refused extends Error {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: errors of every shape
  readonly error: any
  constructor(status: number, error: unknown) {
    super(`refused with ${status}`)
    this.status = status
    this.error = error
  }
}

/** Requests a session and records its outcome. */
export function dial({ url }: { url: string }, key: string, model = byToken, mark = newId('req')): Listener {
  const address = `${url.replace('http', 'ws')}/v1/realtime?model=${model}`
  return new Listener(new WebSocket(address, { headers: { authorization: `Bearer ${key}`, 'x-request-id': mark } }))
}

/** Opens a session. Rejects with a Refused. */
export async function talk(
  { gateway, provider }: { gateway: { url: string }; provider: SessionEmulator },
  key: string,
  model = byToken,
): Promise<Talk> {
  const mark = newId('req')
  const { socket } = dial(gateway, key, model, mark)
  socket.on('unexpected-response', async (_request, response) => {
    let body = ''
    for await (const part of response.setEncoding('utf8')) body += part
    socket.emit('error', new Refused(response.statusCode ?? 0, JSON.parse(body).error))
  })
  const before = new Set(provider.sessions)
  const [upgrade] = await Promise.all([once(socket, 'upgrade'), once(socket, 'open')])
  // Sessions that open concurrently each have one: a frame identifies it.
  let own: ProviderSession | undefined
  socket.send(JSON.stringify({ type: 'mark', mark }))
  await eventually(() => {
    own = provider.sessions.find(session => !before.has(session) && session.events.some(event => event.mark === mark))
    return own !== undefined
  }, 'the provider has the session')
  return new Talk(socket, own!, String(upgrade[0].headers['x-generation-id']))
}

/** Waits until a session's parts so far are booked; the causes of its charges, with the amounts, oldest part first. */
export async function chargesOf(
  { db }: Pick<Services, 'db'>,
  { id }: Pick<Talk, 'id'>,
  count: number,
): Promise<Charge[]> {
  const where = { OR: [{ cause: `generation:${id}` }, { cause: { startsWith: `generation:${id}:` } }] }
  await eventually(async () => (await db.ledgerEntry.count({ where })) >= count, `${count} parts are booked`)
  const entries = await db.ledgerEntry.findMany({ where })
  return entries
    .map(({ cause, amountNano }) => ({ part: Number(cause.split(':')[2] ?? 0), cause, nano: 0 - Number(amountNano) }))
    .sort((a, b) => a.part - b.part)
}
export type Charge = { part: number; cause: string; nano: number }

/** What an organisation has reserved now, in nano-dollars. */
export async function reservedNano({ wallets }: Pick<Services, 'wallets'>, account: Account): Promise<number> {
  return Number((await wallets.view(account.organisationId)).reservedNano)
}

/** Waits until nothing is left of an organisation's sessions: no seat, no reservation. */
export async function nothingLeft(services: Services, { organisationId }: Account): Promise<void> {
  const { redis } = services
  await eventually(async () => (await redis.zcard(`realtime:${organisationId}`)) === 0, 'every seat is free')
  await eventually(async () => {
    const open = await openReservations(redis)
    return open.every(({ organisation }) => organisation !== organisationId)
  }, 'nothing is reserved')
}

/** The total charges of an organisation in nano-dollars, once nothing is in flight; throws when an invariant is broken. */
export async function spentNano(
  { services }: Pick<SessionWorld, 'gateway' | 'services'>,
  account: Account,
): Promise<number> {
  await nothingLeft(services, account)
  await services.admission.flush()
  await untilBooked(services)
  // Other sessions may still be running.
  const found = await breaches(services)
  if (found.length > 0) throw new Error(found.join('\n'))
  const { organisationId } = account
  const where = { organisationId, kind: { in: [...spendKinds] } }
  const { _sum } = await services.db.ledgerEntry.aggregate({ where, _sum: { amountNano: true } })
  const { reservedNano } = await services.wallets.view(organisationId)
  if (reservedNano !== 0n) throw new Error(`${reservedNano} nano-dollars are still reserved`)
  return 0 - Number(_sum.amountNano ?? 0n)
}

/** Changes a key as the provisioning API does. */
export function patchKey(
  { keys }: Pick<Services, 'keys'>,
  secret: string,
  patch: Parameters<Services['keys']['patch']>[2],
) {
  return keys.patch(null, hashSecret(secret), patch, operatorActor)
}
