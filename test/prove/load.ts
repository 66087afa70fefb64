import { setTimeout as sleep } from 'node:timers/promises'
import { call } from '../support/gateway.ts'
import { basicKinds, basicSlowKinds, type DirectKind, directWorks, type SlowKind, slowWorks } from './works.ts'

/** A direct request as its client saw it. */
export type Direct = {
  kind: DirectKind
  /** The name of the account that asked. */
  account: string
  /** The web process that was asked. */
  url: string
  requestId: string
  generationId: string | null
  status: number
  /** `whole`: a complete answer. */
  outcome: 'whole' | 'refused' | 'error event' | 'cut' | 'cancelled' | 'no answer'
  code: string | null
  /** Why it was refused, as the client was told. */
  message: string | null
  /** What a whole answer says that it costs; null = it does not say. */
  costNano: number | null
  sentMs: number
  /** When the status came; 0 = never. */
  respondedMs: number
  endedMs: number
}

/** A submission of slow work, sent again with its idempotency key until it had an answer. */
export type Submission = { kind: SlowKind; mark: string; id: string | null; answers: string[]; tookMs: number }

/** The keys that a load uses: `agentKey` for coding agents, the others for all else. */
export type LoadKeys = { key: string; agentKey: string }

type LoadOptions = {
  /** How many times as long clients wait between requests as usual. */
  pace?: number
  answerWithinMs?: number
  kinds?: readonly DirectKind[]
  slowKinds?: readonly SlowKind[]
}

/** Agents cancel this share of their turns while the answer is being streamed. */
const cancelledShare = 0.15
const thinkMs = 150
const requestTimeoutMs = 60_000
const submitAgainMs = 1_000
/** The pause doubles so often, as in clients of real programs. */
const maxDoublings = 3
/** A submission without an answer is given up after this. */
const submitWithinMs = 120_000

/** Mixed load on several web processes; remembers what every client was told. */
export class Load {
  readonly directs: Direct[] = []
  readonly submissions: Submission[] = []
  readonly #urls: string[]
  readonly #keys: LoadKeys
  readonly #hookUrl: string
  readonly #random: () => number
  readonly #pace: number
  readonly #answerWithinMs: number
  readonly #running: Promise<void>[]
  #isStopped = false
  #marks = 0

  constructor(
    urls: string[],
    keys: LoadKeys,
    hookUrl: string,
    random: () => number,
    { pace = 1, answerWithinMs = requestTimeoutMs, kinds = basicKinds, slowKinds = basicSlowKinds }: LoadOptions = {},
  ) {
    this.#urls = urls
    this.#keys = keys
    this.#hookUrl = hookUrl
    this.#random = random
    this.#pace = pace
    this.#answerWithinMs = answerWithinMs
    this.#running = slowKinds.map(kind => this.#submitter(kind))
    for (const kind of kinds)
      for (let i = 0; i < directWorks[kind].clients; i++) this.#running.push(this.#client(kind, this.#keyOf(kind)))
  }

  /** Adds clients of a further key, which ask for these kinds in turn as fast as they are answered. */
  addClients(account: string, key: string, clients: number, kinds: readonly DirectKind[] = ['chat', 'stream']): void {
    for (let i = 0; i < clients; i++) this.#running.push(this.#client(kinds[i % kinds.length]!, { account, key }))
  }

  /** Stops sending and waits for the answers to what was sent. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#running)
  }

  #keyOf(kind: DirectKind): { account: string; key: string } {
    const isAgent = kind === 'messages' || kind === 'messages over chat'
    return isAgent ? { account: 'agents', key: this.#keys.agentKey } : { account: 'account', key: this.#keys.key }
  }

  async #client(kind: DirectKind, of: { account: string; key: string }): Promise<void> {
    while (!this.#isStopped) {
      this.directs.push(await this.#ask(kind, of))
      await sleep(thinkMs * this.#pace * (0.5 + this.#random()))
    }
  }

  async #submitter(kind: SlowKind): Promise<void> {
    const open: Promise<void>[] = []
    while (!this.#isStopped) {
      open.push(this.#submit(kind))
      await sleep(slowWorks[kind].everyMs * this.#pace)
    }
    await Promise.all(open)
  }

  async #ask(kind: DirectKind, { account, key }: { account: string; key: string }): Promise<Direct> {
    const mark = this.#mark(kind)
    const direct: Direct = {
      kind,
      account,
      url: this.#url(),
      requestId: `client-${mark}`,
      generationId: null,
      status: 0,
      outcome: 'no answer',
      code: null,
      message: null,
      costNano: null,
      sentMs: Date.now(),
      respondedMs: 0,
      endedMs: 0,
    }
    const { path, body } = directWorks[kind].request(mark, this.#marks)
    try {
      const signal = AbortSignal.timeout(this.#answerWithinMs)
      const headers = { 'x-request-id': direct.requestId }
      const response = await call(direct.url, path, { key, body, headers, signal })
      direct.status = response.status
      direct.respondedMs = Date.now()
      direct.generationId = response.headers.get('x-generation-id')
      direct.outcome = 'cut'
      if (account === 'agents' && this.#random() < cancelledShare) return await cancelled(direct, response)
      const text = await response.text()
      if (response.status === 200) Object.assign(direct, directWorks[kind].read(text, response.headers))
      else Object.assign(direct, { outcome: 'refused', ...refusalOf(JSON.parse(text)) })
    } catch {
      // Cut off: `outcome` tells how far it came.
    }
    direct.endedMs = Date.now()
    return direct
  }

  async #submit(kind: SlowKind): Promise<void> {
    const mark = this.#mark(kind)
    const submission: Submission = { kind, mark, id: null, answers: [], tookMs: 0 }
    this.submissions.push(submission)
    const { path, body } = slowWorks[kind].request(mark)
    const submitted = { ...body, webhook_url: this.#hookUrl, metadata: { mark } }
    const startedMs = Date.now()
    while (submission.id === null && Date.now() - startedMs < submitWithinMs) {
      const again = submission.answers.length
      if (again > 0) await sleep(submitAgainMs * 2 ** Math.min(again - 1, maxDoublings))
      try {
        const signal = AbortSignal.timeout(this.#answerWithinMs)
        const headers = { 'idempotency-key': mark }
        const response = await call(this.#url(), path, { key: this.#keys.key, body: submitted, headers, signal })
        const { id, error } = (await response.json()) as { id: string; error?: { code: string; message: string } }
        submission.answers.push(error ? `${response.status} ${error.code}: ${error.message}` : `${response.status}`)
        if (response.ok) submission.id = id
      } catch {
        submission.answers.push('no answer')
      }
    }
    submission.tookMs = Date.now() - startedMs
  }

  #mark(kind: string): string {
    return `${kind.replaceAll(' ', '-')}-${++this.#marks}`
  }

  #url(): string {
    return this.#urls[Math.floor(this.#random() * this.#urls.length)]!
  }
}

/** The code of a refusal, in the shape of any dialect. */
type ErrorBody = { error: { code?: unknown; status?: string; type?: string; message?: string } }

function refusalOf({ error }: ErrorBody): Pick<Direct, 'code' | 'message'> {
  const { code, status, type, message = null } = error
  return { code: typeof code === 'string' ? code : (status ?? type ?? null), message }
}

/** Leaves once the first bytes have come. */
async function cancelled(direct: Direct, response: Response): Promise<Direct> {
  const reader = response.body!.getReader()
  await reader.read()
  await reader.cancel()
  return { ...direct, outcome: 'cancelled', endedMs: Date.now() }
}
