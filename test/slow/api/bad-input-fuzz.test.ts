import fc from 'fast-check'
import { errorsOf } from '../../../api/openapi/errors.ts'
import { endpoints } from '../../../api/routes/index.ts'
import { Emulator, type Reply } from '../../emulators/emulator.ts'
import { responsesReply } from '../../emulators/openai-responses.ts'
import {
  type BodyPath,
  embeddingReply,
  errorIn,
  expectedError,
  plainChatReply,
  plainStream,
  provisioningKey,
} from '../../support/api/edge.ts'
import { mutate, mutation } from '../../support/api/mutations.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

let provisioning: string

const reply: Reply = (request, response) => {
  if (request.path === '/v1/embeddings') return embeddingReply(request.body)(request, response)
  if (request.path === '/v1/responses') return responsesReply()(request, response)
  if (request.body?.stream !== true) return plainChatReply(request, response)
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(plainStream)
}

const upstream = use(test, () => Emulator.start(reply))
const gateway = useGateway(test, () => ({ OPENAI_API_KEY: 'sk-upstream', OPENAI_BASE_URL: `${upstream.url}/v1` }))
const account = use(test, () => gateway.account({ usd: '1000' }))
test.before(async () => {
  provisioning = await provisioningKey(gateway, account.organisationId)
})

const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }
const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'c', content: 'result' },
]
const chat = {
  model: 'gpt-5.6-luna',
  messages,
  tools: [tool],
  tool_choice: 'auto',
  max_tokens: 5,
  temperature: 1,
  n: 1,
  stop: ['x'],
  stream: false,
  stream_options: { include_usage: true },
  response_format: { type: 'json_schema', json_schema: { name: 's', schema: {} } },
  metadata: { a: 'b' },
  models: ['gpt-5.4-mini'],
}
/** Bodies with many fields, for the mutations to find. */
const bodies: Record<BodyPath, object> = {
  '/v1/chat/completions': chat,
  '/v1/route': { ...chat, model: 'auto', mode: 'cost' },
  '/v1/completions': { model: 'gpt-5.6-luna', prompt: ['Hi'], max_tokens: 5, n: 1, stream: false, echo: false },
  '/v1/messages': {
    model: 'gpt-5.6-luna',
    max_tokens: 1_100,
    system: [{ type: 'text', text: 'Be brief' }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'w', input: { a: 1 } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'x', is_error: true }] },
    ],
    tools: [{ name: 'w', description: 'd', input_schema: { type: 'object', properties: {} } }],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    thinking: { type: 'enabled', budget_tokens: 1_024 },
    output_config: { effort: 'low' },
    stop_sequences: ['x'],
    stream: false,
  },
  '/v1/messages/count_tokens': { model: 'gpt-5.6-luna', messages: [{ role: 'user', content: 'Hi' }], system: 'a' },
  '/v1/responses': {
    model: 'gpt-5.6-luna',
    max_output_tokens: 1_100,
    instructions: 'Be brief',
    input: [
      { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm' }] },
      { type: 'function_call', call_id: 'c1', name: 'w', arguments: '{"a":1}' },
      { type: 'function_call_output', call_id: 'c1', output: 'rain' },
    ],
    tools: [{ type: 'function', name: 'w', parameters: { type: 'object' }, strict: false }],
    tool_choice: { type: 'function', name: 'w' },
    reasoning: { effort: 'low' },
    text: { format: { type: 'text' } },
  },
  '/v1/embeddings': { model: 'text-embedding-3-small', input: ['a', 'b'], dimensions: 8, encoding_format: 'float' },
  '/api/v1/keys': { name: 'a', rpm_limit: 5, scopes: 'chat', model_allowlist: ['gpt-4o'], expires_in_days: 3 },
}

/** Cuts bytes out of the text or puts some in. */
const damage = fc.option(fc.record({ at: fc.nat(400), remove: fc.nat(3), insert: fc.string({ maxLength: 3 }) }), {
  freq: 5,
})

for (const [path, body] of Object.entries(bodies) as [BodyPath, object][]) {
  test.serial(`200 or a documented 4xx for any damaged body of POST ${path}`, async t => {
    const endpoint = endpoints.find(candidate => candidate.path === path && candidate.method === 'post')!
    const documented = new Set<string>(errorsOf(endpoint))
    const key = path.startsWith('/api/') ? provisioning : account.live
    const property = fc.asyncProperty(fc.array(mutation, { maxLength: 3 }), damage, async (mutations, damaged) => {
      const mutated = structuredClone(body)
      for (const one of mutations) mutate(mutated, one)
      let text = JSON.stringify(mutated)
      if (damaged) text = text.slice(0, damaged.at) + damaged.insert + text.slice(damaged.at + damaged.remove)
      const response = await gateway.fetch(path, { key, body: text })
      assertProper(response, await response.text(), documented)
    })
    // One fixed seed: a run must be repeatable.
    await fc.assert(property, { numRuns: 200, seed: 20261121 })
    t.deepEqual(await gateway.settled(), [])
    t.is((await gateway.services.wallets.view(account.organisationId)).reservedNano, 0n)
  })
}

/** Throws unless the answer is a success that can be read, or an error of exactly the documented shape. */
function assertProper(response: Response, text: string, documented: ReadonlySet<string>): void {
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    if (!/(?:data: \[DONE\]|data: \{"type":"message_stop"\})\n\n$/.test(text))
      throw new Error(`a stream without its end: ${text}`)
    return
  }
  if (response.status === 200 || response.status === 201) return
  const error = errorIn(response, text)
  // The provider preferences of a request may exclude every provider, which is a documented 503.
  if (response.status >= 500 && error.code !== 'no_provider_available') throw new Error(`${response.status} ${text}`)
  const { status, type } = expectedError(response, error.code)
  if (status !== response.status || type !== error.type) throw new Error(`not of the table: ${text}`)
  if (!documented.has(error.code)) throw new Error(`not documented: ${text}`)
}
