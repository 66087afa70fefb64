import {
  type Any,
  firstOf,
  idsOf,
  isForced,
  jsonWordMissing,
  lacksJsonWord,
  maxOf,
  type Rule,
  refused,
  unprocessable,
} from './chat-rule.ts'
import { answerParts, brokenArguments, emptyAnswers, emptyTexts, extraCallMembers } from './conversation-rules.ts'
import { Emulator, json, type Reply } from './emulator.ts'
import { reply as answers } from './openai.ts'
import { openaiRules } from './openai-chat-rules.ts'
import { groqSchemaFault, moonshotSchemaFault, xaiSchemaFault } from './schema-rules.ts'

/**
 * What providers of OpenAI's dialect refuse, in their words. Each rule has the public report, error text or SDK type in
 * which it was seen; none is taken from the gateway's own profiles.
 */
export type ChatProvider =
  | 'openai'
  | 'groq'
  | 'mistral'
  | 'deepseek'
  | 'xai'
  | 'moonshot'
  | 'alibaba'
  | 'cerebras'
  | 'fireworks'
  | 'lenient'

const groq: Rule[] = [
  {
    source: 'https://github.com/janhq/jan/issues/8136; groq-python: ChatCompletionAssistantMessageParam',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(messages, (message, index) =>
        firstOf(
          ['reasoning_content', 'reasoning_details', 'annotations'],
          name =>
            message[name] !== undefined &&
            refused(
              `'messages.${index}' : for 'role:${message.role}' the following must be satisfied[('messages.${index}' : property '${name}' is unsupported)]`,
            ),
        ),
      ),
  },
  {
    source: 'https://github.com/vercel/ai/pull/16540, https://github.com/agno-agi/agno/issues/1065',
    refusal: ({ tools, response_format: format }) =>
      tools && format && format.type !== 'text' && refused('json mode cannot be combined with tool/function calling'),
  },
  {
    source:
      'console.groq.com/docs/structured-outputs, as quoted in https://github.com/jgravelle/GroqApiLibrary/pull/33',
    refusal: ({ stream, response_format: format }) =>
      stream && format?.type === 'json_schema' && refused('Streaming is not supported with structured outputs'),
  },
  {
    source: 'schema-rules.ts',
    refusal: ({ tools, response_format: format }) => {
      const fault =
        firstOf<Any, Any>(
          tools,
          ({ function: { name, parameters, strict } }, index) =>
            strict && groqSchemaFault(parameters, `tool ${name}, tools[${index}].function.parameters`),
        ) ??
        (format?.json_schema?.strict && groqSchemaFault(format.json_schema.schema, 'response_format'))
      return fault && refused(fault)
    },
  },
  {
    source: 'https://github.com/stanfordnlp/dspy/issues/1155, https://github.com/langchain-ai/langchain/issues/40590',
    refusal: ({ n }) => n > 1 && refused("'n' : number must be at most 1"),
  },
  {
    source:
      'https://github.com/earendil-works/pi/pull/120 (Llama 4 Scout takes 5); "Too many images provided. This model supports up to 3 images" is of a model with 3',
    refusal: ({ model, messages }) =>
      model.includes('llama-4-scout') &&
      JSON.stringify(messages).split('"type":"image_url"').length > 6 &&
      refused('Too many images provided. This model supports up to 5 images'),
  },
  {
    source: 'https://github.com/mem0ai/mem0/issues/3559, https://github.com/mem0ai/mem0/pull/4161',
    refusal: body => lacksJsonWord(body) && refused(jsonWordMissing, 'messages'),
  },
  {
    source: 'the error text "Only allowed string values for \'tool_choice\' are [none, auto, required]"',
    refusal: body =>
      body.tool_choice === null && refused("Only allowed string values for 'tool_choice' are [none, auto, required]"),
  },
  {
    source:
      'https://github.com/vercel/ai packages/groq: reasoningEffort none or default for qwen3, low to high for gpt-oss',
    refusal: ({ model, reasoning_effort: effort }) => {
      const efforts = model.includes('qwen3')
        ? ['none', 'default']
        : model.includes('gpt-oss')
          ? ['low', 'medium', 'high']
          : []
      return (
        effort !== undefined &&
        !efforts.includes(effort) &&
        refused('`reasoning_effort` must be one of the values of the model')
      )
    },
  },
]

