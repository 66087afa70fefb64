/**
 * What servers answer to a prompt that is longer than their model's context, as it was reported. `protocol`: whose adapter reads
 * it; servers that are reached through OpenAI's format have `openai`.
 */
export type ContextOverflow = {
  server: string
  protocol: 'openai' | 'anthropic' | 'gemini'
  status: number
  body: unknown
  source: string
}

/** pi's table of the wordings of each provider, which agents copy. */
const pi = 'github.com/earendil-works/pi/blob/main/packages/ai/src/utils/overflow.ts'
/** LiteLLM's tests of the same. */
const litellm = 'github.com/BerriAI/litellm/blob/main/litellm/litellm_core_utils/exception_mapping_utils.py'

const reported = (message: string, more: object = {}) => ({
  error: { message, type: 'invalid_request_error', param: null, code: null, ...more },
})

const overOpenai: [server: string, status: number, body: unknown, source: string][] = [
  [
    'OpenAI, chat',
    400,
    reported(
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130011 tokens. Please reduce the length of the messages.",
      { param: 'messages', code: 'context_length_exceeded' },
    ),
    'github.com/FoundationAgents/OpenManus/issues/62',
  ],
  [
    'OpenAI, Responses',
    400,
    reported('Your input exceeds the context window of this model. Please adjust your input and try again.', {
      param: 'input',
      code: 'context_length_exceeded',
    }),
    pi,
  ],
  [
    'OpenAI, the newest models',
    400,
    reported(
      'Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.',
    ),
    litellm,
  ],
  [
    'OpenAI, a text of more than a field may have',
    400,
    reported("Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760.", {
      param: 'messages[0].content',
      code: 'string_above_max_length',
    }),
    litellm,
  ],
  [
    'DeepSeek',
    400,
    reported(
      "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
      { code: 'invalid_request_error' },
    ),
    'github.com/evalstate/fast-agent/issues/621',
  ],
  [
    'OpenRouter',
    400,
    {
      error: {
        message:
          'This endpoint\'s maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.',
        code: 400,
      },
    },
    'github.com/refly-ai/refly/issues/1177',
  ],
  [
    'OpenRouter, with another provider’s words inside',
    400,
    {
      error: {
        message: 'Provider returned error',
        code: 400,
        metadata: {
          provider_name: 'Anthropic',
          raw: '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}',
        },
      },
    },
    'openrouter.ai/docs/api-reference/errors',
  ],
  [
    'Groq',
    400,
    reported('Please reduce the length of the messages or completion.', {
      param: 'messages',
      code: 'context_length_exceeded',
    }),
    pi,
  ],
  [
    'xAI',
    400,
    {
      code: 'Client specified an invalid argument',
      error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    },
    pi,
  ],
  [
    'Mistral',
    400,
    {
      object: 'error',
      message:
        'Prompt contains 300000 tokens and 0 draft tokens, too large for model with 131072 maximum context length',
      type: 'invalid_request_error',
      param: null,
      code: '3051',
    },
    pi,
  ],
  [
    'Together',
    422,
    reported("The input (265330 tokens) is longer than the model's context length (262144 tokens)."),
    pi,
  ],
  [
    'Together and Hugging Face TGI',
    422,
    {
      error:
        'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`',
      error_type: 'validation',
    },
    'github.com/huggingface/llm-vscode/issues/94',
  ],
  [
    'Hugging Face TGI',
    422,
    { error: 'Input validation error: `inputs` must have less than 1024 tokens. Given: 1401' },
    litellm,
  ],
  [
    'Fireworks',
    400,
    {
      error: {
        object: 'error',
        type: 'invalid_request_error',
        message: 'The prompt is too long: 150000, model maximum context length: 131071',
      },
    },
    litellm,
  ],
  [
    'vLLM',
    400,
    {
      object: 'error',
      message:
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    'github.com/vllm-project/vllm/issues/20409',
  ],
  [
    'vLLM, 2026',
    400,
    {
      error: {
        message:
          "You passed 74655 input characters and requested 32000 output tokens. However, the model's context length is only 32000 tokens, resulting in a maximum input length of 0 tokens (at most 0 characters). Please reduce the length of the input prompt. (parameter=input_text, value=74655)",
        type: 'BadRequestError',
        param: 'input_text',
        code: 400,
      },
    },
    'github.com/agentscope-ai/AgentTeams/issues/346',
  ],
  [
    'vLLM, with the output counted in',
    400,
    {
      error: {
        message:
          "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
        type: 'BadRequestError',
        code: 400,
      },
    },
    'github.com/canfieldjuan/finetunelab.ai/blob/main/docs/MAX_TOKENS_CONTEXT_OVERFLOW_FIX.md',
  ],
  [
    'vLLM, completions',
    400,
    {
      error: {
        message:
          'The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.',
        type: 'BadRequestError',
        code: 400,
      },
    },
    'github.com/vllm-project/vllm/pull/12600',
  ],
  [
    'llama.cpp',
    400,
    {
      error: {
        code: 400,
        message: 'request (9739 tokens) exceeds the available context size (8192 tokens), try increasing it',
        type: 'exceed_context_size_error',
        n_prompt_tokens: 9739,
        n_ctx: 8192,
      },
    },
    'github.com/ggml-org/llama.cpp tools/server',
  ],
  [
    'llama.cpp, with context shift',
    500,
    {
      error: {
        code: 500,
        message: 'input (20000 tokens) is larger than the max context size (2048 tokens). skipping',
        type: 'server_error',
      },
    },
    'github.com/ggml-org/llama.cpp tools/server',
  ],
  [
    'llama.cpp, older',
    500,
    { error: { code: 500, message: 'Context size has been exceeded.', type: 'server_error' } },
    'github.com/ggml-org/llama.cpp tools/server',
  ],
  [
    'LM Studio',
    400,
    {
      error:
        'The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input',
    },
    pi,
  ],
  [
    'LM Studio, with overflow policies',
    400,
    {
      error:
        'Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.',
    },
    'github.com/franksec42/LmStudioToCursor',
  ],
  [
    'Ollama',
    400,
    {
      error: {
        message: 'prompt too long; exceeded max context length by 4096 tokens',
        type: 'invalid_request_error',
        param: null,
        code: null,
      },
    },
    pi,
  ],
  [
    'Ollama, embeddings',
    400,
    { error: { message: 'the input length exceeds the context length', type: 'api_error' } },
    pi,
  ],
  [
    'Moonshot',
    400,
    reported('Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)'),
    pi,
  ],
  ['MiniMax', 400, reported('invalid params, context window exceeds limit (2013)', { code: '2013' }), pi],
  ['Z.AI', 400, { error: { code: '1261', message: 'Prompt exceeds max length' } }, pi],
  ['Z.AI, newer', 400, { error: { code: 'model_context_window_exceeded', message: 'The request was stopped.' } }, pi],
  [
    'Alibaba DashScope',
    400,
    reported('<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]', {
      code: 'invalid_parameter_error',
    }),
    pi,
  ],
  ['Poolside', 400, reported('Input length 265330 exceeds the maximum allowed input length of 262144 tokens.'), pi],
  [
    'GitHub Copilot',
    400,
    reported('prompt token count of 145000 exceeds the limit of 128000', { code: 'model_max_prompt_tokens_exceeded' }),
    pi,
  ],
  [
    'GitHub Models',
    413,
    {
      error: {
        code: 'tokens_limit_reached',
        message: 'Request body too large for gpt-4o model. Max size: 8000 tokens.',
      },
    },
    pi,
  ],
  [
    'Cerebras',
    400,
    {
      message: 'Please reduce the length of the messages or completion. Current length is 8195 while limit is 8192',
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    },
    litellm,
  ],
  [
    'SGLang',
    400,
    {
      object: 'error',
      message:
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 40000 tokens: 35000 tokens from the input messages and 5000 tokens for the completion.",
      type: 'BadRequestError',
      code: 400,
    },
    litellm,
  ],
  [
    'SambaNova',
    400,
    reported(
      'The provided prompt is 9000 tokens long, so generating 1 tokens requires a sequence length of 9001, but the maximum supported sequence length is just 8192!',
    ),
    litellm,
  ],
  [
    'Amazon Bedrock',
    400,
    { message: 'Input is too long for requested model.' },
    'github.com/aws-samples/bedrock-chat/issues/95',
  ],
  [
    'Amazon Bedrock, Claude',
    400,
    { message: 'The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum' },
    'github.com/strands-agents/harness-sdk/pull/1663',
  ],
  [
    'Amazon Bedrock, Llama',
    400,
    {
      message:
        'Malformed input request: expected maxLength: 50000, actual: 60000, please reformat your input and try again.',
    },
    litellm,
  ],
  [
    'Amazon Bedrock, Nova',
    400,
    { message: 'Too many input tokens. Max input tokens: 128000, request input token count: 150000' },
    litellm,
  ],
  [
    'Cohere',
    400,
    {
      message:
        'too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt or a smaller max_tokens value.',
    },
    litellm,
  ],
  [
    'Replicate',
    422,
    { detail: 'Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens.' },
    'github.com/run-llama/llama_index/issues/7974',
  ],
  [
    'a proxy in FastAPI',
    422,
    {
      detail: [
        { type: 'value_error', loc: ['body', 'messages'], msg: 'prompt is too long: 9000 tokens > 8192 maximum' },
      ],
    },
    pi,
  ],
  ['a proxy in plain text', 400, 'prompt token count of 145000 exceeds the limit of 128000', pi],
]

const others: ContextOverflow[] = [
  {
    ...{
      server: 'Anthropic',
      protocol: 'anthropic',
      status: 400,
      source: 'github.com/stackblitz/bolt.new/issues/2449',
    },
    body: {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 202095 tokens > 200000 maximum' },
    },
  },
  {
    ...{ server: 'Anthropic, with the output counted in', protocol: 'anthropic', status: 400 },
    source: 'github.com/stackblitz/bolt.new/issues/7414',
    body: {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message:
          'input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease input length or `max_tokens` and try again',
      },
    },
  },
  {
    ...{ server: 'Claude behind Bedrock’s form', protocol: 'anthropic', status: 400 },
    source: 'github.com/aws-samples/bedrock-chat/issues/95',
    body: { message: 'Input is too long for requested model.' },
  },
  {
    ...{ server: 'Gemini', protocol: 'gemini', status: 400, source: pi },
    body: {
      error: {
        code: 400,
        message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
        status: 'INVALID_ARGUMENT',
      },
    },
  },
  {
    ...{ server: 'Vertex AI', protocol: 'gemini', status: 400, source: litellm },
    body: {
      error: {
        code: 400,
        message:
          'Unable to submit request because the input token count is 1300000 but model only supports up to 1048576. Reduce the input token count and try again.',
        status: 'INVALID_ARGUMENT',
      },
    },
  },
]

