import { signatureFault } from './aws-signature.ts'
import type { BedrockOptions } from './bedrock.ts'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'
import { reply as openAiReply } from './openai.ts'

type Place = { route: '/v1' | '/openai/v1'; regions: readonly string[] }

const unitedStates = ['us-east-1', 'us-east-2', 'us-west-2']

/** The models of some regions, as anomalyco/models.dev#4818 found them, with the route of each. */
const places: Record<string, Place> = {
  'openai.gpt-oss-120b': { route: '/v1', regions: [...unitedStates, 'eu-west-1'] },
  'openai.gpt-oss-20b': { route: '/v1', regions: [...unitedStates, 'eu-west-1'] },
  'deepseek.v3.1': { route: '/v1', regions: unitedStates },
  'qwen.qwen3-235b-a22b-2507': { route: '/v1', regions: unitedStates },
  'qwen.qwen3-coder-480b-a35b-instruct': { route: '/v1', regions: unitedStates },
  'xai.grok-4.3': { route: '/openai/v1', regions: unitedStates },
  'openai.gpt-5.5': { route: '/openai/v1', regions: unitedStates },
}

/**
 * Amazon Bedrock's host `bedrock-mantle` in one region. Signatures are for the service `bedrock` (`common_utils.py` of LiteLLM). It refuses models
 * of another region (anomalyco/models.dev#4818), of the other route (AWS' page on the Responses API), those without chat completions
 * (enricoros/big-AGI#1167), and more than one choice (LiteLLM).
 */
export function startBedrockMantle(options: BedrockOptions = {}): Promise<Emulator> {
  return Emulator.start((request, response) => {
    const reply = refusalOf(request, options) ?? answer
    return reply(request, response)
  })
}

function refused(status: number, message: string, code: string | null = null): Reply {
  return json(status, { error: { message, type: 'invalid_request_error', param: null, code } })
}

function refusalOf(
  request: Recorded,
  { region = 'us-east-1', keys = [], tokens = [], now = Date.now }: BedrockOptions,
): Reply | null {
  const { headers, method, path, body } = request
  const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1]
  if (token === undefined) {
    const fault = signatureFault(request, { keys, region, service: 'bedrock', now })
    if (fault) return fault
  } else if (!tokens.includes(token)) return refused(401, 'Invalid bearer token.', 'invalid_api_key')
  const [, route] = /^(\/v1|\/openai\/v1)\/chat\/completions$/.exec(path) ?? []
  if (method !== 'POST' || !route) return refused(404, `Unknown path ${path}`)
  const { model, n = 1 } = body ?? {}
  const place = places[model]
  if (!place?.regions.includes(region)) return refused(404, `The model '${model}' does not exist`)
  if (place.route !== route) return refused(400, `model \`${model}\` isn't supported on this route`)
  if (model === 'openai.gpt-5.5')
    return refused(400, `The model '${model}' does not support the '/v1/chat/completions' API`)
  return n > 1 ? refused(400, 'n must be 1') : null
}

const answer: Reply = (request, response) => {
  const headers = { ...request.headers, authorization: 'Bearer checked' }
  return openAiReply({ ...request, path: '/v1/chat/completions', headers }, response)
}