const mistralFields: Record<string, string[]> = {
  system: ['role', 'content'],
  user: ['role', 'content'],
  assistant: ['role', 'content', 'tool_calls', 'prefix'],
  tool: ['role', 'content', 'tool_call_id', 'name'],
}
const mistralFollowers: Record<string, string[]> = {
  system: ['user', 'assistant', 'system'],
  user: ['assistant', 'system', 'user'],
  assistant: ['assistant', 'user', 'tool'],
  tool: ['assistant', 'tool'],
}
const mistral: Rule[] = [
  extraCallMembers,
  answerParts,
  emptyAnswers(
    'https://github.com/OpenHands/OpenHands/issues/8685, https://github.com/solbrowse/extension/issues/16',
    'Assistant message must have either content or tool_calls, but not none.',
  ),
  {
    source: 'mistralai/client-python: models of messages; https://github.com/Gage-Technologies/mistral-go/pull/2',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(messages, (message, index) => {
        const known = mistralFields[message.role]
        if (!known)
          return unprocessable(
            'union_tag_invalid',
            ['messages', index],
            `Input tag '${message.role}' found using 'role' does not match any of the expected tags`,
          )
        const extra = Object.keys(message).find(name => !known.includes(name))
        return (
          extra &&
          unprocessable(
            'extra_forbidden',
            ['messages', index, message.role, extra],
            'Extra inputs are not permitted',
            message[extra],
          )
        )
      }),
  },
  {
    source: 'mistralai/client-python: ChatCompletionRequest forbids extra fields',
    refusal: body =>
      firstOf(
        [
          'max_completion_tokens',
          'stream_options',
          'user',
          'seed',
          'logprobs',
          'logit_bias',
          'metadata',
          'store',
          'reasoning',
          'verbosity',
          'safety_identifier',
          'top_k',
        ],
        name =>
          body[name] !== undefined &&
          unprocessable('extra_forbidden', [name], 'Extra inputs are not permitted', body[name]),
      ),
  },
  {
    source: 'https://github.com/nearai/ironclaw/issues/1241 (code 3280)',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(messages, message =>
        firstOf(
          idsOf(message),
          id =>
            !/^[a-zA-Z0-9]{9}$/.test(id) &&
            refused(`Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`, null, '3280'),
        ),
      ),
  },
  {
    source:
      'NousResearch/hermes-agent#20154, BerriAI/litellm#17761 (code 3230); mistral-common: _validate_message_order of its validator',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(messages, ({ role }, index) => {
        const before = messages[index - 1]?.role
        return (
          mistralFollowers[before]?.includes(role) === false &&
          refused(`Unexpected role '${role}' after role '${before}'`, null, '3230')
        )
      }),
  },
  {
    source: 'https://github.com/0xPlaygrounds/rig/pull/1130',
    refusal: ({ messages }) => {
      const { role, prefix } = messages.at(-1)
      return (
        (role === 'system' || (role === 'assistant' && !prefix)) &&
        refused(`Expected last role User or Tool (or Assistant with prefix True) for serving but got ${role}`)
      )
    },
  },
  {
    source:
      'https://github.com/vegu-ai/talemate/issues/102 (the form, when the limit was 1), https://github.com/SillyTavern/SillyTavern/pull/4856 (1.5)',
    refusal: ({ temperature }) =>
      temperature > 1.5 &&
      unprocessable('less_than_equal', ['temperature'], 'Input should be less than or equal to 1.5', temperature),
  },
  {
    source:
      'https://github.com/devoxx/DevoxxGenieIDEAPlugin/issues/338; with reasoning also without top_p, measured on 2026-08-30 (Orkeon, llm-providers-comparison.md)',
    refusal: ({ temperature, top_p: topP, reasoning_effort: effort }) =>
      temperature === 0 &&
      (topP ?? (effort === 'high' ? 0.95 : 1)) !== 1 &&
      refused('top_p must be 1 when using greedy sampling.'),
  },
  {
    source: "vercel/ai packages/mistral: z.enum(['high', 'none'])",
    refusal: ({ reasoning_effort: effort }) =>
      effort !== undefined &&
      !['high', 'none'].includes(effort) &&
      unprocessable('enum', ['reasoning_effort'], "Input should be 'high' or 'none'", effort),
  },
]

