import { loadCatalog } from '../../../shared/catalog/catalog.ts'
import { chatRequest } from '../../../shared/kinds/chat.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { Call, DirectAdapter } from '../../../shared/providers/contract.ts'
import { functionsOverTools } from '../../../shared/providers/toolkit/functions-over-tools.ts'
import { test } from '../../support/test.ts'

const catalog = loadCatalog()
const model = catalog.find('gpt-4o')!
const [target] = catalog.targets(model).filter(({ provider }) => provider.name === 'openai')
const chat = openai.direct.chat!
const name = `mcp__${'look_up_'.repeat(10)}now`
const messages = [{ role: 'user', content: 'Hi' }]

const callOf = (body: object): Call<'chat'> => ({
  target: { model, ...target! },
  body: chatRequest.parse({ model: 'gpt-4o', messages, ...body }),
  raw: null,
  maxTokens: null,
  media: new Map(),
})
const answerWith = (sentName: string) => ({
  id: 'x',
  model: 'gpt-4o',
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: sentName, arguments: '{}' } }],
      },
      finish_reason: 'tool_calls',
    },
  ],
})
const sentTool = (body: unknown) => JSON.parse(String(body)).tools[0].function.name as string

test('restored: names of tools in the answers of a provider’s batch, whose lines were written before', t => {
  const body = { tools: [{ type: 'function', function: { name } }] }
  const { body: line } = JSON.parse(openai.batch!.entry('chat', 'l1', callOf(body)))
  const sentName = line.tools[0].function.name
  t.regex(sentName, /^[a-zA-Z0-9_-]{1,64}$/)
  const { choices } = chat.answer(answerWith(sentName), callOf(body))
  t.is(choices[0]!.message.tool_calls![0]!.function.name, name)
})

test('restored: names of functions, the predecessors of tools, whole and in a stream', t => {
  const adapter: DirectAdapter<'chat'> = functionsOverTools(chat)
  const call = callOf({ functions: [{ name }], function_call: { name } })
  const { body } = adapter.request(call)
  const sentName = sentTool(body)
  t.not(sentName, name)
  t.is(JSON.parse(String(body)).tool_choice.function.name, sentName)
  t.is(adapter.answer(answerWith(sentName), call).choices[0]!.message.function_call!.name, name)
  const delta = { tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: sentName, arguments: '' } }] }
  const data = JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason: null }] })
  const [chunk] = adapter.stream!(call).push({ event: '', data })
  t.is(chunk!.choices[0]!.delta.function_call!.name, name)
})