export const contextOverflows: readonly ContextOverflow[] = [
  ...overOpenai.map(
    ([server, status, body, source]): ContextOverflow => ({ server, protocol: 'openai', status, body, source }),
  ),
  ...others,
]

/** What resembles such an answer and is none: limits of a rate, of the output alone, of another field. */
export const noOverflows: [server: string, status: number, body: unknown, source: string][] = [
  [
    'Amazon Bedrock, throttled',
    400,
    { message: 'Throttling error: Too many tokens, please wait before trying again.' },
    pi,
  ],
  [
    'Groq, tokens of a minute',
    413,
    reported(
      'Request too large for model `llama-3.3-70b-versatile` on tokens per minute (TPM): Limit 12000, Requested 15000, please reduce your message size and try again.',
      { type: 'tokens', code: 'rate_limit_exceeded' },
    ),
    'console.groq.com/docs/rate-limits',
  ],
  [
    'OpenAI, max_tokens',
    400,
    reported(
      'max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.',
      { param: 'max_tokens', code: 'invalid_value' },
    ),
    'github.com/cline/cline/issues/13229',
  ],
  [
    'Groq, max_tokens',
    400,
    reported(
      '`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model',
      { param: 'max_tokens' },
    ),
    'console.groq.com/docs/errors',
  ],
  [
    'OpenAI, user',
    400,
    reported(
      "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 86 instead.",
      { param: 'user', code: 'string_above_max_length' },
    ),
    litellm,
  ],
  [
    'OpenAI, a call id',
    400,
    reported(
      "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 64, but got a string with length 575 instead.",
      { param: 'messages[1].tool_calls[0].id', code: 'string_above_max_length' },
    ),
    'github.com/BerriAI/litellm/issues/41534',
  ],
  [
    'OpenAI, prompt_cache_key',
    400,
    reported(
      "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 73 instead.",
      { param: 'prompt_cache_key', code: 'string_above_max_length' },
    ),
    'github.com/theopenco/llmgateway/pull/3110',
  ],
]
