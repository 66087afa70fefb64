import type { Usage } from '../base/usage.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { tokenizer } from '../kinds/tokenizer.ts'

const perImage = 1_000
const perMessage = 4

/** Tokens of a text, exact up to 20,000 characters. */
export async function countTokens(text: string): Promise<number> {
  return text === '' ? 0 : (await tokenizer()).count(text)
}

type Prompt = Pick<Usage, 'prompt_tokens' | 'prompt_tokens_details'>

/** Tokens of a request's prompt, for providers that count nothing. */
export async function countPrompt<K extends DirectKind>(kind: K, body: DirectKinds[K]['request']): Promise<Prompt> {
  if (kind === 'chat') return countChat(body as ChatRequest)
  const input = 'input' in body ? body.input : (body as DirectKinds['completion']['request']).prompt
  const parts = Array.isArray(input) ? (input as unknown[]) : [input]
  let tokens = 0
  const texts: string[] = []
  for (const part of parts) {
    if (typeof part === 'string') texts.push(part)
    else tokens += Array.isArray(part) ? part.length : 1
  }
  const ofTexts = texts.length > 0 ? await tokenizer() : null
  for (const text of texts) tokens += ofTexts!.count(text)
  return { prompt_tokens: tokens }
}

async function countChat(body: ChatRequest): Promise<Prompt> {
  let text = body.tools ? JSON.stringify(body.tools) : ''
  let tokens = 3
  let images = 0
  let audio = 0
  for (const message of body.messages) {
    tokens += perMessage
    if (typeof message.content === 'string') text += `\n${message.content}`
    else {
      for (const part of message.content ?? []) {
        if (part.type === 'text') text += `\n${part.text}`
        else if (part.type === 'image_url') images += perImage
        else if (part.type === 'input_audio') audio += Math.ceil(part.input_audio.data.length / 256)
      }
    }
    if (message.role === 'assistant' && message.tool_calls) text += JSON.stringify(message.tool_calls)
  }
  return {
    prompt_tokens: tokens + images + audio + (await countTokens(text)),
    ...((images > 0 || audio > 0) && { prompt_tokens_details: { audio_tokens: audio, image_tokens: images } }),
  }
}
