// Members in which usually is no text: a caller can write any text into them, which the provider gets.

import { saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { questionsOf, startGuard, verdict } from '../support/webhooks/guard.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Any = any

const world = use(test, () =>
  startWorld({ ENCRYPTION_KEY: 'a-secret-of-enough-characters-0123456789', ALLOW_PRIVATE_URLS: 'true' }),
)
const guard = use(test, startGuard)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.gemini]) emulator.reset()
  guard.received.length = 0
  guard.always = verdict({ action: 'allow' })
})

const address = 'jane.doe@example.com'
const card = '4111111111111111'
const detecting = (action: 'mask' | 'block') => ({
  detectors: (['email', 'card', 'phone'] as const).map(type => ({ type, action, on: 'input' as const })),
  webhook: null,
  other_kinds: 'refuse' as const,
})
const accountOf = async (guardrails: Any) => (await world.gateway.account({ guardrails })).live
const sent = () => [world.openai, world.anthropic, world.gemini].flatMap(({ requests }) => requests)

const gpt = 'gpt-4o-mini'
const claude = 'claude-sonnet-4-5'
const hi = { role: 'user', content: 'Hi' }
const schema = { type: 'object', properties: {} }
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const chat = (more: object) => ['/v1/chat/completions', { ...saying(gpt), ...more }] as const
const messages = (turns: object[], more: object = {}) =>
  ['/v1/messages', { model: claude, max_tokens: 100, messages: turns, ...more }] as const
const said = (...content: object[]) => messages([hi, { role: 'assistant', content }, hi])
const responses = (input: unknown, more: object = {}) =>
  ['/v1/responses', { model: gpt, input, store: false, ...more }] as const
const gemini = (parts: object[], more: object = {}) =>
  ['/v1beta/models/gemini-2.5-flash:generateContent', { contents: [{ role: 'user', parts }], ...more }] as const

/** Requests with a value in a member, which reaches the provider. */
const places: Record<string, (value: string) => readonly [string, object]> = {
  'the name of who speaks': value => chat({ messages: [{ ...hi, name: value }] }),
  'the name of an assistant': value => chat({ messages: [hi, { role: 'assistant', content: 'x', name: value }, hi] }),
  'the id of a call': value =>
    chat({
      messages: [
        hi,
        { role: 'assistant', tool_calls: [{ id: value, type: 'function', function: { name: 'f', arguments: '{}' } }] },
        { role: 'tool', tool_call_id: value, content: 'x' },
      ],
    }),
  'the type of a detail': value =>
    chat({ messages: [hi, { role: 'assistant', content: 'x', reasoning_details: [{ type: value }] }, hi] }),
  'a cache key': value => chat({ prompt_cache_key: value }),
  'a safety identifier': value => chat({ safety_identifier: value }),
  'an end user': value => chat({ user: value }),
  'a stop': value => chat({ stop: [value] }),
  'a prediction': value => chat({ prediction: { type: 'content', content: [{ type: 'text', text: value }] } }),
  'the name of a schema': value =>
    chat({ response_format: { type: 'json_schema', json_schema: { name: value, schema } } }),
  'the description of a property called name': value =>
    chat({
      tools: [
        {
          type: 'function',
          function: { name: 'f', parameters: { type: 'object', properties: { name: { description: value } } } },
        },
      ],
    }),
  'the file name of a document': value =>
    chat({
      messages: [
        {
          role: 'user',
          content: [{ type: 'file', file: { filename: value, file_data: `data:application/pdf;base64,${pixel}` } }],
        },
      ],
    }),
  'encrypted reasoning of Anthropic': value =>
    said({ type: 'redacted_thinking', data: value }, { type: 'text', text: 'x' }),
  'a signature': value => said({ type: 'thinking', thinking: 'x', signature: value }, { type: 'text', text: 'x' }),
  'the title of a document': value =>
    messages([
      {
        role: 'user',
        content: [{ type: 'document', title: value, source: { type: 'text', media_type: 'text/plain', data: 'x' } }],
      },
    ]),
  'the text of a document': value =>
    messages([
      {
        role: 'user',
        content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: value } }],
      },
    ]),
  'a cache mark': value =>
    messages([
      { role: 'user', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral', note: value } }] },
    ]),
  'a cited page': value =>
    said({
      type: 'text',
      text: 'x',
      citations: [
        { type: 'web_search_result_location', url: value, title: 'x', cited_text: 'x', encrypted_index: 'x' },
      ],
    }),
  'the name of an unknown block': value =>
    messages([{ role: 'user', content: [{ type: 'text', text: 'x', name: value }] }]),
  'the name of an unknown member': value =>
    messages([{ role: 'user', content: [{ type: 'text', text: 'x', [value]: 1 }] }]),
  'an end user of Anthropic': value => messages([hi], { metadata: { user_id: value } }),
  'encrypted reasoning of OpenAI': value =>
    responses([{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: value }, hi]),
  'a summary of reasoning': value =>
    responses([
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: value }], encrypted_content: 'x' },
      hi,
    ]),
  'the id of an item': value => responses([{ type: 'message', id: value, role: 'assistant', content: 'x' }, hi]),
  'the name of a label': value => responses('Hi', { metadata: { [value]: 'x' } }),
  'a signature of Gemini': value => gemini([{ text: 'x', thoughtSignature: value }]),
  'a thought of Gemini': value => gemini([{ text: value, thought: true, thoughtSignature: 'x' }]),
  'a property called id of a schema of Gemini': value =>
    gemini([{ text: 'x' }], {
      generationConfig: {
        responseMimeType: 'application/json',
        responseSchema: { type: 'OBJECT', properties: { id: { type: 'STRING', description: value } } },
      },
    }),
}

