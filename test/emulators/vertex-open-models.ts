import { json, type Recorded, type Reply } from './emulator.ts'
import { reply as openai } from './openai.ts'
import type { Json } from './slow-work.ts'

/**
 * Where Vertex AI serves models through `endpoints/openapi`: `supported_regions` of LiteLLM's price file, and `VERTEX_OPEN_MAAS_MODELS` of
 * vertesia/llumiverse, which has tried each.
 */
const locationsByModel: Record<string, readonly string[]> = {
  'openai/gpt-oss-120b-maas': ['global', 'us-central1'],
  'meta/llama-4-maverick-17b-128e-instruct-maas': ['us-east5'],
  'meta/llama-4-scout-17b-16e-instruct-maas': ['us-east5'],
  'deepseek-ai/deepseek-v4.1-flash-maas': ['global'],
  'zai-org/glm-5.2-maas': ['global'],
  'xai/grok-4.7': ['global'],
  'xai/grok-4.6': ['global'],
  'xai/grok-4.3': ['global'],
  'xai/grok-4.20-reasoning': ['global'],
}

/** Errors of this endpoint are in an array (continuedev/continue#8967, n4ze3m/page-assist#406). */
export function openModelError(code: number, status: string, message: string): Reply {
  return json(code, [{ error: { code, message, status } }])
}

/** A project that has not enabled a model (langchain-ai/langchain-google#593). */
export const notEnabled = (model: string) =>
  openModelError(
    400,
    'FAILED_PRECONDITION',
    `Project \`123456789\` is not allowed to use Publisher Model \`projects/123456789/locations/global/publishers/${model}\``,
  )

const accepted = new Set(
  `model messages max_tokens max_completion_tokens temperature top_p stop stream stream_options n seed presence_penalty
   frequency_penalty logit_bias logprobs top_logprobs tools tool_choice parallel_tool_calls response_format reasoning_effort user
   chat_template_kwargs`.split(/\s+/),
)

/**
 * Chat completions of open models and Grok at a project and location of Vertex AI. The thoughts are in `reasoning_content`, and the usage has
 * no details of them. A model without a publisher is refused (Ikalus1988/MisakaNet#1472); gpt-oss takes no tool choice that forces a
 * call, by Google's notes on function calling (the profile `vertex-maas` of public clients repeats it).
 */
export function openModelReply({ project, location }: { project: string; location: string }): Reply {
  return (request, response) => (refusalOf(request, project, location) ?? answer(request))(request, response)
}

function refusalOf({ body, headers }: Recorded, project: string, location: string): Reply | undefined {
  const invalid = (message: string) => openModelError(400, 'INVALID_ARGUMENT', message)
  if (!String(headers['content-type']).startsWith('application/json') || !body) return invalid('Invalid JSON payload.')
  const [, publisher, name] = /^([a-z-]+)\/([\w.-]+)$/.exec(String(body.model)) ?? []
  if (!name) return invalid("Malformed publisher model name: expected format '<publisher>/<model>'")
  if (!locationsByModel[body.model]?.includes(location))
    return openModelError(
      404,
      'NOT_FOUND',
      `Publisher Model \`projects/${project}/locations/${location}/publishers/${publisher}/models/${name}\` was not found or your project does not have access to it. Please ensure you are using a valid model version.`,
    )
  const stranger = Object.keys(body).find(field => !accepted.has(field))
  if (stranger) return invalid(`Invalid JSON payload received. Unknown name "${stranger}": Cannot find field.`)
  const { tool_choice: choice } = body
  const isForced = choice === 'required' || typeof choice === 'object'
  if (publisher === 'openai' && choice != null && isForced) return invalid('Request contains an invalid argument.')
  return undefined
}

const thought = 'Thinking of an echo.'

function answer(request: Recorded): Reply {
  const inner = {
    ...request,
    path: '/v1/chat/completions',
    headers: { ...request.headers, authorization: 'Bearer checked' },
  }
  return (_request, response) => {
    const write = response.write.bind(response) as (...parts: unknown[]) => boolean
    const end = response.end.bind(response) as (...parts: unknown[]) => unknown
    const isStreamed = request.body.stream === true
    let isFirst = true
    if (isStreamed) {
      response.write = ((text: Buffer | string, ...rest: unknown[]) => {
        const [, event] = /^data: (\{.*\})\s*$/s.exec(String(text)) ?? []
        if (event === undefined) return write(text, ...rest)
        const chunk = withoutDetails(JSON.parse(event))
        if (isFirst) chunk.choices[0].delta.reasoning_content = thought
        isFirst = false
        return write(`data: ${JSON.stringify(chunk)}\n\n`, ...rest)
      }) as typeof response.write
    } else {
      response.end = ((text: Buffer | string) => {
        const whole = withoutDetails(JSON.parse(String(text)))
        whole.choices[0].message.reasoning_content = thought
        return end(JSON.stringify(whole))
      }) as typeof response.end
    }
    return openai(inner, response)
  }
}

function withoutDetails(body: Json): Json {
  delete body.usage?.completion_tokens_details
  return body
}
