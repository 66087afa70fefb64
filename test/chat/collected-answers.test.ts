import { startChatProvider } from '../emulators/chat-rules.ts'
import { events, json, type Reply } from '../emulators/emulator.ts'
import { chatChunk, startOpenAiEmulator } from '../emulators/openai.ts'
import { type Said, serverReply, servers } from '../emulators/openai-servers.ts'
import { chargedNano } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers of three dialects
type Any = any

/** Whole answers of a provider that gives long ones as streams only: the gateway collects the stream. */
const fireworks = use(test, () => startChatProvider('fireworks'))
const together = use(test, startOpenAiEmulator)
const gateway = useGateway(test, () => ({
  FIREWORKS_API_KEY: 'upstream-secret',
  FIREWORKS_BASE_URL: `${fireworks.url}/v1`,
  TOGETHER_API_KEY: 'upstream-secret',
  TOGETHER_BASE_URL: `${together.url}/v1`,
}))
test.beforeEach(() => {
  fireworks.reset()
  together.reset()
})

const model = 'gpt-oss-120b'
const only = { provider: { only: ['fireworks'] } }
const question = { messages: [{ role: 'user', content: 'Hello' }] }

async function ask(body: object, path = '/v1/chat/completions') {
  const account = await gateway.account()
  const response = await gateway.fetch(path, { key: account.live, body: { model, ...only, ...body } })
  const text = await response.text()
  const charged = () => chargedNano({ gateway }, account)
  return { status: response.status, headers: response.headers, text, json: JSON.parse(text), charged }
}

test.serial(
  '200 for a long whole answer: the same as of a provider that gives it whole, and charged alike',
  async t => {
    const short = await ask({ ...question, max_tokens: 4_096 })
    const long = await ask({ ...question, max_tokens: 4_097 })
    t.is(long.status, 200, long.text)
    t.deepEqual(
      fireworks.requests.map(({ body }) => [body.stream === true, body.stream_options]),
      [
        [false, undefined],
        [true, { include_usage: true }],
      ],
    )
    t.is(long.headers.get('content-type'), short.headers.get('content-type'))
    t.is(long.json.object, 'chat.completion')
    t.like(long.json.choices[0], { index: 0, finish_reason: 'stop' })
    t.is(long.json.choices[0].message.content, short.json.choices[0].message.content)
    t.deepEqual(long.json.usage, short.json.usage)
    t.is(long.headers.get('x-gateway-adjusted'), null)
    const paid = await long.charged()
    t.true(paid > 0)
    t.is(paid, await short.charged())
  },
)

const said: Said = {
  reasoning: 'I should look it up.',
  text: 'One moment.',
  calls: [{ name: 'weather', args: { city: 'Oslo' } }, { name: 'now' }],
}
for (const [name, form] of Object.entries(servers))
  test.serial(`200 with reasoning, text, calls and usage as ${name} streams them`, async t => {
    const tools = ['weather', 'now'].map(tool => ({ type: 'function', function: { name: tool } }))
    const answers: { choices: { message: Record<string, unknown> }[]; usage: object }[] = []
    for (const max_tokens of [500, 8_000]) {
      fireworks.next(serverReply(form, said))
      const answer = await ask({ ...question, tools, max_tokens })
      t.is(answer.status, 200, answer.text)
      answers.push(answer.json)
    }
    const withoutIds = ({ choices, usage }: (typeof answers)[number]) =>
      JSON.parse(
        JSON.stringify({ choices, usage }, (key, value) => (key === 'id' || key === 'cost' ? undefined : value)),
      )
    const [whole, collected] = answers.map(withoutIds)
    t.like(collected.choices[0].message, {
      content: whole.choices[0].message.content || said.text,
      reasoning_content: said.reasoning,
    })
    t.deepEqual(collected.choices[0].message.tool_calls, plainCalls(whole.choices[0].message.tool_calls))
    t.is(collected.choices[0].finish_reason, 'tool_calls')
    t.deepEqual(collected.usage, whole.usage)
  })

/** Calls without members that a server adds to whole answers only. */
function plainCalls(calls: { type: string; function: object }[]): object[] {
  return calls.map(({ type, function: fn }) => ({ type, function: fn }))
}

test.serial('200 in Messages and Responses', async t => {
  const messages = await ask({ ...question, max_tokens: 8_000 }, '/v1/messages')
  t.is(messages.status, 200, messages.text)
  t.is(messages.json.type, 'message')
  const responses = await ask({ input: 'Hello', max_output_tokens: 8_000 }, '/v1/responses')
  t.is(responses.status, 200, responses.text)
  t.is(responses.json.object, 'response')
  t.deepEqual(
    fireworks.requests.map(({ body }) => body.stream),
    [true, true],
  )
  t.is(messages.json.content[0].text, responses.json.output.at(-1).content[0].text)
})

test.serial('200 from a server that streams whatever is asked for, whole in each dialect', async t => {
  const usage = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }
  const all = [
    chatChunk({ role: 'assistant', content: 'Hel' }),
    chatChunk({ content: 'lo' }),
    chatChunk({}, 'stop', { usage }),
  ]
  const streamed = events([...all.map(one => `data: ${JSON.stringify(one)}\n\n`), 'data: [DONE]\n\n'])
  const only = { provider: { only: ['together'] } }
  for (const [path, body, text] of [
    ['/v1/chat/completions', question, (answer: Any) => answer.choices[0].message.content],
    ['/v1/messages', { ...question, max_tokens: 50 }, (answer: Any) => answer.content[0].text],
    ['/v1/responses', { input: 'Hello' }, (answer: Any) => answer.output.at(-1).content[0].text],
  ] as const) {
    together.next(streamed)
    const answer = await ask({ ...body, ...only }, path)
    t.is(answer.status, 200, answer.text)
    t.is(text(answer.json), 'Hello')
    t.not(together.requests.at(-1)!.body.stream, true)
    t.true((await answer.charged()) > 0)
  }
})

const chunk = (delta: object) => `data: ${JSON.stringify(chatChunk(delta))}\n\n`
const begun = chunk({ role: 'assistant', content: 'Hel' })
/** What ends a collected stream early: nothing of it was shown, so another provider answers. */
const broken: [name: string, model: string, reply: Reply][] = [
  ['breaks off', 'gpt-oss-120b', events([begun])],
  [
    'reports an error',
    'gpt-oss-20b',
    events([begun, `data: ${JSON.stringify({ error: { message: 'x', type: 'server_error' } })}\n\n`]),
  ],
  ['is no stream', 'llama-3.3-70b-instruct', events(['<html>Bad gateway</html>'])],
  ['is refused', 'llama-4-scout', json(503, { error: { message: 'overloaded', type: 'server_error' } })],
]
for (const [name, model, reply] of broken)
  test.serial(`200 from another provider when the collected stream ${name}`, async t => {
    fireworks.next(reply)
    const provider = { order: ['fireworks'], only: ['fireworks', 'together'] }
    const { status, headers, text } = await ask({ model, ...question, max_tokens: 8_000, provider })
    t.is(status, 200, text)
    t.is(headers.get('x-gateway-provider'), 'together')
    t.deepEqual([fireworks.requests.length, together.requests.length], [1, 1])
  })

test.serial('a stream that its caller asked for is passed on as it comes', async t => {
  const account = await gateway.account()
  const body = { model, ...only, ...question, max_tokens: 8_000, stream: true }
  const response = await gateway.fetch('/v1/chat/completions', { key: account.live, body })
  t.is(response.headers.get('content-type')?.split(';')[0], 'text/event-stream')
  t.regex(await response.text(), /data: \[DONE\]\n\n$/)
})
