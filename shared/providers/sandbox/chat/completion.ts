import { newId } from '../../../base/ids.ts'
import { unixNow } from '../../../base/time.ts'
import { type Completion, type CompletionRequest, usualMaxTokens } from '../../../kinds/completion.ts'
import type { Tokenizer } from '../../../kinds/tokenizer.ts'
import {
  cutAtStop,
  eventStream,
  jsonResponse,
  maxCharacters,
  minPieceCharacters,
  type SandboxResponse,
  splitWords,
} from './response.ts'

type Prompt = { text: string; tokens: number }
type Choice = Completion['choices'][number]

/** Legacy text completion: each prompt is echoed as its own continuation, `n` times. */
export function complete(body: CompletionRequest, tokenizer: Tokenizer): SandboxResponse {
  const prompts = promptsOf(body.prompt, tokenizer)
  const copies = body.n ?? 1
  const room = maxCharacters(prompts.length * copies, typeof body.logprobs === 'number')
  const echoes = prompts.map(prompt => echo(prompt.text, body, room, tokenizer))
  const promptTokens = prompts.reduce((sum, prompt) => sum + prompt.tokens, 0)
  const completionTokens = echoes.reduce((sum, { tokens }) => sum + tokens * copies, 0)
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  }
  const choices = echoes.flatMap(({ choice }, position) => {
    return Array.from({ length: copies }, (_, copy) => ({ index: position * copies + copy, ...choice }))
  })
  const created = unixNow()
  const head = { id: newId('cmpl'), object: 'text_completion' as const, created, model: body.model }
  if (!body.stream) return jsonResponse({ ...head, choices, usage })
  return eventStream(chunks(head, choices, body.stream_options?.include_usage === true ? usage : undefined))
}

/** Whole texts of the input, searched for directives. */
export function promptsOf(prompt: CompletionRequest['prompt'], tokenizer: Tokenizer): Prompt[] {
  if (typeof prompt === 'string') return [{ text: prompt, tokens: tokenizer.count(prompt) }]
  const tokens = (array: number[]) => ({ text: array.join(' '), tokens: array.length })
  if (prompt.every(item => typeof item === 'number')) return [tokens(prompt)]
  return prompt.map(item => (typeof item === 'string' ? { text: item, tokens: tokenizer.count(item) } : tokens(item)))
}

function echo(prompt: string, body: CompletionRequest, room: number, tokenizer: Tokenizer) {
  const whole = cutAtStop(prompt, body.stop)
  const answer = tokenizer.first(whole, body.max_tokens ?? usualMaxTokens).slice(0, room)
  const text = body.echo ? (prompt + answer).slice(0, room) : answer
  const choice: Omit<Choice, 'index'> = {
    text,
    logprobs: typeof body.logprobs === 'number' ? logprobs(text, body.logprobs, tokenizer) : null,
    finish_reason: answer.length < whole.length ? 'length' : 'stop',
  }
  return { choice, tokens: tokenizer.count(answer) }
}

/** Every token is certain: its log probability is 0, and it is its own only alternative. */
function logprobs(text: string, top: number, tokenizer: Tokenizer) {
  const tokens = tokenizer.split(text)
  let offset = 0
  return {
    tokens,
    token_logprobs: tokens.map(() => 0),
    top_logprobs: tokens.map(token => (top > 0 ? { [token]: 0 } : {})),
    text_offset: tokens.map(token => (offset += token.length) - token.length),
  }
}

function* chunks(
  head: Omit<Completion, 'choices'>,
  choices: Choice[],
  usage: Completion['usage'],
): Generator<Completion> {
  const pending = usage ? { usage: null } : {}
  const minCharacters = minPieceCharacters(choices.reduce((sum, { text }) => sum + text.length, 0))
  for (const { index, text, logprobs, finish_reason } of choices) {
    for (const word of splitWords(text, minCharacters)) {
      yield { ...head, choices: [{ index, text: word, logprobs: null, finish_reason: null }], ...pending }
    }
    yield { ...head, choices: [{ index, text: '', logprobs, finish_reason }], ...pending }
  }
  if (usage) yield { ...head, choices: [], usage }
}
