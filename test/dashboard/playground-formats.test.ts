import { execFile } from 'node:child_process'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ApiError } from '../../api/dashboard/web/api.ts'
import { chat } from '../../api/dashboard/web/pages/playground/chat/formats/chat.ts'
import type { Format, Prompt } from '../../api/dashboard/web/pages/playground/chat/formats/format.ts'
import { messages } from '../../api/dashboard/web/pages/playground/chat/formats/messages.ts'
import { responses } from '../../api/dashboard/web/pages/playground/chat/formats/responses.ts'
import { piecesOf } from '../../api/dashboard/web/pages/playground/chat/stream.ts'
import {
  type Answer,
  type AssistantTurn,
  extended,
  noAnswer,
  openCalls,
  type Piece,
  type Turn,
} from '../../api/dashboard/web/pages/playground/chat/turns.ts'
import { chatReply } from '../emulators/openai.ts'
import { responsesReply } from '../emulators/openai-responses.ts'
import { startWorld } from '../support/chat/gateway.ts'
import { png } from '../support/media/media-files.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useFolder } from '../support/use.ts'

/** The formats of the playground's chat, as its page uses them, against a gateway with emulated providers. */
const run = promisify(execFile)
const maxRunMs = 60_000
const folder = useFolder(test)
const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
const account = use(test, () => world.gateway.account())
test.before(async () => {
  await symlink(join(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))
})

const models = {
  'gpt-4.1': () => world.openai,
  'claude-haiku-4-5': () => world.anthropic,
  'gemini-3.5-flash': () => world.gemini,
}
const formats = { chat, responses, messages }

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather in a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}
let lastId = 0
const says = (text: string, pictures: string[] = []): Turn => ({
  id: ++lastId,
  role: 'user',
  text,
  pictures: pictures.map(url => ({ name: 'a.png', url })),
})

function promptOf(model: string, turns: Turn[], more: Partial<Prompt> = {}): Prompt {
  const usual = { system: 'Be brief.', tools: [], mode: '', temperature: '', maxTokens: '', asksForPictures: false }
  return { model, maxOutputTokens: null, turns, ...usual, ...more }
}

type Read = { answer: Answer; pieces: Piece[] }

async function ask(t: ExecutionContext, format: Format, prompt: Prompt): Promise<Read> {
  const response = await world.gateway.fetch(format.path, { key: account.live, body: format.body(prompt) })
  if (response.status !== 200) t.fail(await response.text())
  const pieces = await collect(response, format)
  return { answer: pieces.reduce(extended, noAnswer), pieces }
}

async function collect(response: Response, format: Format): Promise<Piece[]> {
  const pieces: Piece[] = []
  for await (const piece of piecesOf(response, format)) pieces.push(piece)
  return pieces
}

function turnOf(answer: Answer): AssistantTurn {
  return { id: ++lastId, role: 'assistant', answer, state: 'done', facts: null, error: null }
}

for (const [name, format] of Object.entries(formats))
  for (const [model, upstream] of Object.entries(models)) {
    test.serial(`${name}, ${model}: a text with an image, its tokens, and the rest of the conversation`, async t => {
      const picture = png().toString('base64')
      const turns = [says('What is this?', [`data:image/png;base64,${picture}`])]
      const { answer, pieces } = await ask(t, format, promptOf(model, turns, { temperature: 0.5, maxTokens: 200 }))
      t.regex(answer.text, /^Echo: What is this\?/)
      t.is(answer.finishReason === 'length', false)
      const tokens = Object.assign({}, ...pieces.map(piece => piece.tokens))
      t.true(tokens.prompt > 0 && tokens.completion > 0)
      t.true(upstream().requests.at(-1)!.raw.includes(picture))
      const next = promptOf(model, [...turns, turnOf(answer), says('And now?')])
      t.is((await ask(t, format, next)).answer.text, 'Echo: And now?')
      t.regex(upstream().requests.at(-1)!.raw.toString(), /Be brief\..*And now\?|And now\?.*Be brief\./s)
    })

    test.serial(`${name}, ${model}: tools are called, and their results sent`, async t => {
      const turns = [says('The weather in Oslo and Rome?')]
      const { answer } = await ask(t, format, promptOf(model, turns, { tools: [weather] }))
      const asked = [...turns, turnOf(answer)]
      const calls = openCalls(asked)
      t.true(calls.length > 0)
      t.true(calls.every(call => call.name === 'get_weather' && JSON.parse(call.arguments).city))
      const results = calls.map(({ id, name: called }, index): Turn => {
        return { id: ++lastId, role: 'tool', callId: id, name: called, text: `sunny ${index}` }
      })
      const end = await ask(t, format, promptOf(model, [...asked, ...results], { tools: [weather] }))
      t.regex(end.answer.text, /\w/)
      t.deepEqual(end.answer.toolCalls, [])
      t.true(calls.every((_, index) => upstream().requests.at(-1)!.raw.includes(`sunny ${index}`)))
    })
  }

for (const [name, format] of Object.entries(formats)) {
  test.serial(`${name}: tools that are none are sent as they were entered`, t => {
    const tools = [1, null, { function: null }, { type: 'web_search' }]
    const body = format.body(promptOf('gpt-4.1', [says('Hi')], { tools }))
    t.deepEqual((body as { tools: unknown }).tools, tools)
  })

  test.serial(`${name}: a stream that breaks, and one that is cut off, are not a whole answer`, async t => {
    const prompt = promptOf('gpt-4.1', [says('Hello gateway')])
    world.openai.next(name === 'responses' ? responsesReply({ cutAfter: 5 }) : chatReply({ cutAfter: 3 }))
    const broken = await t.throwsAsync<ApiError>(ask(t, format, prompt), { instanceOf: ApiError })
    t.not(broken.code, 'stream_ended', 'the gateway says it in the stream')
    t.regex(broken.message, /broke off/)
    const response = await world.gateway.fetch(format.path, { key: account.live, body: format.body(prompt) })
    const whole = await response.text()
    const cut = new Response(whole.slice(0, whole.lastIndexOf('data: ')))
    t.is((await t.throwsAsync<ApiError>(collect(cut, format))).code, 'stream_ended')
  })

  test.serial(`${name}: the code for Node.js prints the answer, that for Python is well-formed`, async t => {
    const prompt = promptOf('auto', [says('It\'s "quoted" \\ \n "model": true')], { mode: 'quality', tools: [weather] })
    const body = format.body(prompt)
    const script = join(folder, `${name}.mjs`)
    await writeFile(script, format.javascript(world.gateway.url, body))
    const env = { ...process.env, HEADGATE_API_KEY: account.test }
    const { stdout } = await run(process.execPath, [script], { env, timeout: maxRunMs })
    t.true(stdout.includes('"model": true'), stdout)
    const python = format.python(world.gateway.url, body)
    t.regex(python, /extra_body=\{\n {8}"mode": "quality",\n {4}\}/)
    const file = join(folder, `${name}.py`)
    await writeFile(file, python)
    const hasPython = await run('python3', ['--version']).then(
      () => true,
      () => false,
    )
    if (hasPython) await t.notThrowsAsync(run('python3', ['-m', 'py_compile', file], { timeout: maxRunMs }))
  })
}
