import { Emulator, json, type Recorded, type Reply } from './emulator.ts'
import { chatReply } from './openai.ts'
import type { Json } from './slow-work.ts'

/** Providers of embeddings whose fields are not OpenAI's. */

const usualDimensions = 8
const tokensIn = (text: string) => Math.ceil(text.length / 4)
const total = (texts: string[]) => texts.reduce((sum, text) => sum + tokensIn(text), 0)
const vectorOf = (text: string, dimensions: number) =>
  Array.from({ length: dimensions }, (_, i) => (text.charCodeAt(i % text.length) % 16) / 16)

type Fields = Record<string, (value: unknown) => boolean>
const isText = (value: unknown) => typeof value === 'string'
const isFlag = (value: unknown) => typeof value === 'boolean'
const areTexts = (value: unknown) => Array.isArray(value) && value.length > 0 && value.every(isText)
const isOneOf =
  (...values: unknown[]) =>
  (value: unknown) =>
    values.includes(value)

function keyIn({ headers }: Recorded): boolean {
  const [, key] = /^Bearer (\S+)$/i.exec(headers.authorization ?? '') ?? []
  return key !== undefined && key !== 'invalid'
}

function wrongField(body: Json, fields: Fields): string | undefined {
  return Object.keys(body).find(name => !fields[name]?.(body[name]))
}

/** `EmbedRequest` and `EmbedResponse` of `voyageai`; errors have `detail`. */
const voyageFields: Fields = {
  model: isOneOf('voyage-4', 'voyage-3.5', 'voyage-code-3'),
  input: value => isText(value) || areTexts(value),
  input_type: isOneOf(null, 'query', 'document'),
  truncation: isFlag,
  output_dimension: isOneOf(null, 4, 256, 512, 1024, 2048),
  output_dtype: isOneOf('float', 'int8', 'uint8', 'binary', 'ubinary'),
  encoding_format: isOneOf(null, 'base64'),
}

/** Voyage's embeddings on a local port; the API key `invalid` is refused, and so is every field that it does not have. */
export function startVoyage(): Promise<Emulator> {
  const reply = (request: Recorded): Reply => {
    const { method, path, body } = request
    if (!keyIn(request)) return json(401, { detail: 'Provided API key is invalid.' })
    if (method !== 'POST' || path !== '/v1/embeddings') return json(404, { detail: 'Not Found' })
    const wrong = wrongField(body ?? {}, voyageFields)
    if (wrong) return json(400, { detail: `Argument '${wrong}' is not supported by our API` })
    const texts = [body.input].flat() as string[]
    const data = texts.map((text, index) => ({
      object: 'embedding',
      embedding: vectorOf(text, body.output_dimension ?? usualDimensions),
      index,
    }))
    return json(200, { object: 'list', data, model: body.model, usage: { total_tokens: total(texts) } })
  }
  return Emulator.start((request, response) => reply(request)(request, response))
}

/** `V2EmbedRequest` of `cohere-ai`. */
const embedFields: Fields = {
  model: isOneOf('embed-v4.0', 'embed-english-v3.0', 'embed-multilingual-v3.0'),
  texts: areTexts,
  input_type: isOneOf('search_document', 'search_query', 'classification', 'clustering'),
  embedding_types: areTexts,
  output_dimension: isOneOf(4, 256, 512, 1024, 1536),
  truncate: isOneOf('NONE', 'START', 'END'),
  max_tokens: Number.isInteger,
}
/** docs.cohere.com/docs/compatibility-api: "Supported parameters", with those of cohere-developer-experience#606. */
const chatFields = new Set(
  'model messages stream stream_options reasoning_effort response_format tools temperature max_tokens max_completion_tokens stop seed top_p frequency_penalty presence_penalty logprobs'.split(
    ' ',
  ),
)

/** Cohere's embeddings and its chat in OpenAI's dialect on a local port; errors have `message`. */
export function startCohere(): Promise<Emulator> {
  const refused = (status: number, message: string) => json(status, { id: '1f2b', message })
  const embed = (body: Json): Reply => {
    for (const name of ['model', 'texts', 'input_type'])
      if (body[name] === undefined) return refused(400, `invalid request: ${name} is required`)
    const wrong = wrongField(body, embedFields)
    if (wrong) return refused(422, `unknown field: parameter '${wrong}' is not a valid field`)
    const texts = body.texts as string[]
    if (texts.length > 96) return refused(400, 'invalid request: total number of texts must be at most 96')
    const float = texts.map(text => vectorOf(text, (body.output_dimension as number) ?? usualDimensions))
    const meta = { api_version: { version: '2' }, billed_units: { input_tokens: total(texts) } }
    return json(200, { id: '2c9f', texts, embeddings: { float }, meta, response_type: 'embeddings_by_type' })
  }
  const chat = (body: Json): Reply => {
    const stranger = Object.keys(body).find(name => !chatFields.has(name))
    if (stranger) return refused(422, `unknown field: parameter '${stranger}' is not a valid field`)
    const format = body.response_format as Json | undefined
    if (format && format.type !== 'json_object') return refused(400, 'invalid request: response_format')
    if (format && body.tools) return refused(400, 'response_format is not supported with tools')
    return chatReply()
  }
  const reply = (request: Recorded): Reply => {
    const { method, path, body } = request
    if (!keyIn(request)) return refused(401, 'invalid api token')
    if (method === 'POST' && path === '/v2/embed') return embed(body ?? {})
    if (method === 'POST' && path === '/compatibility/v1/chat/completions') return chat(body ?? {})
    return refused(404, 'Not Found')
  }
  return Emulator.start((request, response) => reply(request)(request, response))
}
