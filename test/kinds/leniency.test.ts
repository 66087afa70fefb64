import { chatRequest } from '../../shared/kinds/chat.ts'
import { completionRequest } from '../../shared/kinds/completion.ts'
import { embeddingRequest } from '../../shared/kinds/embedding.ts'
import { messagesRequest } from '../../shared/kinds/messages.ts'
import { responsesRequest } from '../../shared/kinds/responses.ts'
import { startWorld } from '../support/chat/gateway.ts'
import { pdfOfPages } from '../support/media/documents.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

type Json = Record<string, unknown>
let key: string
const world = use(test, startWorld)
test.before(async () => {
  key = (await world.gateway.account()).live
})

async function answerTo(path: string, body: Json) {
  const response = await world.gateway.fetch(path, { key, body })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** What the last provider that was called got. */
function sent(): Json {
  const all = [world.openai, world.anthropic, world.gemini, world.openrouter].flatMap(({ requests }) => requests)
  return JSON.parse(all.at(-1)!.raw.toString())
}

function reset(): void {
  for (const emulator of [world.openai, world.anthropic, world.gemini, world.openrouter]) emulator.reset()
}

/** The optional members of a request, each null. */
function nulls({ shape }: { shape: object }): Json {
  const optional = Object.entries(shape).filter(([, schema]) => schema._zod.optin === 'optional')
  return Object.fromEntries(optional.map(([name]) => [name, null]))
}

const messages = [{ role: 'user', content: 'Hi' }]
const parameters = { type: 'object', properties: { a: { enum: [null, 'b'] } }, additionalProperties: false }
const nestedNulls = {
  tools: [
    {
      type: 'function',
      function: { name: 'f', description: null, parameters, strict: null },
      cache_control: null,
    },
  ],
  provider: { order: null, only: null, ignore: null, allow_fallbacks: null },
  stream_options: { include_usage: null },
}
const routes: [path: string, schema: { shape: object }, body: Json, models: string[]][] = [
  ['/v1/chat/completions', chatRequest, { messages }, ['gpt-4o', 'claude-haiku-4-5', 'gemini-2.5-flash', 'kimi-k2.5']],
  ['/v1/messages', messagesRequest, { messages, max_tokens: 9 }, ['gpt-4o', 'claude-haiku-4-5', 'kimi-k2.5']],
  ['/v1/responses', responsesRequest, { input: 'Hi' }, ['gpt-4o', 'claude-haiku-4-5', 'kimi-k2.5']],
  ['/v1/completions', completionRequest, { prompt: 'Hi' }, ['gpt-4o', 'claude-haiku-4-5']],
  ['/v1/embeddings', embeddingRequest, { input: 'Hi' }, ['text-embedding-3-small', 'gemini-embedding-001']],
]
for (const [path, schema, body, models] of routes)
  for (const model of models)
    test.serial(`200 for ${path} on ${model} with null in every optional member, sent as without`, async t => {
      reset()
      t.like(await answerTo(path, { model, ...body }), { status: 200 })
      const expected = sent()
      const answer = await answerTo(path, { ...nulls(schema), model, ...body })
      t.is(answer.status, 200, answer.text)
      t.deepEqual(sent(), expected)
      t.is(answer.headers.get('x-gateway-dropped'), null)
    })

for (const model of ['gpt-4o', 'claude-haiku-4-5', 'kimi-k2.5'])
  test.serial(`200 on ${model} with nulls in tools, preferences and options; those of a schema stay`, async t => {
    reset()
    const answer = await answerTo('/v1/chat/completions', { model, messages, ...nestedNulls })
    t.is(answer.status, 200, answer.text)
    const [tool] = sent().tools as Json[]
    t.false(JSON.stringify(tool).replace('[null,"b"]', '').includes('null'), JSON.stringify(tool))
    t.true(JSON.stringify(tool).includes('[null,"b"]'))
  })

test.serial('200 where Claude continues an answer that ends in white space, in chat and Messages', async t => {
  const contents = ['The capital is ', [{ type: 'text', text: 'The capital is \n' }]]
  for (const content of contents)
    for (const path of ['/v1/chat/completions', '/v1/messages']) {
      reset()
      const asked = [...messages, { role: 'assistant', content }]
      const answer = await answerTo(path, { model: 'claude-sonnet-4-5', max_tokens: 20, messages: asked })
      t.is(answer.status, 200, answer.text)
      const last = (sent().messages as Json[]).at(-1)!.content
      t.is(typeof last === 'string' ? last : (last as Json[])[0]!.text, 'The capital is')
    }
})

test.serial('200 with five cache marks on Claude: the last four are sent, and the header says so', async t => {
  reset()
  const mark = { cache_control: { type: 'ephemeral' } }
  const turn = (role: string, text: string) => ({ role, content: [{ type: 'text', text, ...mark }] })
  const marked = [turn('system', 'Be brief.'), turn('user', 'A'), turn('assistant', 'B'), turn('user', 'C')]
  const tools = [{ type: 'function', function: { name: 'f', parameters }, ...mark }]
  const answer = await answerTo('/v1/chat/completions', { model: 'claude-haiku-4-5', messages: marked, tools })
  t.is(answer.status, 200, answer.text)
  t.is(answer.headers.get('x-gateway-dropped'), 'cache_control')
  t.false(JSON.stringify(sent().tools).includes('cache_control'))
  t.is(JSON.stringify(sent()).split('"cache_control"').length - 1, 4)
})

const file_data = `data:text/plain;base64,${Buffer.from('The word is plover.').toString('base64')}`
const inLines = file_data.replace(/.{40}/g, '$&\r\n')
for (const model of ['claude-haiku-4-5', 'gemini-2.5-flash'])
  test.serial(`200 for a text document on ${model}, in chat and Responses, in one line or several`, async t => {
    for (const data of [file_data, inLines]) {
      const file = { file_data: data, filename: 'word.txt' }
      const content = [{ type: 'file', file }]
      const input = [{ role: 'user', content: [{ type: 'input_file', ...file }] }]
      const calls: [string, Json][] = [
        ['/v1/chat/completions', { messages: [{ role: 'user', content }] }],
        ['/v1/responses', { input }],
      ]
      for (const [path, body] of calls) {
        reset()
        const answer = await answerTo(path, { model, ...body })
        t.is(answer.status, 200, answer.text)
        t.true(JSON.stringify(sent()).includes('The word is plover.'))
      }
    }
  })

for (const model of ['gpt-4o', 'claude-haiku-4-5', 'gemini-2.5-flash', 'kimi-k2.5'])
  test.serial(`200 for Responses on ${model} with instructions and an empty message`, async t => {
    reset()
    const input = [{ role: 'user', content: '' }]
    const answer = await answerTo('/v1/responses', { model, instructions: 'Say hello.', input })
    t.is(answer.status, 200, answer.text)
    t.true(JSON.stringify(sent()).includes('Say hello.'))
  })

const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const sound = Buffer.from('RIFF\x24\0\0\0WAVEfmt '.repeat(4)).toString('base64')
const typeIn = (body: Files[2]) => /input_\w+|image\w*/.exec(JSON.stringify(body(plain => plain)))![0]
const linesOf = (base64: string) => `\n${base64.replace(/.{40}/g, '$&\r\n ')}\n`
const forUrls = (uri: string) => uri.replace(/[^,]*$/, base64 => base64.replaceAll('+', '-').replaceAll('/', '_'))
const writings: [how: string, of: (base64: string) => string][] = [
  ['in lines', linesOf],
  ['of the alphabet for URLs', forUrls],
  ['without padding', base64 => base64.replace(/=+$/, '')],
  ['with half of its padding', base64 => base64.replace(/==$/, '=')],
  ['of the alphabet for URLs, without padding', base64 => forUrls(base64).replace(/=+$/, '')],
]
const asked = (part: Json) => ({ messages: [{ role: 'user', content: [part] }] })
type Files = [path: string, models: string[], body: (base64: (plain: string) => string) => Json]
const withFiles: Files[] = [
  [
    '/v1/chat/completions',
    ['gpt-4o', 'claude-haiku-4-5', 'gemini-2.5-flash'],
    of => asked({ type: 'image_url', image_url: { url: of(`data:image/png;base64,${pixel}`) } }),
  ],
  [
    '/v1/chat/completions',
    ['gpt-audio-1.5', 'gemini-2.5-flash'],
    of => asked({ type: 'input_audio', input_audio: { data: of(sound), format: 'wav' } }),
  ],
  [
    '/v1/responses',
    ['gpt-4o', 'claude-haiku-4-5', 'gemini-2.5-flash'],
    of => {
      const part = { type: 'input_image', image_url: of(`data:image/png;base64,${pixel}`), detail: 'auto' }
      return { input: [{ role: 'user', content: [part] }] }
    },
  ],
  [
    '/v1/messages',
    ['gpt-4o', 'claude-haiku-4-5', 'gemini-2.5-flash'],
    of => {
      const source = { type: 'base64', media_type: 'image/png', data: of(pixel) }
      return { max_tokens: 9, ...asked({ type: 'image', source }) }
    },
  ],
]
for (const [path, models, body] of withFiles)
  for (const model of models)
    test.serial(
      `200 for ${path} on ${model} with ${typeIn(body)} in any base64, sent in the standard form`,
      async t => {
        reset()
        const plain = await answerTo(path, { model, ...body(base64 => base64) })
        t.is(plain.status, 200, plain.text)
        const expected = sent()
        for (const [how, of] of writings) {
          const answer = await answerTo(path, { model, ...body(of) })
          t.is(answer.status, 200, `${how}: ${answer.text}`)
          t.deepEqual(sent(), expected, how)
          t.is(answer.headers.get('x-gateway-dropped'), null)
        }
      },
    )

test.serial('200 for a PDF that is declared as bytes, and for a sound as a `data:` URI on Gemini', async t => {
  const pdf = Buffer.from('%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n%%EOF').toString('base64')
  const document = (type: string) =>
    asked({ type: 'file', file: { filename: 'a.pdf', file_data: `data:${type};base64,${pdf}` } })
  for (const model of ['claude-haiku-4-5', 'gemini-2.5-flash']) {
    reset()
    t.is((await answerTo('/v1/chat/completions', { model, ...document('application/pdf') })).status, 200)
    const expected = sent()
    const answer = await answerTo('/v1/chat/completions', { model, ...document('application/octet-stream') })
    t.is(answer.status, 200, answer.text)
    t.deepEqual(sent(), expected)
  }
  const part = (data: string) => asked({ type: 'input_audio', input_audio: { data, format: 'wav' } })
  const cut = await answerTo('/v1/chat/completions', { model: 'gemini-2.5-flash', ...part('QUJDR') })
  t.is(cut.status, 400, 'no base64 has this length')
  t.is((await answerTo('/v1/chat/completions', { model: 'gemini-2.5-flash', ...part(sound) })).status, 200)
  const expected = sent()
  const answer = await answerTo('/v1/chat/completions', {
    model: 'gemini-2.5-flash',
    ...part(`data:audio/wav;base64,${sound}`),
  })
  t.is(answer.status, 200, answer.text)
  t.deepEqual(sent(), expected)
})

test.serial('200 with plain text that has the form of base64 in lines: it keeps its white space', async t => {
  for (const model of ['gpt-4o', 'claude-haiku-4-5']) {
    reset()
    const source = { type: 'text', media_type: 'text/plain', data: 'hello\nworld' }
    const body = { model, max_tokens: 9, ...asked({ type: 'document', source }) }
    const answer = await answerTo('/v1/messages', body)
    t.is(answer.status, 200, answer.text)
    t.true(JSON.stringify(sent()).includes('hello\\nworld'))
  }
})

const uri = `data:image/png;base64,${pixel}`
const ofImage = (image_url: unknown) => ({
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is it?' },
        { type: 'image_url', image_url },
      ],
    },
  ],
})
const ofInputImage = (part: Json) => ({ input: [{ role: 'user', content: [{ type: 'input_image', ...part }] }] })
const ofChatCall = (written: unknown) => ({
  messages: [
    ...messages,
    { role: 'assistant', tool_calls: [{ id: 'call00001', function: { name: 'f', arguments: written } }] },
    { role: 'tool', tool_call_id: 'call00001', content: '4' },
  ],
})
const ofResponsesCall = (written: unknown) => ({
  input: [
    { role: 'user', content: 'Hi' },
    { type: 'function_call', call_id: 'call00001', name: 'f', arguments: written },
    { type: 'function_call_output', call_id: 'call00001', output: '4' },
  ],
})
const ofChoice = (tool_choice: string) => ({
  messages,
  tools: [{ type: 'function', function: { name: 'f', parameters } }],
  tool_choice,
})
const ofSchema = (name: object) => ({
  messages,
  response_format: { type: 'json_schema', json_schema: { schema: parameters, ...name } },
})
const ofFormat = (response_format: Json) => ({ messages, response_format })
const ofPart = (part: Json) => ({
  messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, part] }],
})
const document = `data:application/pdf;base64,${pdfOfPages(1).toString('base64')}`
const ofFile = (filename: string) => ofPart({ type: 'file', file: { file_data: document, filename } })
const ofDocument = (more: Json) => ofPart({ type: 'document_url', document_url: document, ...more })
const inputObject = { a: 1, b: { c: 'ü' } }
const otherForms: [what: string, path: string, other: Json, described: Json][] = [
  ['an image’s URL alone', '/v1/chat/completions', ofImage(uri), ofImage({ url: uri })],
  [
    'an image’s URL in an object',
    '/v1/responses',
    ofInputImage({ image_url: { url: uri, detail: 'low' } }),
    ofInputImage({ detail: 'low', image_url: uri }),
  ],
  [
    'arguments of a call as an object',
    '/v1/chat/completions',
    ofChatCall(inputObject),
    ofChatCall(JSON.stringify(inputObject)),
  ],
  [
    'arguments of a call as an object',
    '/v1/responses',
    ofResponsesCall(inputObject),
    ofResponsesCall(JSON.stringify(inputObject)),
  ],
  ['the tool choice `any`', '/v1/chat/completions', ofChoice('any'), ofChoice('required')],
  ['a schema without a name', '/v1/chat/completions', ofSchema({}), ofSchema({ name: 'answer' })],
  ['a document’s URL', '/v1/chat/completions', ofDocument({}), ofFile('document.pdf')],
  ['a document’s URL and name', '/v1/chat/completions', ofDocument({ document_name: 'a.pdf' }), ofFile('a.pdf')],
  [
    'a schema in `json_object`',
    '/v1/chat/completions',
    ofFormat({ type: 'json_object', schema: parameters }),
    ofSchema({ name: 'answer' }),
  ],
  [
    'a schema as the value of `json_object`',
    '/v1/chat/completions',
    ofFormat({ type: 'json_object', value: parameters }),
    ofSchema({ name: 'answer' }),
  ],
  [
    'a schema as the value of `json`',
    '/v1/chat/completions',
    ofFormat({ type: 'json', value: parameters }),
    ofSchema({ name: 'answer' }),
  ],
]
for (const [what, path, other, described] of otherForms)
  for (const model of ['gpt-4o', 'claude-haiku-4-5', 'gemini-2.5-flash'])
    test.serial(`200 for ${path} on ${model} with ${what}, sent as described`, async t => {
      reset()
      const plain = await answerTo(path, { model, ...described })
      t.is(plain.status, 200, plain.text)
      const expected = sent()
      const answer = await answerTo(path, { model, ...other })
      t.is(answer.status, 200, answer.text)
      t.deepEqual(sent(), expected)
      t.is(answer.headers.get('x-gateway-dropped'), plain.headers.get('x-gateway-dropped'))
    })

test.serial('200 with null as the schema of `json_object`, which is left out', async t => {
  reset()
  const format = { type: 'json_object', schema: null }
  const answer = await answerTo('/v1/chat/completions', { model: 'gpt-4o', ...ofFormat(format) })
  t.is(answer.status, 200, answer.text)
  t.deepEqual(sent().response_format, { type: 'json_object' })
})

test.serial('400 naming the wrong part beside one in another form', async t => {
  const content = [{ type: 'image_url', image_url: uri }, { type: 'text' }]
  const { status, text } = await answerTo('/v1/chat/completions', {
    model: 'gpt-4o',
    messages: [{ role: 'user', content }],
  })
  t.is(status, 400)
  t.is(JSON.parse(text).error.param, 'messages.0.content.1.text')
})
