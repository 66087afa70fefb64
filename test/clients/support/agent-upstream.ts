import { compactionPrompt } from '../../../shared/providers/toolkit/compaction.ts'
import { anthropicReply, failed, messageReply, sse } from '../../emulators/anthropic.ts'
import { events, framed, json, type Recorded, type Reply } from '../../emulators/emulator.ts'
import { geminiReply } from '../../emulators/gemini.ts'
import { generateFault, isSigning, signaturePrefix } from '../../emulators/gemini-rules.ts'
import { chatChunk, rateLimited } from '../../emulators/openai.ts'
import { reasoningState, responsesReply } from '../../emulators/openai-responses.ts'

/**
 * What the emulated providers answer to a coding agent whose prompt has `agent:<scenario>`. In `agent:run <word>` the model
 * thinks, runs `echo <word>` in the agent's shell, and then says what the tool printed. In `agent:compact <word>` it says so
 * only after the conversation was compacted, for which its first answer reports tokens enough. The other scenarios refuse a first
 * request as the provider does, and answer the agent's second.
 */

/** The model's thinking, with characters that a second encoding would change. */
export const thinking = { type: 'thinking', thinking: 'I run the “command”.\n\u2028✓', signature: 'c2ln+bmF0/dXJl==' }

/** The reported usage of each turn: large, so that a wrong price shows in the cents, and below the prices of long prompts. */
export const turnUsage = {
  input_tokens: 20_000,
  cache_creation_input_tokens: 50_000,
  cache_read_input_tokens: 100_000,
  cache_creation: { ephemeral_5m_input_tokens: 50_000, ephemeral_1h_input_tokens: 0 },
  output_tokens: 7_000,
}
const longUsage = { input_tokens: 100_000, output_tokens: 100, total_tokens: 100_100 }
const translatedUsage = { prompt: 20_000, completion: 100 }
const callId = 'toolu_agent'

type Turn = { scenario: string; word: string; hasResult: boolean; shell: string }

/** The turn of an agent's conversation; null for a request of anything else. */
function turnOf({ raw, body }: Recorded, resultMark: string | RegExp): Turn | null {
  const text = raw.toString()
  const [, scenario, word] = /agent:(\w+) (mark\w+)/.exec(text) ?? []
  if (!scenario || !word || !body) return null
  const shell = shells.find(name => text.includes(`"name":"${name}"`)) ?? 'Bash'
  return { scenario, word, hasResult: text.search(resultMark) >= 0, shell }
}

/** The shell tools of Codex, which has one or the other by the model, and of gemini-cli. */
const shells = ['shell_command', 'exec_command', 'run_shell_command']

function commandOf({ word, shell }: Turn): Record<string, string> {
  const command = `echo ${word}`
  if (shell === 'Bash') return { command, description: 'Print a word' }
  return shell === 'exec_command' ? { cmd: command } : { command }
}

const saidOf = (word: string) => `The command printed ${word}.`
/** How the gateway asks a model for the summary that a conversation is compacted to, and the model's summary. */
const askedToSummarise = compactionPrompt.slice(0, compactionPrompt.indexOf('.'))
const summaryOf = (word: string) => `The command was run and printed ${word}, which was all that the user wanted.`

/** The words of `agent:overloaded` that were refused: the first request of each gets an error event after the 200. */
const overloadedWords = new Set<string>()
const overloaded = events([sse({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } } as never)])

export const anthropicAgent = withAgent(anthropicReply(), '"tool_result"', (turn, request) => {
  const { scenario, word, hasResult, shell } = turn
  const refusal = refusals[scenario]?.(request.body)
  if (refusal) return refusal
  if (scenario === 'overloaded' && !overloadedWords.has(word)) {
    overloadedWords.add(word)
    return overloaded
  }
  if (request.raw.includes(askedToSummarise))
    return messageReply({ content: [{ type: 'text', text: summaryOf(word) }], usage: turnUsage })
  const isLast = scenario === 'compact' ? request.raw.includes(summaryOf(word)) : scenario !== 'run' || hasResult
  if (isLast) return messageReply({ content: [{ type: 'text', text: saidOf(word) }], usage: turnUsage })
  const call = { type: 'tool_use', id: callId, name: shell, input: commandOf(turn) }
  return messageReply({ content: [thinking, call], stop_reason: 'tool_use', usage: turnUsage })
})

// biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
type Body = any

const badRequest = (message: string) => failed(400, 'invalid_request_error', message)
const maxTokensBeforeOverflow = 9_000

/** The scenarios in which Anthropic refuses what an agent sends, and what the agent reads from the text. */
const refusals: Record<string, (body: Body) => Reply | null> = {
  overflow: ({ max_tokens }) =>
    max_tokens > maxTokensBeforeOverflow
      ? badRequest(`input length and \`max_tokens\` exceed context limit: 190000 + ${max_tokens} > 200000`)
      : null,
  long: () => badRequest('prompt is too long: 210000 tokens > 200000 maximum'),
  effort: ({ output_config }) =>
    output_config?.effort
      ? badRequest('This model does not support the effort parameter. (capability_rejected: effort_unsupported)')
      : null,
  system: ({ messages }) =>
    messages.some(({ role }: Body) => role === 'system')
      ? badRequest('messages: role "system" is not supported (capability_rejected: mid_conv_system)')
      : null,
}

