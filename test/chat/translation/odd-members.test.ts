import { events, json, type Reply } from '../../emulators/emulator.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { startWorld, upstreamSecret } from '../../support/chat/gateway.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Members of an answer that are not what OpenAI's are, in each dialect, whole and streamed. */

const server = use(test, startOpenAiEmulator)
const world = use(test, () => startWorld({ MISTRAL_API_KEY: upstreamSecret, MISTRAL_BASE_URL: `${server.url}/v1` }))
test.beforeEach(() => server.reset())

const only = { provider: { only: ['mistral'] } }
const model = 'mistral-large-3'
const messages = [{ role: 'user', content: 'Hello' }]
const contents = [{ role: 'user', parts: [{ text: 'Hello' }] }]
const google = `/v1beta/models/${model}`
/** A path with its body, whole and streamed. */
const requests: [string, object][] = [false, true].flatMap((stream): [string, object][] => [
  ['/v1/chat/completions', { model, ...only, messages, stream }],
  ['/v1/messages', { model, ...only, messages, max_tokens: 100, stream }],
  ['/v1/responses', { model, ...only, input: 'Hello', stream }],
  [`${google}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`, { contents, ...only }],
])

/** A server that puts these members into its message and first delta, and those into the answer and each chunk. */
function answering(members: object, others: object = {}): Reply {
  const head = { id: 'cmpl-up', created: 1, model: 'up', ...others }
  const usage = { prompt_tokens: 20, completion_tokens: 12, total_tokens: 32 }
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }], ...(finish_reason && { usage }) })}\n\n`
  const message = { role: 'assistant', content: 'It is fine.', ...members }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  const whole = json(200, { ...head, object: 'chat.completion', choices, usage })
  const begun = chunk({ role: 'assistant', content: 'It ' }, null)
  const streamed = events([
    begun,
    chunk({ content: 'is fine.', ...members }, null),
    chunk({}, 'stop'),
    'data: [DONE]\n\n',
  ])
  return (request, reply) => (request.body.stream ? streamed : whole)(request, reply)
}

async function texts(reply: Reply): Promise<{ path: string; status: number; text: string }[]> {
  const { live } = await world.gateway.account()
  const given: { path: string; status: number; text: string }[] = []
  for (const [path, body] of requests) {
    server.next(reply)
    const response = await world.gateway.fetch(path, { key: live, body })
    given.push({ path, status: response.status, text: await response.text() })
  }
  return given
}

for (const [title, thought] of [
  ['a list', [{ type: 'text', text: 'I think.' }]],
  ['an object', { text: 'I think.' }],
] as const)
  test.serial(`200: thinking that is ${title} is the text in it`, async t => {
    for (const { path, status, text } of await texts(answering({ reasoning_content: thought }))) {
      t.is(status, 200, text)
      t.regex(text, /is fine\./, path)
      t.notRegex(text, /\[object Object\]/, path)
      if (!path.startsWith(google)) t.regex(text, /I think\./, path)
    }
  })

test.serial('200: thinking that is a number is left out', async t => {
  for (const { path, status, text } of await texts(answering({ reasoning_content: 5 }))) {
    t.is(status, 200, text)
    t.regex(text, /is fine\./, path)
    t.notRegex(text, /"reasoning_content"/, path)
  }
})

for (const error of ['', false, {}, null])
  test.serial(`200 with the error ${JSON.stringify(error)} beside the answer, which no client gets`, async t => {
    for (const { path, status, text } of await texts(answering({}, { error }))) {
      t.is(status, 200, text)
      t.regex(text, /is fine\./, path)
      t.notRegex(text, /"error":(?!null)/, path)
    }
  })

for (const members of [{ tool_calls: { id: 'call_1' } }, { refusal: { reason: 'none' } }])
  test.serial(`502 for ${JSON.stringify(members)}, whole and streamed`, async t => {
    for (const { path, text } of await texts(answering(members))) t.regex(text, /could not be understood/, path)
  })

test.serial('400 with the words of an error that is a text in an answer of 200', async t => {
  const { live } = await world.gateway.account()
  server.next(json(200, { error: 'The field `x` is bad.', code: 400 }))
  const response = await world.gateway.fetch('/v1/chat/completions', { key: live, body: { model, ...only, messages } })
  t.is(response.status, 400)
  t.regex(await response.text(), /The field `x` is bad\./)
})
