import { startWorld } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Tools that take screenshots answer with images, in chat completions as in the other dialects. */

// biome-ignore lint/suspicious/noExplicitAny: bodies of three dialects
type Json = any
let key: string
const world = use(test, startWorld)
test.before(async () => {
  key = (await world.gateway.account()).live
})
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
})

const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }
const call = (id: string, name: string) => ({ id, type: 'function', function: { name, arguments: '{}' } })
const tools = ['screenshot', 'clock'].map(name => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: {} } },
}))
const asked = [
  { role: 'user', content: 'What is on the screen?' },
  { role: 'assistant', content: null, tool_calls: [call('call_a', 'screenshot'), call('call_b', 'clock')] },
]
const results = [
  { role: 'tool', tool_call_id: 'call_a', content: [image] },
  { role: 'tool', tool_call_id: 'call_b', content: [{ type: 'text', text: 'Noon.' }] },
]

async function send(model: string, messages: object[]) {
  const body = { model, messages, tools }
  const response = await world.gateway.fetch('/v1/chat/completions', { key, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

const moved = [{ type: 'text', text: 'From the result of screenshot (call_a):' }, image]

test.serial('200 on OpenAI: the image follows all results, in the user message after them if there is one', async t => {
  const first = await send('gpt-4o', [...asked, ...results])
  t.is(first.status, 200, first.text)
  t.is(first.headers.get('x-gateway-dropped'), null)
  const sent = (world.openai.requests[0]!.body as Json).messages
  t.like(sent[2], { role: 'tool', content: 'The result follows in the next user message.' })
  t.like(sent[3], { role: 'tool', tool_call_id: 'call_b' })
  t.deepEqual(sent[4], { role: 'user', content: moved })
  const more = await send('gpt-4o', [...asked, ...results, { role: 'user', content: 'And now?' }])
  t.is(more.status, 200, more.text)
  const last = (world.openai.requests[1]!.body as Json).messages.slice(4)
  t.deepEqual(last, [{ role: 'user', content: [...moved, { type: 'text', text: 'And now?' }] }])
})

test.serial('200 with text beside the image, which stays in the result', async t => {
  const text = { type: 'text', text: 'A screen of 1 by 1.' }
  const result = { role: 'tool', tool_call_id: 'call_a', content: [text, image] }
  const { status, text: answer } = await send('gpt-4o', [...asked, result, results[1]!, ...asked.slice(0, 1)])
  t.is(status, 200, answer)
  const sent = (world.openai.requests[0]!.body as Json).messages
  t.true(JSON.stringify(sent[2]).includes(text.text))
  t.false(JSON.stringify(sent[2]).includes(pixel))
  t.true(JSON.stringify(sent[4]).includes(pixel))
})

for (const [model, of] of [
  ['claude-haiku-4-5', () => world.anthropic],
  ['gemini-2.5-flash', () => world.gemini],
] as const)
  test.serial(`200 on ${model}: the image is in the turn of the results`, async t => {
    const answer = await send(model, [...asked, ...results])
    t.is(answer.status, 200, answer.text)
    const body = of().requests[0]!.body as Json
    const last = (body.messages ?? body.contents).at(-1)
    t.is(last.role, 'user')
    t.true(JSON.stringify(last).includes(pixel))
    t.regex(JSON.stringify(last), /tool_result|functionResponse/)
  })

test.serial('200 with a text document of a tool on Claude', async t => {
  const file_data = `data:text/plain;base64,${Buffer.from('The word is plover.').toString('base64')}`
  const file = { type: 'file', file: { file_data, filename: 'word.txt' } }
  const result = { role: 'tool', tool_call_id: 'call_a', content: [file] }
  const answer = await send('claude-haiku-4-5', [...asked, result, results[1]!])
  t.is(answer.status, 200, answer.text)
  t.true(JSON.stringify(world.anthropic.requests[0]!.body).includes('The word is plover.'))
})

test.serial(
  '400 for an image of a tool where the model takes none, and for parts that are no image or file',
  async t => {
    const blind = await send('gpt-audio-1.5', [...asked, ...results])
    t.is(blind.status, 400, blind.text)
    t.is(JSON.parse(blind.text).error.code, 'unsupported_capability')
    const sound = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
    const wrong = await send('gpt-4o', [...asked, { ...results[0], content: [sound] }, results[1]!])
    t.is(wrong.status, 400)
    t.is(JSON.parse(wrong.text).error.param, 'messages.2.content.0.type')
    t.is(world.openai.requests.length, 0)
  },
)