export const openAiAgent = (fallback: Reply) =>
  withAgent(fallback, /"role":"tool"|"function_call_output"/, (turn, { body, path }) => {
    if (path === '/v1/responses') return responsesAgent(turn, body)
    const { scenario, word, hasResult, shell } = turn
    if (scenario === 'overflow' && (body.max_completion_tokens ?? body.max_tokens) > maxOpenAiTokens) return tooLong
    const call = { index: 0, id: 'call_agent', type: 'function', function: { name: shell, arguments: '' } }
    const [first, second] = halves(JSON.stringify(commandOf(turn)))
    const isLast = hasResult || scenario !== 'run'
    const answer = isLast
      ? [chatChunk({ role: 'assistant', content: saidOf(word) }), chatChunk({}, 'stop')]
      : [
          chatChunk({ role: 'assistant', content: null, tool_calls: [call] }),
          chatChunk({ tool_calls: [{ index: 0, function: { arguments: first } }] }),
          chatChunk({ tool_calls: [{ index: 0, function: { arguments: second } }] }),
          chatChunk({}, 'tool_calls'),
        ]
    const { prompt, completion } = translatedUsage
    const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
    return events([framed([...answer, { ...chatChunk({}), choices: [], usage }, '[DONE]'])])
  })

/** What OpenAI answers natively: reasoning with its state, which comes back, and a call; then what the tool printed. */
function responsesAgent(turn: Turn, { input }: Body): Reply {
  const { scenario, word, hasResult, shell } = turn
  const fault = firstFaults[scenario]
  if (fault && !faultedWords.has(word)) {
    faultedWords.add(word)
    return fault
  }
  if (lastingFaults[scenario]) return lastingFaults[scenario]
  const thought = { type: 'reasoning', id: `rs_${word}`, summary: [], encrypted_content: reasoningState }
  const call = { type: 'function_call', id: `fc_${word}`, call_id: 'call_agent', name: shell, status: 'completed' }
  const text = { type: 'output_text', text: saidOf(word), annotations: [], logprobs: [] }
  const message = { type: 'message', id: `msg_${word}`, role: 'assistant', status: 'completed', content: [text] }
  const types: string[] = input.map(({ type }: Body) => type)
  if (types.at(-1) === 'compaction_trigger') return responsesReply()
  const isLast = scenario === 'compact' ? types.includes('compaction') : hasResult
  const output = isLast ? [message] : [thought, { ...call, arguments: JSON.stringify(commandOf(turn)) }]
  return responsesReply({ output, ...(scenario === 'compact' && !isLast && { details: longUsage }) })
}

const failedAfterItem = (code: string, message: string) => responsesReply({ failAfter: 5, error: { code, message } })
/** How OpenAI fails the first request of a scenario. */
const firstFaults: Record<string, Reply> = {
  cut: responsesReply({ cutAfter: 5 }),
  busy: rateLimited('1'),
  down: json(503, { error: { message: 'The server is overloaded.', type: 'server_error', code: null, param: null } }),
  failed: failedAfterItem('server_error', 'The server had an error.'),
  limited: failedAfterItem('rate_limit_exceeded', 'Rate limit reached. Please try again in 1s.'),
}
/** How OpenAI fails every request of a scenario. */
const lastingFaults: Record<string, Reply> = {
  long: json(400, {
    error: {
      message: 'Your input exceeds the context window of this model. Please adjust your input and try again.',
      type: 'invalid_request_error',
      param: 'input',
      code: 'context_length_exceeded',
    },
  }),
  grown: failedAfterItem('context_length_exceeded', 'Your input exceeds the context window of this model.'),
}
/** The words whose first request failed. */
const faultedWords = new Set<string>()

/** The words with which OpenAI refuses a request that exceeds the context window together with its output. */
const tooLong = json(400, {
  error: {
    message:
      "This model's maximum context length is 40000 tokens. However, you requested 45000 tokens (13000 in the messages, 32000 in the completion). Please reduce the length of the messages or completion.",
    type: 'invalid_request_error',
    param: 'messages',
    code: 'context_length_exceeded',
  },
})
const maxOpenAiTokens = 30_000

function halves(text: string): [string, string] {
  return [text.slice(0, 12), text.slice(12)]
}

export const geminiAgent = withAgent(geminiReply, '"functionResponse"', (turn, request) => {
  const { scenario, word, hasResult, shell } = turn
  if (scenario === 'long')
    return geminiBadRequest('The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).')
  const [, model = ''] = /\/models\/([^/:]+):/.exec(request.path) ?? []
  const fault = generateFault(model, request.body)
  if (fault) return geminiBadRequest(fault)
  const functionCall = { ...(isSigning(model) && { id: 'fc1-1' }), name: shell, args: commandOf(turn) }
  const thoughtSignature = Buffer.from(`${signaturePrefix}${word}`).toString('base64')
  const part = hasResult ? { text: saidOf(word) } : { functionCall, ...(isSigning(model) && { thoughtSignature }) }
  const { prompt, completion } = translatedUsage
  const usageMetadata = {
    promptTokenCount: prompt,
    candidatesTokenCount: completion,
    totalTokenCount: prompt + completion,
  }
  const candidates = [{ content: { role: 'model', parts: [part] }, index: 0, finishReason: 'STOP' }]
  return events([framed([{ candidates, usageMetadata, modelVersion: model, responseId: `gemini-${word}` }])])
})

const geminiBadRequest = (message: string) => json(400, { error: { code: 400, message, status: 'INVALID_ARGUMENT' } })

/** A reply that answers an agent's requests by `answer`, and any other as `fallback` does. */
function withAgent(
  fallback: Reply,
  resultMark: string | RegExp,
  answer: (turn: Turn, request: Recorded) => Reply,
): Reply {
  return (request, response) => {
    const turn = turnOf(request, resultMark)
    const reply = turn && request.body ? answer(turn, request) : fallback
    return reply(request, response)
  }
}
