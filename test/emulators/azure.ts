import { Emulator, json, type Recorded, type Reply } from './emulator.ts'
import { reply as openai } from './openai.ts'
import { openAiAudio } from './openai-audio.ts'
import { openAiImages } from './openai-images.ts'

/** A resource of Azure OpenAI. */
export type AzureOptions = {
  apiKey: string
  /** The models of its deployments, by their names. */
  deployments: Record<string, string>
  /** Whether a token of Entra ID is accepted; without it only the API key is. */
  acceptsToken?(token: string): boolean
}

/** A prompt with this word is refused by the content filter. */
export const filteredWord = 'harmful'

/** The models with reasons to filter, as every answer of Azure OpenAI has them. */
const passed = {
  hate: { filtered: false, severity: 'safe' },
  jailbreak: { filtered: false, detected: false },
  self_harm: { filtered: false, severity: 'safe' },
  sexual: { filtered: false, severity: 'safe' },
  violence: { filtered: false, severity: 'safe' },
}

/** The dated versions of the API that the older paths take. */
const datedVersions = new Set(['2024-10-21', '2025-03-01-preview'])

/**
 * A resource of Azure OpenAI on a local port: `/openai/v1/…` with the deployment as the model, and `/openai/deployments/{name}/…`
 * with a dated version (learn.microsoft.com/azure/foundry/openai/api-version-lifecycle). What it refuses, and its words:
 * chatboxai/chatbox#861 (`DeploymentNotFound`), compl-ai/compl-ai#20 (`content_filter` with its `innererror`),
 * run-llama/llama_index#16503 (`OperationNotSupported`), hotovo/aider-desk#460 (an unknown version); the first chunk of a stream:
 * AbanteAI/archive-old-cli-mentat#429.
 */
export function startAzure(options: AzureOptions): Promise<Emulator> {
  return Emulator.start(azureReply(options))
}

/** What a resource answers. */
export function azureReply(options: AzureOptions): Reply {
  return (request, response) => route(request, options)(request, response)
}

/** An error as Azure writes it: its `code` is a text, with a number or a name. */
export function azureError(status: number, code: string, message: string, headers = {}): Reply {
  return json(status, { error: { code, message } }, { 'apim-request-id': 'emulated', ...headers })
}

export const wrongKey = azureError(
  401,
  '401',
  'Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription and use a correct regional API endpoint for your resource.',
)
export const tooManyRequests = azureError(
  429,
  '429',
  'Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 1 second.',
  { 'retry-after': '1', 'retry-after-ms': '400' },
)
const deploymentNotFound = azureError(
  404,
  'DeploymentNotFound',
  'The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.',
)
const unknownVersion = azureError(400, 'BadRequest', 'API version not supported')
const notFound = azureError(404, '404', 'Resource not found')

const filtered = json(400, {
  error: {
    message:
      "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.",
    type: null,
    param: 'prompt',
    code: 'content_filter',
    status: 400,
    innererror: {
      code: 'ResponsibleAIPolicyViolation',
      content_filter_result: { ...passed, violence: { filtered: true, severity: 'medium' } },
    },
  },
})

const audioRoute = /^\/audio\//
const imageRoute = /^\/images\//

function route(request: Recorded, { apiKey, deployments, acceptsToken }: AzureOptions): Reply {
  const { headers, method, query } = request
  const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1]
  const isKey = headers['api-key'] === apiKey || token === apiKey
  if (!isKey && !(token && acceptsToken?.(token))) return wrongKey
  const [, path = ''] = /^\/openai\/v1(\/.*)$/.exec(request.path) ?? []
  const [, dated = '', datedPath = ''] = /^\/openai\/deployments\/([^/]+)(\/.*)$/.exec(request.path) ?? []
  if (dated && !datedVersions.has(query.get('api-version') ?? '')) return unknownVersion
  const place = path || datedPath
  if (!place) return notFound
  if (method === 'GET' && place === '/models') return openaiAt(request, '/models', null)
  const name = dated || nameOf(request)
  const model = deployments[name]
  if (!model) return deploymentNotFound
  if (audioRoute.test(place) !== /tts|whisper|transcribe/.test(model))
    return azureError(400, 'OperationNotSupported', `The operation does not work with the specified model, ${model}.`)
  if (JSON.stringify(request.body)?.includes(filteredWord)) return filtered
  return openaiAt(request, place, { name, model })
}

/** The deployment that a body names, JSON or a form. */
function nameOf({ body, raw }: Recorded): string {
  return body?.model ?? /name="model"\r\n\r\n([^\r]+)/.exec(raw.toString('latin1'))?.[1] ?? ''
}

/** What OpenAI answers, with the results of the content filter. */
function openaiAt(request: Recorded, path: string, deployment: { name: string; model: string } | null): Reply {
  const inner = { ...request, path: `/v1${path}`, headers: { ...request.headers, authorization: 'Bearer emulated' } }
  if (deployment && request.body) inner.body = { ...request.body, model: deployment.model }
  else if (deployment) {
    const part = (model: string) => `name="model"\r\n\r\n${model}`
    inner.raw = Buffer.from(
      request.raw.toString('latin1').replace(part(deployment.name), part(deployment.model)),
      'latin1',
    )
  }
  if (audioRoute.test(path)) return (_request, response) => openAiAudio(inner, response)
  if (imageRoute.test(path)) return (_request, response) => openAiImages(inner, response)
  return (_request, response) => {
    if (path === '/chat/completions') withFilterResults(response, request.body?.stream === true)
    return openai(inner, response)
  }
}

/** A stream begins with a chunk that has no choices, and each choice has results; so has a whole answer. */
function withFilterResults(response: Parameters<Reply>[1], isStreamed: boolean): void {
  const prompt_filter_results = [{ prompt_index: 0, content_filter_results: passed }]
  const { writeHead, end } = response
  response.writeHead = ((status: number, ...rest: unknown[]) => {
    const result = writeHead.call(response, status, ...(rest as [Record<string, string>]))
    const chunk = { choices: [], created: 0, id: '', model: '', object: '', prompt_filter_results }
    if (isStreamed && status === 200) response.write(`data: ${JSON.stringify(chunk)}\n\n`)
    return result
  }) as typeof writeHead
  if (isStreamed) return
  response.end = ((text: string) => {
    const answer = JSON.parse(text)
    const choices = answer.choices?.map((choice: object) => ({ ...choice, content_filter_results: passed }))
    return end.call(response, JSON.stringify(choices ? { ...answer, choices, prompt_filter_results } : answer), 'utf8')
  }) as typeof end
}
