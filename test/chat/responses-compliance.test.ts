import type { ResponsesEvent, ResponsesObject } from '../../shared/kinds/responses-answer.ts'
import { answersError } from '../support/api/edge.ts'
import { dataOf, startWorld } from '../support/chat/gateway.ts'
import { openResponse } from '../support/chat/open-responses.ts'
import { assertOrdered } from '../support/chat/responses.ts'
import { pdfOfPages } from '../support/media/documents.ts'
import { png } from '../support/media/media-files.ts'
import { keepingAccount } from '../support/responses/world.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use } from '../support/use.ts'

/**
 * The requests of the compliance suite of Open Responses (version 2026-04-24), by its names of them, to a native provider
 * and to those that are translated. Each answer and event has to have every field of the specification.
 */

const world = use(test, () => startWorld({ OPENROUTER_API_KEY: '' }))
const account = use(test, () => world.gateway.account())

/** The first two are native, and their provider’s web searches have a price. */
const models = {
  'gpt-5.6-luna': () => world.openai,
  'gpt-4o-mini': () => world.openai,
  'claude-haiku-4-5': () => world.anthropic,
  'gemini-3.5-flash': () => world.gemini,
}

const native = (model: string) => model.startsWith('gpt-')

const said = (role: string, content: unknown) => ({ type: 'message', role, content })
const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'Get the current weather for a location',
  parameters: {
    type: 'object',
    properties: { location: { type: 'string', description: 'The city and state, e.g. San Francisco, CA' } },
    required: ['location'],
  },
}
const weatherQuestion = said('user', "What's the weather like in San Francisco?")
const dataUri = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString('base64')}`

type Template = { body: object; type?: 'function_call'; sent?: RegExp; dropped?: string }
const templates: Record<string, Template> = {
  'basic-response': { body: { input: [said('user', 'Say hello in exactly 3 words.')] }, sent: /exactly 3 words/ },
  'system-prompt': {
    body: {
      input: [said('system', 'You are a pirate. Always respond in pirate speak.'), said('user', 'Say hello.')],
    },
    sent: /You are a pirate/,
  },
  'tool-calling': { body: { input: [weatherQuestion], tools: [weather] }, type: 'function_call' },
  'function-call-roundtrip': {
    body: {
      input: [
        weatherQuestion,
        {
          type: 'function_call',
          call_id: 'call_abc123',
          name: 'get_weather',
          arguments: '{"location":"San Francisco, CA"}',
        },
        { type: 'function_call_output', call_id: 'call_abc123', output: '{"temperature":72,"condition":"sunny"}' },
      ],
      tools: [weather],
    },
    sent: /temperature.*72.*condition/,
  },
  'image-input': {
    body: {
      input: [
        said('user', [
          { type: 'input_text', text: 'What do you see in this image? Answer in one sentence.' },
          { type: 'input_image', image_url: dataUri('image/png', png()) },
        ]),
      ],
    },
    sent: new RegExp(png().toString('base64').slice(0, 40).replaceAll('+', '\\+')),
  },
  'file-input': {
    body: {
      input: [
        said('user', [
          { type: 'input_text', text: 'Summarize this document in one sentence.' },
          { type: 'input_file', filename: 'document.pdf', file_data: dataUri('application/pdf', pdfOfPages(1)) },
        ]),
      ],
    },
    sent: new RegExp(pdfOfPages(1).toString('base64').slice(0, 40)),
  },
  'multi-turn': {
    body: {
      input: [
        said('user', 'My name is Alice.'),
        said('assistant', 'Hello Alice! Nice to meet you. How can I help you today?'),
        said('user', 'What is my name?'),
      ],
    },
    sent: /My name is Alice.*Nice to meet you.*What is my name/s,
  },
  // Tools that a provider would run have no price here: an answer without them, which says so.
  'file-search': {
    body: {
      input: [said('user', 'Find the policy on refunds.')],
      tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }],
    },
    dropped: 'tools.file_search',
  },
  'offline-web-search': {
    body: {
      input: [said('user', 'Search the web for the weather of today.')],
      tools: [{ type: 'web_search', external_web_access: false }],
    },
    dropped: 'tools.web_search',
  },
}

const send = (body: object) => world.gateway.fetch('/v1/responses', { key: account.live, body })

async function completeResponse(
  t: ExecutionContext,
  body: { model: string },
  { dropped }: Template,
): Promise<ResponsesObject> {
  const response = await send(body)
  const text = await response.text()
  t.is(response.status, 200, text)
  const isSold = dropped === 'tools.web_search' && native(body.model)
  t.is(response.headers.get('x-gateway-dropped'), isSold ? null : (dropped ?? null))
  return JSON.parse(text)
}

/** The last response of a stream whose every event is checked (the template `streaming-response`). */
async function streamedResponse(t: ExecutionContext, body: object): Promise<ResponsesObject> {
  const response = await send({ ...body, stream: true })
  t.regex(response.headers.get('content-type')!, /^text\/event-stream/)
  const frames = (await response.text()).trimEnd().split('\n\n')
  t.is(frames.pop(), 'data: [DONE]')
  const events: ResponsesEvent[] = dataOf(frames.join('\n'))
  t.deepEqual(
    frames.filter(frame => !frame.startsWith(':')).map(frame => /^event: (.+)\ndata: /.exec(frame)?.[1]),
    events.map(({ type }) => type),
  )
  assertOrdered(t, events)
  const last = events.at(-1)!
  if (last.type !== 'response.completed') throw new Error(`the stream ended with ${last.type}`)
  return last.response
}

for (const [model, upstream] of Object.entries(models))
  for (const [name, template] of Object.entries(templates))
    test.serial(`200 ${model}, ${name}: whole and streamed`, async t => {
      const { body, type = 'message', sent } = template
      const request = { model, ...body }
      const answers = [await completeResponse(t, request, template), await streamedResponse(t, request)]
      for (const answer of answers) {
        openResponse.parse(answer)
        t.is(answer.status, 'completed')
        t.is(answer.output.at(-1)!.type, type)
      }
      if (sent) for (const one of upstream().requests.slice(-2)) t.regex(one.raw.toString(), sent)
    })

for (const model of Object.keys(models))
  test.serial(`400 ${model}: a hosted tool that the choice requires`, async t => {
    const unsold = native(model) ? ['file-search'] : ['file-search', 'offline-web-search']
    for (const { body } of unsold.map(name => templates[name]!)) {
      const { tools } = body as { tools: [{ type: string }] }
      const refused = await send({ model, ...body, tool_choice: { type: tools[0].type } })
      await answersError(t, refused, 'unsupported_capability', 'tool_choice')
    }
  })

for (const [model, upstream] of Object.entries(models))
  test.serial(`200 ${model}, previous-response-id: whole and streamed`, async t => {
    const { live: key } = await keepingAccount(world)
    const post = (body: object) => world.gateway.fetch('/v1/responses', { key, body: { model, ...body } })
    const first = (await (
      await post({ input: [said('user', 'My name is Alice.')], store: true })
    ).json()) as ResponsesObject
    openResponse.parse(first)
    const next = { previous_response_id: first.id, input: [said('user', 'What is my name?')] }
    const events = dataOf(await (await post({ ...next, stream: true })).text()).slice(0, -1)
    for (const answer of [await (await post(next)).json(), events.at(-1).response]) {
      openResponse.parse(answer)
      t.like(answer, { status: 'completed', previous_response_id: first.id })
    }
    for (const one of upstream().requests.slice(-2)) t.regex(one.raw.toString(), /My name is Alice.*What is my name/s)
  })
