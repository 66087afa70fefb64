// Tools that a provider's own search loads, for models without such a search.

import type OpenAI from 'openai'
import { startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const about = { description: 'The weather.', strict: false, parameters, defer_loading: true }
const weather = { type: 'function', name: 'get_weather', ...about }
const forecast = { type: 'function', name: 'forecast', ...about }
const namespace = { type: 'namespace', name: 'skies', description: 'd', tools: [weather, forecast] }
const search = { type: 'tool_search' }
const question = { type: 'message', role: 'user', content: 'What is the weather in Berlin?' }
const models = ['claude-sonnet-4-5', 'gemini-3.5-flash'] as const

async function respond(key: string, body: object, stream: boolean): Promise<OpenAI.Responses.Response> {
  const { responses } = world.sdk(key)
  return stream ? responses.stream(body as never).finalResponse() : responses.create(body as never)
}

/** The names of the tools in the latest request to the provider of a model. */
function sentNames(model: string): string[] {
  const { body } = (model.startsWith('claude') ? world.anthropic : world.gemini).requests.at(-1)!
  const tools = model.startsWith('claude') ? body.tools : body.tools[0].functionDeclarations
  return tools.map(({ name }: { name: string }) => name)
}

for (const model of models)
  for (const stream of [false, true]) {
    const how = `${model}${stream ? ', streamed' : ''}`

    test.serial(`200 with the search that loads a deferred function before its first call: ${how}`, async t => {
      const { live: key } = await world.gateway.account()
      const body = { model, store: false, tools: [search, weather] }
      const first = await respond(key, { ...body, input: [question] }, stream)
      t.deepEqual(sentNames(model), ['get_weather'])
      const records = first.output.filter(({ type }) => type.startsWith('tool_search'))
      const at = { call_id: null, execution: 'server', status: 'completed' }
      t.like(records[0], { type: 'tool_search_call', ...at, arguments: { paths: ['get_weather'] } })
      t.like(records[1], { type: 'tool_search_output', ...at })
      t.like((records[1] as { tools?: object[] }).tools![0], weather)
      t.is(records.length, 2)
      const call = first.output.at(-1) as OpenAI.Responses.ResponseFunctionToolCall
      t.like(call, { type: 'function_call', name: 'get_weather', namespace: 'get_weather' })
      t.is(new Set(first.output.map(item => (item as { id: string }).id)).size, first.output.length)

      const result = { type: 'function_call_output', call_id: call.call_id, output: 'Sunny.' }
      const input = [question, ...first.output, result, question]
      const second = await respond(key, { ...body, input, tool_choice: 'required' }, stream)
      t.deepEqual(sentNames(model), ['get_weather'])
      t.deepEqual(
        second.output.filter(({ type }) => type.startsWith('tool_search')),
        [],
      )
      const again = second.output.at(-1)
      t.like(again, { type: 'function_call', name: 'get_weather', namespace: 'get_weather' })
    })

    test.serial(`200 with the search that loads a namespace before its first call: ${how}`, async t => {
      const { live: key } = await world.gateway.account()
      const { output } = await respond(
        key,
        { model, store: false, tools: [namespace, search], input: [question] },
        stream,
      )
      t.deepEqual(sentNames(model), ['skies__get_weather', 'skies__forecast'])
      const [call, loaded, ...others] = output.filter(({ type }) => type.startsWith('tool_search'))
      t.like(call, { type: 'tool_search_call', arguments: { paths: ['skies'] } })
      t.like((loaded as { tools?: object[] }).tools![0], { type: 'namespace', name: 'skies' })
      t.deepEqual(others, [])
      t.like(output.at(-1), { type: 'function_call', name: 'get_weather', namespace: 'skies' })
    })
  }

test.serial('200 for a conversation with a search that OpenAI ran, on models without one', async t => {
  const { live: key } = await world.gateway.account()
  const at = { call_id: null, execution: 'server', status: 'completed' }
  const input = [
    question,
    { type: 'tool_search_call', id: 'tsc_1', ...at, arguments: { paths: ['get_weather'] } },
    { type: 'tool_search_output', id: 'tso_1', ...at, tools: [weather] },
    { type: 'function_call', call_id: 'c1', name: 'get_weather', namespace: 'get_weather', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c1', output: 'Sunny.' },
  ]
  for (const model of models) {
    const { output } = await respond(key, { model, store: false, tools: [search, weather], input }, false)
    t.is(output.at(-1)!.type, 'message', model)
    t.deepEqual(sentNames(model), ['get_weather'])
    const { raw } = (model.startsWith('claude') ? world.anthropic : world.gemini).requests.at(-1)!
    t.false(raw.includes('get_weather__get_weather'), model)
  }
})

test.serial('200 without a search where the tools are not deferred, or no search is listed', async t => {
  const { live: key } = await world.gateway.account()
  const plain = { ...weather, defer_loading: false }
  for (const tools of [[search, plain], [weather]]) {
    const { output } = await respond(key, { model: models[0], store: false, tools, input: [question] }, false)
    t.deepEqual(
      output.filter(({ type }) => type.startsWith('tool_search')),
      [],
    )
    const call = output.at(-1) as { type: string; namespace?: string }
    t.is(call.type, 'function_call')
    t.is(call.namespace, undefined)
  }
})
