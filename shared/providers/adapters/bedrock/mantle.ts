import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import { chat } from '../openai/chat.ts'
import { failure } from '../openai/failure.ts'

/**
 * AWS assigns each model to one of two routes, and says so on its card (docs.aws.amazon.com, *Responses API*; the list of
 * `mantle_base_segment` in LiteLLM): GPT, Grok and Gemma 4 are on the second, gpt-oss and the others on the first.
 */
const onSecondRoute = /^(?:openai\.gpt-\d|xai\.|google\.gemma-4)/

/** Bedrock's second host, `bedrock-mantle`: OpenAI's chat completions, served in the region itself, with separate quotas. */
export const bedrockMantle: Protocol = {
  direct: {
    chat: fittedChat({
      ...chat,
      request(call) {
        const request = chat.request(call)
        const route = onSecondRoute.test(call.target.deployment.upstream_model) ? '/openai/v1' : '/v1'
        return { ...request, path: route + request.path }
      },
    }),
  },
  failure,
}
