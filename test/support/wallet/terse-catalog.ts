import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a token of output costs, in nano-dollars without the margin; prompts are free. */
export const nanoPerToken = 20_000

/** A catalog with the models `terse-0` and so on at OpenAI, as a gateway's environment has it. */
export async function terseCatalog(count: number): Promise<{ MODEL_CATALOG: string }> {
  const file = join(tmpdir(), `terse-catalog-${randomUUID()}.json`)
  const models = Array.from({ length: count }, (_, i) => ({
    id: `terse-${i}`,
    name: `Terse ${i}`,
    type: 'chat',
    owned_by: 'tests',
    created: 0,
    description: 'Terse.',
    quality: 50,
    expires_on: null,
    context_length: 100_000,
    max_output_tokens: 8_192,
    input_modalities: ['text'],
    output_modalities: ['text'],
    supported_parameters: [],
    price_source: 'the tests',
    price_as_of: '2026-01-01',
    providers: [{ provider: 'openai', upstream_model: `up-${i}`, price: { unit: 'token', input: '0', output: '20' } }],
  }))
  await writeFile(file, JSON.stringify({ models }))
  return { MODEL_CATALOG: file }
}