for (const [place, requestOf] of Object.entries(places)) {
  test.serial(`400 without a call for a value in ${place}`, async t => {
    const live = await accountOf(detecting('block'))
    for (const value of [address, card]) {
      const [path, body] = requestOf(value)
      const refused = await world.gateway.fetch(path, { key: live, body })
      const text = await refused.text()
      t.is(refused.status, 400, text)
      t.regex(text, /an email address|a payment card number/)
      t.false(text.includes(value), text)
    }
    t.is(sent().length, 0)
  })

  test.serial(`a value in ${place} is masked`, async t => {
    const live = await accountOf(detecting('mask'))
    for (const value of [address, card]) {
      const [path, body] = requestOf(value)
      await (await world.gateway.fetch(path, { key: live, body })).text()
      t.false(sent().some(({ raw }) => raw.toString().includes(value)))
    }
  })
}

/** Requests with a file; `mediaType` is what the client says of it. */
const fileRequests: Record<string, (base64: string, mediaType: string) => readonly [string, object]> = {
  'chat completions': (base64, mediaType) =>
    chat({
      messages: [
        {
          ...hi,
          content: [{ type: 'file', file: { filename: 'a', file_data: `data:${mediaType};base64,${base64}` } }],
        },
      ],
    }),
  'chat completions, in lines': (base64, mediaType) =>
    fileRequests['chat completions']!(base64.replace(/.{20}/g, '$&\n'), mediaType),
  Responses: (base64, mediaType) =>
    responses([
      {
        role: 'user',
        content: [{ type: 'input_file', filename: 'a', file_data: `data:${mediaType};base64,${base64}` }],
      },
    ]),
  'Responses, without a media type': base64 =>
    responses([{ role: 'user', content: [{ type: 'input_file', filename: 'a.csv', file_data: base64 }] }]),
  Gemini: (data, mimeType) => gemini([{ inlineData: { mimeType, data } }, { text: 'x' }]),
}
const encoded = (text: string | Buffer) => Buffer.from(text).toString('base64')
/** All that was sent, with what is base64 in it decoded. */
const sentText = () =>
  sent()
    .map(({ raw }) =>
      raw
        .toString()
        .replaceAll('\\n', '')
        .replace(/[\w+/]{16,}={0,2}/g, found => `${found} ${Buffer.from(found, 'base64')}`),
    )
    .join('\n')
const csv = `name,address\nJosé,${address}\nMax,max@example.org\n`

