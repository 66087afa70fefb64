import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

/** Test keys take what live keys of the same model take, and refuse what they refuse. */

const gateway = useGateway(test)
const claude = 'claude-sonnet-5-5'
const gemini = 'gemini-3.5-flash'
const gpt = 'gpt-5.6-terra'
// biome-ignore lint/suspicious/noExplicitAny: answers and errors of two APIs
type Answer = { status: number; json: any }

async function post(path: string, body: object): Promise<Answer> {
  const { test: key } = await gateway.account()
  const response = await gateway.fetch(path, { key, body, headers: { 'anthropic-version': '2023-06-01' } })
  return { status: response.status, json: await response.json() }
}

const ask = (tools: object[], more: object = {}) =>
  post('/v1/messages', {
    model: claude,
    max_tokens: 200,
    messages: [{ role: 'user', content: 'Look around.' }],
    tools,
    ...more,
  })
const askGemini = (tools: object[], model = gemini) =>
  post(`/v1beta/models/${model}:generateContent`, {
    contents: [{ role: 'user', parts: [{ text: 'Look around.' }] }],
    tools,
  })

const screen = { display_width_px: 1024, display_height_px: 768 }
const clientTools: [tool: { type: string; name: string }, input: object][] = [
  [{ type: 'bash_20250124', name: 'bash' }, { command: 'text' }],
  [
    { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' },
    { command: 'view', path: 'text' },
  ],
  [
    { type: 'text_editor_20250124', name: 'str_replace_editor' },
    { command: 'view', path: 'text' },
  ],
  [
    { type: 'memory_20250818', name: 'memory' },
    { command: 'view', path: '/memories' },
  ],
  [{ ...screen, type: 'computer_20251124', name: 'computer' } as never, { action: 'screenshot' }],
]

for (const [tool, input] of clientTools)
  test(`200 with a test key and Claude’s own ${tool.type}, which is called with an input of its form`, async t => {
    const plain = await ask([tool])
    t.is(plain.status, 200, JSON.stringify(plain.json))
    t.is(plain.json.content[0].text, 'Look around.')
    for (const tool_choice of [{ type: 'any' }, { type: 'tool', name: tool.name }]) {
      const { status, json: message } = await ask([tool], { tool_choice })
      t.is(status, 200, JSON.stringify(message))
      t.is(message.stop_reason, 'tool_use')
      const [call] = message.content
      t.like(call, { type: 'tool_use', name: tool.name, input })
      const messages = [
        { role: 'user', content: 'Look around.' },
        { role: 'assistant', content: message.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'Nothing.' }] },
      ]
      t.is((await ask([tool], { messages })).status, 200)
    }
  })

test('200 with a test key and what a provider runs for its own model, which the sandbox does without', async t => {
  const own = { name: 'look', description: 'Looks', input_schema: { type: 'object', properties: {} } }
  const fetched = { type: 'web_fetch_20250910', name: 'web_fetch', max_uses: 1 }
  const server = { type: 'url', url: 'https://mcp.example/sse', name: 'files' }
  for (const body of [
    await ask([fetched]),
    await ask([fetched, own]),
    await ask([fetched], { tool_choice: { type: 'any' } }),
    await ask([{ type: 'mcp_toolset', mcp_server_name: 'files' }], { mcp_servers: [server] }),
    await ask([{ type: 'browser_toolset_20260801' }, { type: 'computer_toolset_20260801', configs: {} }]),
    await askGemini([{ codeExecution: {} }]),
    await askGemini([{ urlContext: {} }, { functionDeclarations: [{ name: 'look', parameters: { type: 'OBJECT' } }] }]),
  ])
    t.is(body.status, 200, JSON.stringify(body.json))
  const { json: called } = await ask([fetched, own], { tool_choice: { type: 'any' } })
  t.like(called.content[0], { type: 'tool_use', name: 'look' })
})

test('400 with a test key for what a live key cannot use either: no price, or not the model’s', async t => {
  const cases: [answer: Answer, says: RegExp][] = [
    [await ask([{ type: 'code_execution_20250825', name: 'code_execution' }]), /Input tag 'code_execution_20250825'/],
    [await ask([clientTools[0]![0]], { model: gpt }), /Input tag 'bash_20250124'/],
    [await askGemini([{ googleMaps: {} }]), /googleMaps: this tool has no price here/],
    [await askGemini([{ googleSearch: {} }]), /googleSearch: this tool has no price here/],
    [await askGemini([{ codeExecution: {} }], gpt), /codeExecution: only Gemini’s own models have this tool/],
  ]
  for (const [{ status, json: answer }, says] of cases) {
    t.is(status, 400, JSON.stringify(answer))
    t.regex(answer.error.message, says)
  }
})
