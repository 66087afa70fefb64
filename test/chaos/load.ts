import { setTimeout as sleep } from 'node:timers/promises'
import { call } from '../support/gateway.ts'
import { type AgentKind, agentRequest, readMessages } from './agents.ts'

type Kind = 'chat' | 'stream' | 'embedding' | 'image' | AgentKind
type SlowKind = 'video' | 'job' | 'batch'

/** A direct request as its client saw it. */
export type Direct = {
  kind: Kind
  generationId: string | null
  status: number
  /** `whole`: a complete answer with its cost. */
  outcome: 'whole' | 'refused' | 'error event' | 'cut' | 'cancelled' | 'no answer'
  code: string | null
  costNano: number
  endedMs: number
}

/** A submission of slow work, sent again with its idempotency key until it had an answer. */
export type Submission = { kind: SlowKind; mark: string; id: string | null; answers: string[]; tookMs: number }

const clients: Record<Kind, number> = {
  ...{ chat: 4, stream: 4, embedding: 3, image: 1 },
  ...{ messages: 4, 'messages over chat': 4 },
}
/** Agents cancel this share of their turns while the answer is being streamed. */
const cancelledShare = 0.15
const thinkMs = 150
const submitEveryMs: Record<SlowKind, number> = { video: 2_500, job: 1_500, batch: 12_000 }
const linesPerBatch = 50
const requestTimeoutMs = 60_000
const submitAgainMs = 1_000
/** A submission without an answer is given up after this. */
const submitWithinMs = 120_000
const chatModels = ['gpt-5.6-luna', 'gpt-oss-120b', 'llama-3.3-70b-instruct', 'auto']

/** Mixed load on several web processes; remembers what every client was told. */
export class Load {
  readonly directs: Direct[] = []
  readonly submissions: Submission[] = []
  readonly #urls: string[]
  readonly #key: string
  readonly #agentKey: string
  readonly #hookUrl: string
  readonly #random: () => number
  readonly #pace: number
  readonly #answerWithinMs: number
  readonly #running: Promise<void>[]
  #isStopped = false
  #marks = 0