const deepseek: Rule[] = [
  emptyAnswers(
    'https://github.com/carlrobertoh/ProxyAI/issues/834, also with reasoning_content alone: https://github.com/OnesoftQwQ/opencode-go-copilot/issues/24',
    'Invalid assistant message: content or tool_calls must be set',
  ),
  {
    source: 'https://github.com/earendil-works/pi/issues/1048',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(
        messages,
        ({ role }, index) =>
          role === 'developer' &&
          refused(
            `Failed to deserialize the JSON body into the target type: messages[${index}].role: unknown variant \`developer\`, expected one of \`system\`, \`user\`, \`assistant\`, \`tool\``,
          ),
      ),
  },
  {
    source: 'https://github.com/earendil-works/pi/issues/5384',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(
        messages,
        ({ role, content }, index) =>
          role !== 'user' &&
          Array.isArray(content) &&
          refused(
            `Failed to deserialize the JSON body into the target type: messages[${index}]: invalid type: sequence, expected a string`,
          ),
      ),
  },
  {
    source: 'https://github.com/runebookai/tome/pull/87',
    refusal: ({ tools }) =>
      tools?.length === 0 &&
      refused("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."),
  },
  {
    source: 'https://github.com/llm-exe/llm-exe/issues/662, https://github.com/UKGovernmentBEIS/inspect_ai/issues/4916',
    refusal: ({ response_format: format }) =>
      format?.type === 'json_schema' && refused('This response_format type is unavailable now'),
  },
  {
    source: 'https://github.com/browserbase/stagehand/issues/1204',
    refusal: body =>
      lacksJsonWord(body) &&
      refused("Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."),
  },
  {
    source:
      'https://github.com/deepseek-ai/DeepSeek-V3/issues/1376, https://github.com/BerriAI/litellm/pull/37470: V4 thinks unless it is turned off',
    refusal: ({ tool_choice: choice, thinking }) =>
      isForced(choice) && thinking?.type !== 'disabled' && refused('Thinking mode does not support this tool_choice'),
  },
]

const moonshot: Rule[] = [
  brokenArguments,
  emptyTexts,
  {
    source:
      'https://github.com/OpenHands/software-agent-sdk/issues/3155, https://github.com/BerriAI/litellm/issues/27729',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(
        messages.flatMap(({ content }: Any) => (Array.isArray(content) ? content : [])),
        ({ image_url: image }) =>
          /^https?:/i.test(image?.url) && refused(`Invalid request: unsupported image url: ${image.url}`),
      ),
  },
  {
    source:
      'https://github.com/can1357/oh-my-pi/issues/1077; java.agentscope.io/v2/en/integration/model/kimi: K3 and K2.7 Code always think',
    refusal: ({ model, tool_choice: choice, thinking }) =>
      isForced(choice) &&
      (thinking?.type !== 'disabled' || /k3|k2\.7-code/.test(model)) &&
      refused('tool_choice specified is incompatible with thinking enabled'),
  },
  {
    source: 'https://github.com/MoonshotAI/kimi-cli/issues/1773, https://github.com/MoonshotAI/kimi-cli/issues/2531',
    refusal: ({ tools }) =>
      firstOf<Any, Any>(
        tools,
        ({ function: { name } }) =>
          !/^[a-zA-Z][a-zA-Z0-9_-]*$/.test(name) &&
          refused(
            'function name is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes',
          ),
      ),
  },
  {
    source: 'schema-rules.ts',
    refusal: ({ tools }) =>
      firstOf<Any, Any>(tools, ({ function: { parameters } }) => {
        const fault = moonshotSchemaFault(parameters)
        return fault && refused(fault)
      }),
  },
]

const alibaba: Rule[] = [
  {
    source: 'https://github.com/agno-agi/agno/pull/5317',
    refusal: body =>
      lacksJsonWord(body) &&
      refused(`<400> InternalError.Algo.InvalidParameter: ${jsonWordMissing}`, null, 'invalid_parameter_error'),
  },
  {
    source: 'https://github.com/cloudwego/eino/issues/994, https://github.com/QwenLM/qwen-code/issues/7659',
    refusal: ({ tool_choice: choice, enable_thinking }) =>
      isForced(choice) &&
      enable_thinking !== false &&
      refused(
        '<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in thinking mode',
        null,
        'invalid_parameter_error',
      ),
  },
]

