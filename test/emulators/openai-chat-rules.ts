import {
  type Any,
  firstOf,
  idsOf,
  jsonWordMissing,
  lacksJsonWord,
  maxOf,
  type Rule,
  refused,
  tooLong,
} from './chat-rule.ts'
import { effortsOf, isReasoner } from './openai-responses.ts'
import { lookaroundFault, openAiSchemaFault, openAiStrictFault, propertyNamesFault } from './schema-rules.ts'

/** The fields of OpenAI's chat completions: openai-node, resources/chat/completions/completions.ts */
const openAiFields = new Set(
  `model messages audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
   metadata modalities n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention
   reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature
   tool_choice tools top_logprobs top_p user verbosity web_search_options`.split(/\s+/),
)

export const openaiRules: readonly Rule[] = [
  {
    source: 'https://github.com/ultimatejimmy/xray.koplugin/issues/33',
    refusal: body => lacksJsonWord(body) && refused(jsonWordMissing, 'messages'),
  },
  {
    source: 'error text "Unrecognized request argument supplied", as in BerriAI/litellm drop_params reports',
    refusal: body =>
      firstOf(
        Object.keys(body),
        name => !openAiFields.has(name) && refused(`Unrecognized request argument supplied: ${name}`),
      ),
  },
  {
    source: 'https://github.com/spring-projects/spring-ai/issues/2969',
    refusal: ({ response_format: format }) =>
      format?.schema !== undefined &&
      refused("Unknown parameter: 'response_format.schema'.", 'response_format.schema', 'unknown_parameter'),
  },
  {
    source: 'https://github.com/BerriAI/litellm/issues/5803',
    refusal: ({ stream, stream_options: options }) =>
      options !== undefined &&
      !stream &&
      refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.", 'stream_options'),
  },
  {
    source: 'https://github.com/QwenLM/qwen-code/issues/2054',
    refusal: ({ tools }) => tools?.length === 0 && refused("[] is too short - 'tools'", 'tools'),
  },
  {
    source: 'https://github.com/theopenco/llmgateway/pull/3110, https://github.com/maximhq/bifrost/pull/1000',
    refusal: body =>
      firstOf(
        ['user', 'prompt_cache_key', 'safety_identifier'],
        name => body[name]?.length > 64 && tooLong(name, body[name], 64),
      ),
  },
  {
    source: 'https://github.com/BerriAI/litellm/issues/18160',
    refusal: ({ messages }) =>
      firstOf(messages, (message, index) =>
        firstOf(idsOf(message), id => id.length > 64 && tooLong(`messages[${index}].tool_calls[0].id`, id, 64)),
      ),
  },
  {
    source: 'schema-rules.ts',
    refusal: ({ tools }) =>
      firstOf<Any, Any>(tools, ({ function: fn }, index) => {
        const fault =
          fn &&
          (openAiSchemaFault(fn.name, fn.parameters) ??
            (fn.strict && openAiStrictFault(`function '${fn.name}'`, fn.parameters)) ??
            lookaroundFault(fn.parameters))
        return fault && refused(fault, `tools[${index}].function.parameters`, 'invalid_function_parameters')
      }),
  },
  {
    source: 'schema-rules.ts',
    refusal: ({ response_format: format }) => {
      const { name, schema, strict } = format?.json_schema ?? {}
      const strictFault = strict && openAiStrictFault(`response_format '${name}'`, schema)
      const fault = lookaroundFault(schema) ?? propertyNamesFault(name, schema) ?? strictFault
      return fault && refused(fault, 'response_format', 'invalid_json_schema')
    },
  },
  {
    source: 'openai-node: FunctionDefinition.name, "with a maximum length of 64"',
    refusal: ({ tools }) =>
      firstOf<Any, Any>(tools, ({ function: fn, custom }) => {
        const { name } = fn ?? custom
        return (
          !/^[a-zA-Z0-9_-]{1,64}$/.test(name) &&
          refused(
            `Invalid 'tools[0].function.name': string does not match pattern.`,
            'tools[0].function.name',
            'invalid_value',
          )
        )
      }),
  },
  {
    source: 'https://github.com/project-arbr/arbr-control-plane/pull/46',
    refusal: body => {
      const max = body.model.startsWith('gpt-4o') ? 16_384 : body.model.startsWith('gpt-4.1') ? 32_768 : 128_000
      return (
        maxOf(body)! > max &&
        refused(
          `max_tokens is too large: ${maxOf(body)}. This model supports at most ${max} completion tokens, whereas you provided ${maxOf(body)}.`,
          'max_tokens',
          'invalid_value',
        )
      )
    },
  },
  {
    source: 'the error text of efforts: "Unsupported value: … does not support … with this model"',
    refusal: ({ model, reasoning_effort: effort }) => {
      if (effort === undefined) return null
      if (!isReasoner(model))
        return refused('Unrecognized request argument supplied: reasoning_effort', 'reasoning_effort')
      // livekit/agents#7169, BerriAI/litellm-docs#1173: `max` is an effort of Responses.
      return (
        (effort === 'max' || !effortsOf(model).includes(effort)) &&
        refused(
          `Unsupported value: 'reasoning_effort' does not support '${effort}' with this model.`,
          'reasoning_effort',
          'unsupported_value',
        )
      )
    },
  },
  {
    source:
      'https://github.com/BerriAI/litellm/pull/34569 (also without an effort, as the model has one by default), https://github.com/genkit-ai/genkit/pull/6303',
    refusal: ({ model, tools, reasoning_effort: effort = /^gpt-5\.4/.test(model) ? 'none' : 'medium' }) =>
      tools?.some(({ type }: Any) => type === 'function') &&
      /^gpt-(?:5\.[4-9]|6)/.test(model) &&
      effort !== 'none' &&
      refused(
        `Function tools with reasoning_effort are not supported for ${model} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.`,
        'reasoning_effort',
      ),
  },
  {
    source:
      'openai-python issues on o-series: "Unsupported parameter: \'temperature\' is not supported with this model."',
    refusal: ({ model, reasoning_effort: effort, temperature, top_p, stop }) =>
      isReasoner(model) &&
      effort !== 'none' &&
      ((temperature ?? 1) !== 1 || (top_p ?? 1) !== 1 || stop !== undefined) &&
      refused(
        "Unsupported parameter: 'temperature' is not supported with this model.",
        'temperature',
        'unsupported_parameter',
      ),
  },
]
