import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Reply } from '../../emulators/emulator.ts'
import { chatChunk } from '../../emulators/openai.ts'
import { eventually } from '../gateway.ts'
import { agentCall, answering, ask, type Seen, usageOf } from './agent-calls.ts'
import { chargedNano, type World } from './gateway.ts'

/** Prices of the models here, in nano-dollars per token. */
export const nanoPerInput = 4_000
export const nanoPerOutput = 20_000

/** `dear` and, of Anthropic's protocol, `dear-native` write only what is streamed; `dear-thinker` reasons unseen before it writes. */
export async function dearModels(): Promise<Record<string, string>> {
  const file = join(tmpdir(), `dear-catalog-${randomUUID()}.json`)
  const model = (id: string, provider = 'openai', traits?: object) => ({
    id,
    name: id,
    type: 'chat',
    owned_by: 'tests',
    created: 0,
    description: 'Dear.',
    quality: 50,
    expires_on: null,
    context_length: 1_000_000,
    max_output_tokens: 128_000,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_parameters: ['tools'],
    price_source: 'the tests',
    price_as_of: '2026-01-01',
    providers: [{ provider, upstream_model: `up-${id}`, price: { unit: 'token', input: '4', output: '20' }, traits }],
  })
  const models = [
    model('dear'),
    model('dear-native', 'anthropic'),
    model('dear-thinker', 'openai', { reasoning: true }),
  ]
  await writeFile(file, JSON.stringify({ models }))
  return { MODEL_CATALOG: file, SERVICE_MARGIN_PERCENT: '0' }
}

/** What a request costs besides its output at the most: a token a byte, and two tokens for its chat template. */
export function fixedNano(body: unknown): number {
  return (Buffer.byteLength(JSON.stringify(body)) + 64) * nanoPerInput + 2 * nanoPerOutput
}

/** A provider that streams what it is told to. */
export class StreamingProvider {
  #response: Parameters<Reply>[1] | null = null
  #received = () => {}
  /** Resolves when the request has come. */
  readonly asked = new Promise<void>(resolve => (this.#received = resolve))

  readonly reply: Reply = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    this.#response = response
    this.#received()
  }

  /** Sends a piece of text in one event, once the request has come. */
  send(text: string): Promise<void> {
    return this.sendDelta({ content: text })
  }

  /** Sends a part of the answer in one event, once the request has come. */
  async sendDelta(delta: object): Promise<void> {
    await this.asked
    await this.#write(`data: ${JSON.stringify(chatChunk(delta))}\n\n`)
  }

  /** Ends the answer with this usage; `text` is sent in the same packet. */
  async finish(promptTokens: number, completionTokens: number, text = ''): Promise<void> {
    await this.asked
    const usage = usageOf(promptTokens, completionTokens)
    const events = [chatChunk({ content: text }), chatChunk({}, 'stop'), { ...chatChunk({}), choices: [], usage }]
    await this.#write(`${events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`)
    this.#response!.end()
  }

  async #write(text: string): Promise<void> {
    const response = this.#response!
    if (!response.destroyed && !response.write(text))
      await Promise.race([once(response, 'drain'), once(response, 'close')])
  }
}

const history = (breaks: boolean) =>
  fc.record({
    usd: fc.integer({ min: 50, max: 1_000 }).map(milli => milli / 1_000),
    capUsd: fc.option(fc.integer({ min: 50, max: 1_000 }).map(milli => milli / 1_000)),
    calls: fc.array(agentCall(breaks), { minLength: 4, maxLength: 12 }),
  })

/**
 * Checks for random wallets, caps and concurrent calls of agents, by chat and by Messages, that neither wallet nor cap is
 * exceeded, whoever leaves or breaks, that every other call is answered or refused with 402, and that the ledger is exact.
 * Resolves with how many calls ended how.
 */
export async function checkConcurrentCalls(
  { gateway, openai, anthropic }: World,
  { runs, pauseMs, breaks }: { runs: number; pauseMs: number; breaks: boolean },
): Promise<Record<Seen, number>> {
  const { wallets, catalog, upstreams } = gateway.services
  const targets = ['dear', 'dear-native'].flatMap(id => upstreams.targets(catalog.find(id)!, 'live'))
  const seen = { answered: 0, refused: 0, ended: 0, broken: 0, left: 0 }
  const property = fc.asyncProperty(history(breaks), async ({ usd, capUsd, calls }) => {
    const reply: Reply = (request, response) =>
      answering(calls[Number(request.body.messages[0].content)]!, pauseMs)(request, response)
    for (const emulator of [openai, anthropic]) {
      emulator.reset()
      emulator.next(...calls.map(() => reply))
    }
    const account = await gateway.account({ usd: String(usd), monthly_spend_cap_usd: capUsd })
    await Promise.all(
      calls.map(async (call, index) => {
        seen[await ask(gateway.url, account.live, call, String(index))]++
      }),
    )
    // A call whose client left ends a little later.
    const isAtRest = async () => (await wallets.view(account.organisationId)).reservedNano === 0n
    await eventually(isAtRest, 'every call is settled')
    await eventually(
      () => targets.every(target => upstreams.figures(target).cooldownMs === 0),
      'the circuits may close',
    )
    const charged = await chargedNano({ gateway }, account)
    const maxUsd = Math.min(usd, capUsd ?? usd)
    if (charged > maxUsd * 1e9) throw new Error(`${charged} charged of ${maxUsd} USD`)
  })
  await fc.assert(property, { numRuns: runs, includeErrorInReport: true, endOnFailure: true })
  return seen
}