  /** `agentKey`: the key of the agents. `pace`: how many times as long clients wait between requests as usual. */
  constructor(
    urls: string[],
    { key, agentKey }: { key: string; agentKey: string },
    hookUrl: string,
    random: () => number,
    { pace = 1, answerWithinMs = requestTimeoutMs } = {},
  ) {
    this.#urls = urls
    this.#key = key
    this.#agentKey = agentKey
    this.#hookUrl = hookUrl
    this.#random = random
    this.#pace = pace
    this.#answerWithinMs = answerWithinMs
    const direct = (Object.keys(clients) as Kind[]).flatMap(kind =>
      Array.from({ length: clients[kind] }, () => this.#client(kind)),
    )
    const slow = (Object.keys(submitEveryMs) as SlowKind[]).map(kind => this.#submitter(kind))
    this.#running = [...direct, ...slow]
  }

  /** Stops sending and waits for the answers to what was sent. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#running)
  }

  async #client(kind: Kind): Promise<void> {
    while (!this.#isStopped) {
      this.directs.push(await this.#ask(kind))
      await sleep(thinkMs * this.#pace * (0.5 + this.#random()))
    }
  }

  async #submitter(kind: SlowKind): Promise<void> {
    const open: Promise<void>[] = []
    while (!this.#isStopped) {
      open.push(this.#submit(kind))
      await sleep(submitEveryMs[kind] * this.#pace)
    }
    await Promise.all(open)
  }

  async #ask(kind: Kind): Promise<Direct> {
    const direct: Direct = {
      kind,
      generationId: null,
      status: 0,
      outcome: 'no answer',
      code: null,
      costNano: 0,
      endedMs: 0,
    }
    const { path, body } = this.#request(kind, this.#mark(kind))
    try {
      const signal = AbortSignal.timeout(this.#answerWithinMs)
      const key = isAgent(kind) ? this.#agentKey : this.#key
      const response = await call(this.#url(), path, { key, body, signal })
      direct.status = response.status
      direct.generationId = response.headers.get('x-generation-id')
      direct.outcome = 'cut'
      if (isAgent(kind) && this.#random() < cancelledShare) return await cancelled(direct, response)
      const text = await response.text()
      if (response.status !== 200) Object.assign(direct, { outcome: 'refused', code: JSON.parse(text).error.code })
      else if (kind === 'stream') readStream(direct, text)
      else if (isAgent(kind))
        Object.assign(direct, readMessages(kind, response.headers.get('x-gateway-provider')!, text))
      else readWhole(direct, JSON.parse(text))
    } catch {
      // Cut off: `outcome` tells how far it came.
    }
    direct.endedMs = Date.now()
    return direct
  }

  #request(kind: Kind, mark: string): { path: string; body: object } {
    if (isAgent(kind)) return agentRequest(kind, mark)
    if (kind === 'embedding')
      return { path: '/v1/embeddings', body: { model: 'text-embedding-3-small', input: [mark, 'second'] } }
    if (kind === 'image') return { path: '/v1/images', body: { model: 'gpt-image-2', prompt: mark } }
    const model = chatModels[this.#marks % chatModels.length]
    const messages = [{ role: 'user', content: `mark=${mark} hello` }]
    const streaming = { stream: true, stream_options: { include_usage: true } }
    return {
      path: '/v1/chat/completions',
      body: { model, max_tokens: 200, messages, ...(kind === 'stream' && streaming) },
    }
  }

  async #submit(kind: SlowKind): Promise<void> {
    const mark = this.#mark(kind)
    const submission: Submission = { kind, mark, id: null, answers: [], tookMs: 0 }
    this.submissions.push(submission)
    const { path, body } = this.#slowRequest(kind, mark)
    const startedMs = Date.now()
    while (submission.id === null && Date.now() - startedMs < submitWithinMs) {
      if (submission.answers.length > 0) await sleep(submitAgainMs)
      try {
        const signal = AbortSignal.timeout(this.#answerWithinMs)
        const headers = { 'idempotency-key': mark }
        const response = await call(this.#url(), path, { key: this.#key, body, headers, signal })
        const answer = (await response.json()) as { id: string; error?: { code: string } }
        submission.answers.push(`${response.status} ${answer.error?.code ?? ''}`)
        if (response.ok) submission.id = answer.id
      } catch {
        submission.answers.push('no answer')
      }
    }
    submission.tookMs = Date.now() - startedMs
  }

  #slowRequest(kind: SlowKind, mark: string): { path: string; body: object } {
    const common = { webhook_url: this.#hookUrl, metadata: { mark } }
    const chat = (it: string) => ({
      model: 'gpt-oss-120b',
      max_tokens: 50,
      messages: [{ role: 'user', content: `mark=${it}` }],
    })
    if (kind === 'video')
      return { path: '/v1/videos', body: { model: 'runway-gen4.5', prompt: `mark=${mark}`, seconds: 2, ...common } }
    if (kind === 'job') return { path: '/v1/jobs', body: { body: chat(mark), completion_window: '1h', ...common } }
    const requests = Array.from({ length: linesPerBatch }, (_, i) => ({
      custom_id: `${mark}-${i}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: chat(`${mark}-${i}`),
    }))
    return { path: '/v1/batches', body: { requests, batch_routing: 'gateway', ...common } }
  }

  #mark(kind: string): string {
    return `${kind}-${++this.#marks}`
  }

  #url(): string {
    return this.#urls[Math.floor(this.#random() * this.#urls.length)]!
  }
}

function isAgent(kind: Kind): kind is AgentKind {
  return kind === 'messages' || kind === 'messages over chat'
}

/** Leaves once the first bytes have come. */
async function cancelled(direct: Direct, response: Response): Promise<Direct> {
  const reader = response.body!.getReader()
  await reader.read()
  await reader.cancel()
  return { ...direct, outcome: 'cancelled', endedMs: Date.now() }
}

function readWhole(direct: Direct, { usage }: { usage: { cost: number } }): void {
  direct.outcome = 'whole'
  direct.costNano = Math.round(usage.cost * 1e9)
}

function readStream(direct: Direct, text: string): void {
  const events = text
    .split('\n\n')
    .filter(event => event.startsWith('data: {'))
    .map(event => JSON.parse(event.slice('data: '.length)))
  const fault = events.find(({ error }) => error)
  const usage = events.findLast(event => event.usage)?.usage
  if (fault) Object.assign(direct, { outcome: 'error event', code: fault.error.code })
  else if (usage && text.endsWith('data: [DONE]\n\n')) readWhole(direct, { usage })
}
