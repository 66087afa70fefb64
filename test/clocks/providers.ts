import { Emulator, type Reply } from '../emulators/emulator.ts'
import { reply as openai, promptTokens, tokensIn } from '../emulators/openai.ts'
import { startRunway } from '../emulators/runway.ts'
import { SessionEmulator } from '../emulators/sessions.ts'
import type { WorkEmulator } from '../emulators/slow-work.ts'
import { eventually } from '../support/gateway.ts'
import { providerSettings } from '../support/realtime/sessions.ts'
import { moneyEnvironment } from '../support/wallet/money.ts'

type Gate = {
  /** Settle when the caller has gone. */
  callers: Promise<void>[]
  opened: PromiseWithResolvers<void>
  /** By the monotonic clock; 0 = not yet. */
  arrivedMs: number
  openedMs: number
}

/** Where calls wait until the run lets them go on, by name. */
export class Gates {
  readonly #gates = new Map<string, Gate>()

  /** Waits at a gate until it is opened; `left` settles when the caller has gone. */
  async pass(name: string, left: Promise<void>): Promise<void> {
    const gate = this.#gate(name)
    gate.arrivedMs ||= performance.now()
    gate.callers.push(left)
    await Promise.race([gate.opened.promise, left])
  }

  open(name: string): void {
    const gate = this.#gate(name)
    gate.openedMs ||= performance.now()
    gate.opened.resolve()
  }

  /** How long the first call waited. */
  waitedMs(name: string): number {
    const { arrivedMs, openedMs } = this.#gate(name)
    return Math.max(0, openedMs - arrivedMs)
  }

  /** How many calls have come to a gate. */
  calls(name: string): number {
    return this.#gate(name).callers.length
  }

  /** Waits for the first call at a gate. */
  arrival(name: string): Promise<void> {
    return eventually(() => this.calls(name) > 0, `the provider has the call ${name}`)
  }

  /** Waits until the caller of the first call at a gate has gone. */
  async departure(name: string): Promise<void> {
    await this.#gate(name).callers[0]
  }

  #gate(name: string): Gate {
    const opened = Promise.withResolvers<void>()
    const gate = this.#gates.get(name) ?? { callers: [], opened, arrivedMs: 0, openedMs: 0 }
    this.#gates.set(name, gate)
    return gate
  }
}

/** Emulated providers whose answers come when the run says so. */
export type Providers = {
  /** The environment that points the gateway's processes here. */
  env: Record<string, string>
  gates: Gates
  voice: SessionEmulator
  video: WorkEmulator
  close(): Promise<void>
}

/** A message to the emulated model, which answers once the gate is open. */
export function gated(name: string) {
  return [{ role: 'user', content: `gate=${name} What time is it?` }]
}

export async function startProviders(): Promise<Providers> {
  const gates = new Gates()
  const answer: Reply = async (request, response) => {
    const text = JSON.stringify(request.body?.messages ?? request.body?.input ?? '')
    const [, gate] = /gate=([\w+-]+)/.exec(text) ?? []
    if (gate === undefined) return openai(request, response)
    if (request.body.stream) return answerInPieces(request.body, pass(gate, request))(request, response)
    await pass(gate, request)()
    if (!response.destroyed) await openai(request, response)
  }
  const pass =
    (gate: string, { aborted }: { aborted: Promise<void> }) =>
    () =>
      gates.pass(gate, aborted)
  const [chat, voice, video] = await Promise.all([
    Emulator.start(answer),
    SessionEmulator.start(() => {}),
    startRunway(),
  ])
  return {
    env: {
      ...providerSettings(voice),
      ...(await moneyEnvironment(chat.url)),
      RUNWAY_API_KEY: 'upstream',
      RUNWAY_BASE_URL: `${video.url}/v1`,
    },
    gates,
    voice,
    video,
    async close() {
      await Promise.all([chat.close(), voice.close(), video.close()])
    },
  }
}

/** Streams the first word, and the rest once `pass` resolves. */
function answerInPieces({ model, messages }: { model: string; messages: object[] }, pass: () => Promise<void>): Reply {
  const head = { id: 'chatcmpl-clock', created: 1_795_132_800, model, object: 'chat.completion.chunk' }
  const content = 'It is late. '
  const [prompt_tokens, completion_tokens] = [promptTokens(messages), tokensIn(content)]
  const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
  return async (_request, response) => {
    const send = (delta: object, finish_reason: string | null = null) => {
      const choices = [{ index: 0, delta, finish_reason }]
      response.write(`data: ${JSON.stringify({ ...head, choices })}\n\n`)
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    send({ role: 'assistant', content: 'It ' })
    await pass()
    if (response.destroyed) return
    send({ content: 'is late. ' })
    send({}, 'stop')
    response.write(`data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`)
    response.end('data: [DONE]\n\n')
  }
}