const xai: Rule[] = [
  {
    source: 'schema-rules.ts',
    refusal: ({ tools }) =>
      firstOf<Any, Any>(tools, ({ function: { parameters } }) => {
        const fault = xaiSchemaFault(parameters)
        return fault && json(400, { code: 'Client specified an invalid argument', error: fault })
      }),
  },
  {
    source: 'https://github.com/miaoxworld/NativeTavern/issues/83, https://github.com/lobehub/lobehub/pull/8379',
    refusal: body =>
      firstOf(
        ['presence_penalty', 'frequency_penalty', 'stop'],
        name =>
          body[name] !== undefined &&
          json(400, {
            code: 'Client specified an invalid argument',
            error: `Model ${body.model} does not support parameter ${name}.`,
          }),
      ),
  },
  {
    source: 'https://github.com/BerriAI/litellm/pull/16265',
    refusal: ({ model, reasoning_effort: effort }) =>
      effort !== undefined &&
      model.includes('4.20') &&
      json(400, {
        code: 'Client specified an invalid argument',
        error: 'Argument not supported on this model: reasoningEffort',
      }),
  },
  {
    source: 'the error text "Unrecognized request argument", as for OpenAI',
    refusal: body =>
      firstOf(
        ['top_k', 'min_p', 'verbosity'],
        name => body[name] !== undefined && refused(`Unrecognized request argument supplied: ${name}`),
      ),
  },
]

const cerebras: Rule[] = [
  {
    source: 'https://github.com/BerriAI/litellm/issues/31333',
    refusal: ({ tools, response_format: format }) =>
      tools && format && format.type !== 'text' && wrongFormat('"tools" is incompatible with "response_format"'),
  },
  {
    source:
      'https://github.com/RooCodeInc/Roo-Code/issues/10334, https://github.com/mpfaffenberger/code_puppy/pull/368',
    refusal: ({ tools }) =>
      new Set(tools?.map(({ function: { strict } }: Any) => strict === true)).size > 1 &&
      wrongFormat(
        "Tools with mixed values for 'strict' are not allowed. Please set all tools to 'strict: true' or 'strict: false'",
        'tools',
      ),
  },
  {
    source: 'https://github.com/agno-agi/agno/issues/4508',
    refusal: ({ parallel_tool_calls: parallel }) =>
      parallel === false &&
      wrongFormat('parallel_tool_calls=False is not supported by this model.', 'parallel_tool_calls'),
  },
  {
    source: 'https://github.com/juspay/neurolink/pull/1564',
    refusal: ({ tools, tool_choice: choice }) =>
      !tools && choice !== undefined && wrongFormat("'tool_choice' is only allowed when 'tools' are specified"),
  },
  {
    source: 'https://github.com/Alishahryar1/free-claude-code/issues/1136',
    refusal: ({ messages }) =>
      firstOf<Any, Any>(messages, ({ role, reasoning_content: reasoning }, index) => {
        const path = `messages.${index}.${role}.reasoning_content`
        return reasoning !== undefined && wrongFormat(`${path}: property '${path}' is unsupported`, 'validation_error')
      }),
  },
]

const fireworks: Rule[] = [
  {
    source: 'https://github.com/nullclaw/nullclaw/pull/231, https://github.com/nextlevelbuilder/goclaw/pull/660',
    refusal: ({ stream, ...body }) =>
      !stream &&
      (maxOf(body) ?? 0) > 4096 &&
      json(400, {
        error: {
          message: 'Requests with max_tokens > 4096 must have stream=true',
          ...{ param: 'max_tokens', code: 'BAD_REQUEST', type: 'error' },
        },
      }),
  },
]

/** Cerebras' errors have no envelope. */
function wrongFormat(message: string, param: string | null = null): Reply {
  return json(400, { message, type: 'invalid_request_error', param, code: 'wrong_api_format' })
}

/** What each provider refuses in a chat request. */
export const chatRules: Record<ChatProvider, readonly Rule[]> = {
  ...{ openai: openaiRules, groq, mistral, deepseek, xai, moonshot, alibaba, cerebras, fireworks },
  lenient: [],
}

/** A provider of OpenAI's dialect that refuses what the real one refuses, and answers as OpenAI does. */
export function startChatProvider(provider: ChatProvider): Promise<Emulator> {
  return Emulator.start((request, response) => {
    const isChat = request.method === 'POST' && request.path.endsWith('/chat/completions')
    const refusal = isChat && firstOf(chatRules[provider], rule => rule.refusal(request.body))
    return (refusal || answers)({ ...request, path: request.path.replace(/^.*(?=\/v1\/)/, '') }, response)
  })
}
