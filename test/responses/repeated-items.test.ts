import { openResponses } from '../support/chat/responses-socket.ts'
import { keepingAccount, models, startWorld } from '../support/responses/world.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

/** Turns that send again what they continue, as the clients of livekit-agents and Semantic Kernel do. */

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '', CACHE_MARKS: 'false' }))
test.beforeEach(() => {
  for (const emulator of emulators()) emulator.reset()
})

const emulators = () => [world.openai, world.anthropic, world.gemini]
/** The body that a provider received last. */
const lastSent = () => emulators().flatMap(({ requests }) => requests.map(({ body }) => body))[0]
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [{ type: 'function', name: 'weather', description: 'The weather', parameters, strict: false }]
const user = (content: string) => ({ role: 'user', content })

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
type Json = any
type Ask = (input: unknown, previous?: string, more?: object) => Promise<Json>

/** Asks over HTTP or on a connection, which knows what is not stored as well. */
async function asking(model: string, transport: 'http' | 'socket'): Promise<{ ask: Ask; close(): Promise<unknown> }> {
  const { live: key } = await keepingAccount(world)
  const client = transport === 'socket' ? await openResponses(world.gateway.url, { key }) : null
  const ask: Ask = async (input, previous_response_id, more) => {
    for (const emulator of emulators()) emulator.reset()
    const body = { model, tools, input, ...(previous_response_id && { previous_response_id }), ...more }
    if (client) return (await client.turn({ ...body, store: false })).at(-1).response
    return (await world.gateway.fetch('/v1/responses', { key, body })).json()
  }
  return { ask, close: async () => client?.close() }
}

for (const model of models)
  for (const transport of ['http', 'socket'] as const)
    test.serial(`200 for a call that is sent again with its output: ${model}, ${transport}`, async t => {
      const { ask, close } = await asking(model, transport)
      const asked = await ask([user('What is the weather in Paris?')])
      const { call_id, name, arguments: args } = asked.output.find(({ type }: Json) => type === 'function_call')
      const call = { type: 'function_call', call_id, name, arguments: args }
      const output = { type: 'function_call_output', call_id, output: 'sunny' }

      t.is((await ask([output], asked.id)).status, 'completed')
      const once = lastSent()
      const answered = await ask([call, output], asked.id)
      t.is(answered.status, 'completed')
      t.deepEqual(lastSent(), once)

      const next = await ask([user('And tomorrow?'), output], answered.id)
      t.is(next.status, 'completed')
      t.is(JSON.stringify(lastSent()).split('"sunny"').length - 1, 1)
      t.is((await ask([user('Thanks')], next.id)).status, 'completed')
      t.regex(JSON.stringify(lastSent()), /sunny.*And tomorrow.*Thanks/)
      await close()
    })

test.serial('another call or output of the same id is kept', async t => {
  const { ask } = await asking('gpt-4o-mini', 'http')
  const call = { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{"city":"Paris"}' }
  const output = (text: string) => ({ type: 'function_call_output', call_id: 'call_1', output: text })
  const first = await ask([user('Hi'), call, output('sunny')])
  const sent = async (...items: object[]) => {
    t.is((await ask(items, first.id)).status, 'completed')
    return lastSent().input.filter(({ call_id }: Json) => call_id).length
  }
  t.is(await sent(call, output('sunny')), 4)
  t.is(await sent(output('rainy')), 3)
  t.is(await sent(output('sunny')), 2)
})

for (const model of ['claude-haiku-4-5', 'claude-sonnet-5-5', 'gemini-3.5-flash'])
  test.serial(`200 for an output that follows what the model said after its call: ${model}`, async t => {
    const { ask } = await asking(model, 'http')
    const said = { role: 'assistant', content: 'I will look.' }
    const call = { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{"city":"Paris"}' }
    const output = { type: 'function_call_output', call_id: 'call_1', output: 'sunny' }
    const question = user('What is the weather in Paris?')
    t.is((await ask([question, said, call, question, said, output])).status, 'completed')
    const turns = lastSent().messages ?? lastSent().contents
    t.is(turns.at(-1).role, 'user')
  })
