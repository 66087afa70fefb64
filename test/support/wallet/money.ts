import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commands } from '../../../api/operator/commands.ts'
import { parseCommand } from '../../../api/operator/parse.ts'
import type { Services } from '../../../shared/open-services.ts'

/** The kinds of ledger entries that are spend. */
export const spendKinds = ['charge', 'excess'] as const

/** A clock that only advances when a test moves it. */
export type TestClock = { now(): number; advance(ms: number): void; set(iso: string): void }

export function testClock(iso: string): TestClock {
  let nowMs = Date.parse(iso)
  return {
    now: () => nowMs,
    advance: ms => {
      nowMs += ms
    },
    set: to => {
      nowMs = Date.parse(to)
    },
  }
}

/** What tokens of the model `coin` (and `coin-embedding`) cost, in nano-dollars. */
export const nanoPerInputToken = 1_000
export const nanoPerOutputToken = 2_000

const common = {
  owned_by: 'tests',
  created: 0,
  description: 'Round prices.',
  context_length: 1_000_000,
  input_modalities: ['text'],
  supported_parameters: ['tools'],
  quality: 50,
  expires_on: null,
  price_source: 'the tests',
  price_as_of: '2026-01-01',
}
const deployment = { provider: 'openai', upstream_model: 'upstream-coin' }
const models = [
  {
    ...common,
    id: 'coin',
    name: 'Coin',
    type: 'chat',
    max_output_tokens: 100_000,
    output_modalities: ['text'],
    providers: [{ ...deployment, price: { unit: 'token', input: '1', output: '2' } }],
  },
  {
    ...common,
    id: 'coin-embedding',
    name: 'Coin embedding',
    type: 'embeddings',
    max_output_tokens: null,
    output_modalities: ['embedding'],
    providers: [{ ...deployment, price: { unit: 'token', input: '1', output: '0' } }],
  },
]

/** Configuration with a model of round prices at an emulated OpenAI, without margin. */
export async function moneyEnvironment(upstreamUrl: string): Promise<Record<string, string>> {
  const file = join(tmpdir(), `money-catalog-${randomUUID()}.json`)
  await writeFile(file, JSON.stringify({ models }))
  return {
    MODEL_CATALOG: file,
    SERVICE_MARGIN_PERCENT: '0',
    EMBEDDINGS_SURCHARGE_PERCENT: '0',
    OPENAI_API_KEY: 'sk-upstream',
    OPENAI_BASE_URL: `${upstreamUrl}/v1`,
  }
}

/** Runs an operator command on opened services; `exitCode` is what the process would end with. */
export async function operator(
  services: Services,
  ...argv: string[]
): Promise<{ data: unknown; text: string; exitCode?: number }> {
  const { command, flags } = parseCommand(argv, commands)
  return command.run(services, flags)
}

/** The bound of a chat request to `coin` besides its output, in nano-dollars: no tokenizer makes more tokens than bytes. */
export function inputBoundNano(body: unknown): number {
  const bytes = Buffer.byteLength(JSON.stringify(body))
  return (bytes + 64) * nanoPerInputToken + 2 * nanoPerOutputToken
}