for (const [dialect, requestOf] of Object.entries(fileRequests)) {
  test.serial(`${dialect}: 400 without a call for a value in a text file`, async t => {
    const live = await accountOf(detecting('block'))
    for (const mediaType of ['text/csv', 'application/json', 'text/plain;charset=utf-8', 'application/octet-stream']) {
      const [path, body] = requestOf(encoded(csv), mediaType)
      const refused = await world.gateway.fetch(path, { key: live, body })
      const text = await refused.text()
      t.is(refused.status, 400, `${mediaType}: ${text}`)
      t.regex(text, /an email address/, mediaType)
      t.false(text.includes(address))
    }
    t.is(sent().length, 0)
  })

  test.serial(`${dialect}: 200 with the values in a text file masked, and all else of it as it was`, async t => {
    const live = await accountOf(detecting('mask'))
    const [path, body] = requestOf(encoded(csv), 'text/csv')
    const answer = await world.gateway.fetch(path, { key: live, body })
    t.is(answer.status, 200, await answer.text())
    t.true(sentText().includes('name,address\nJosé,[EMAIL_1]\nMax,[EMAIL_2]\n'), sentText())
  })

  test.serial(`${dialect}: 200 with a file that is no text, or has no value, byte for byte`, async t => {
    const live = await accountOf(detecting('mask'))
    // A PDF begins with text; its bytes say an address that nobody can change without breaking it.
    const pdf = Buffer.concat([Buffer.from(`%PDF-1.7\n%`), Buffer.from([0xe2, 0xe3, 0xcf, 0xd3]), Buffer.from(csv)])
    for (const [bytes, mediaType] of [
      [pdf, 'application/pdf'],
      [Buffer.from('name\nJosé\n'), 'text/csv'],
    ] as const) {
      const [path, body] = requestOf(encoded(bytes), mediaType)
      await (await world.gateway.fetch(path, { key: live, body })).text()
      const raw = sent().at(-1)!.raw.toString().replaceAll('\\n', '')
      t.true(raw.includes(encoded(bytes)), raw)
    }
  })
}

test.serial('200 with the text of a file for the guard, which replaces it', async t => {
  const webhook = { url: guard.url, on: 'input' as const, timeout_ms: 2_000, on_failure: 'fail_closed' as const }
  const live = await accountOf({ ...detecting('mask'), webhook })
  const [path, body] = fileRequests['chat completions']!(encoded(csv), 'text/csv')
  const id = 'messages.0.content.0.file.file_data (file)'
  guard.always = verdict({ action: 'replace', texts: [{ id, text: 'nobody' }] })
  const answer = await world.gateway.fetch(path, { key: live, body })
  t.is(answer.status, 200, await answer.text())
  const asked = questionsOf(guard)[0]!.texts.find(text => text.id === id)
  t.is(asked?.text, 'name,address\nJosé,[EMAIL_1]\nMax,[EMAIL_2]\n')
  t.is(
    world.openai.requests[0]!.body.messages[0].content[0].file.file_data,
    `data:text/csv;base64,${encoded('nobody')}`,
  )
})

test.serial('200 with the value of a name restored in the answer, and the name as a text for the guard', async t => {
  const webhook = { url: guard.url, on: 'input' as const, timeout_ms: 2_000, on_failure: 'fail_closed' as const }
  const live = await accountOf({ ...detecting('mask'), webhook })
  const [path, body] = chat({ messages: [{ role: 'user', name: address, content: `I am ${address}` }] })
  const answer: Any = await (await world.gateway.fetch(path, { key: live, body })).json()
  t.is(answer.choices[0].message.content, `Echo: I am ${address}`)
  t.is(world.openai.requests[0]!.body.messages[0].name, '[EMAIL_1]')
  t.deepEqual(
    questionsOf(guard)[0]!
      .texts.map(({ id, text }) => [id, text])
      .sort(),
    [
      ['messages.0.content', 'I am [EMAIL_1]'],
      ['messages.0.name', '[EMAIL_1]'],
    ],
  )
})

test.serial('200 with ids, names, codes, files and URLs as they are, also those with digits in a row', async t => {
  const webhook = { url: guard.url, on: 'input' as const, timeout_ms: 2_000, on_failure: 'fail_closed' as const }
  const live = await accountOf({ ...detecting('block'), webhook })
  const id = 'call_0012345678'
  const wrapped = pixel.replace(/.{64}/g, '$&\n')
  const [path, body] = chat({
    prompt_cache_key: '5f2c0d4e-0012345678-c0de',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${wrapped}`, detail: 'low' } },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } },
        ],
      },
      {
        role: 'assistant',
        tool_calls: [{ id, type: 'function', function: { name: 'f_555-234-5678', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: id, content: 'x' },
    ],
    tools: [{ type: 'function', function: { name: 'f_555-234-5678', parameters: schema } }],
  })
  const answer = await world.gateway.fetch(path, { key: live, body })
  t.is(answer.status, 200, await answer.text())
  const { messages: turns, tools } = world.openai.requests[0]!.body
  t.is(turns[1].tool_calls[0].id, id)
  t.is(turns[2].tool_call_id, id)
  t.is(tools[0].function.name, 'f_555-234-5678')
  t.deepEqual(
    questionsOf(guard)[0]!.texts.map(({ text }) => text),
    ['Hi', '{}', 'x'],
  )
})
