import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { startAnthropicEmulator } from '../../emulators/anthropic.ts'
import { startPerplexity } from '../../emulators/perplexity.ts'
import { test } from '../../support/test.ts'
import { use, useGateway } from '../../support/use.ts'

const perplexity = use(test, startPerplexity)
const anthropic = use(test, startAnthropicEmulator)
const gateway = useGateway(test, () => ({
  PERPLEXITY_API_KEY: 'pplx-secret',
  PERPLEXITY_BASE_URL: perplexity.url,
  ANTHROPIC_API_KEY: 'ant-secret',
  ANTHROPIC_BASE_URL: anthropic.url,
}))
test.beforeEach(() => perplexity.reset())

// biome-ignore lint/suspicious/noExplicitAny: answers and bodies of every shape
type Any = any

const model = 'sonar'
/** Three bytes, of which JavaScript's strings have one unit. */
const question = 'What is new in €?'
const text = `Echo: ${question}[2]`
const start = text.indexOf('[2]')
const page = { url: 'https://b.example/two', title: 'Page 2' }

test.serial('Responses have annotations, whole and streamed', async t => {
  const { live } = await gateway.account()
  const sdk = new OpenAI({ apiKey: live, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  const cited = [{ type: 'url_citation', start_index: start, end_index: start + 3, ...page }]
  const whole = await sdk.responses.create({ model, input: question })
  t.deepEqual((whole.output[0] as Any).content[0].annotations, cited)
  const stream = sdk.responses.stream({ model, input: question })
  const added: Any[] = []
  const types: string[] = []
  for await (const event of stream) {
    types.push(event.type)
    if (event.type === 'response.output_text.annotation.added') added.push(event)
  }
  t.deepEqual(
    added.map(({ annotation }) => annotation),
    cited,
  )
  t.like(added[0], { output_index: 0, content_index: 0, annotation_index: 0 })
  t.true(types.indexOf('response.output_text.annotation.added') < types.indexOf('response.output_text.done'))
  const final = await stream.finalResponse()
  t.deepEqual((final.output[0] as Any).content[0].annotations, cited)
  // The answer is taken back as a part of the conversation.
  const input = [
    { role: 'user' as const, content: question },
    ...(final.output as Any[]),
    { role: 'user', content: 'Go on' },
  ]
  t.is((await sdk.responses.create({ model, input })).output_text, 'Echo: Go on[2]')
})

test.serial('Messages have citations, whole and streamed, which Claude does not get back', async t => {
  const { live } = await gateway.account()
  const sdk = new Anthropic({ apiKey: live, baseURL: gateway.url, maxRetries: 0 })
  const asked = { model, max_tokens: 50, messages: [{ role: 'user' as const, content: question }] }
  const cited = [{ type: 'web_search_result_location', ...page, cited_text: 'A text.', encrypted_index: '' }]
  const whole = await sdk.messages.create(asked)
  t.is((whole.content[0] as Any).text, text)
  t.deepEqual((whole.content[0] as Any).citations, cited)
  const stream = sdk.messages.stream(asked)
  const told: Any[] = []
  stream.on('citation', citation => void told.push(citation))
  const final = await stream.finalMessage()
  t.deepEqual(told, cited)
  t.is((final.content[0] as Any).text, text)
  t.deepEqual((final.content[0] as Any).citations, cited)
  const messages = [...asked.messages, { role: 'assistant' as const, content: final.content }, ...asked.messages]
  for (const next of [model, 'claude-haiku-4-5']) await sdk.messages.create({ ...asked, model: next, messages })
  t.deepEqual(anthropic.requests.at(-1)!.body.messages[1].content, [{ type: 'text', text }])
})

test.serial('Gemini’s format has grounding, in bytes, whole and streamed', async t => {
  const { live } = await gateway.account()
  const sdk = new GoogleGenAI({ apiKey: live, httpOptions: { baseUrl: gateway.url } })
  const startIndex = Buffer.byteLength(text.slice(0, start))
  const grounding = {
    groundingChunks: [{ web: { uri: page.url, title: page.title } }],
    groundingSupports: [{ segment: { startIndex, endIndex: startIndex + 3, text: '[2]' }, groundingChunkIndices: [0] }],
  }
  const whole = await sdk.models.generateContent({ model, contents: question })
  t.is(whole.text, text)
  t.deepEqual(whole.candidates![0]!.groundingMetadata as Any, grounding)
  const seen: Any[] = []
  for await (const chunk of await sdk.models.generateContentStream({ model, contents: question }))
    seen.push(...(chunk.candidates?.[0]?.groundingMetadata ? [chunk.candidates[0].groundingMetadata] : []))
  t.deepEqual(seen, [grounding])
})
