import type { Usage } from '../base/usage.ts'
import { imageTokens } from '../catalog/image-tokens.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import { declaredFunctions, type GenerateContentRequest } from '../kinds/generate-content.ts'
import { fileKindOf } from '../kinds/generate-content-members.ts'
import { isBlock, type MessagesBlock, type MessagesRequest, type MessagesResultBlock } from '../kinds/messages.ts'
import { isMessageItem, isPart, type ResponsesRequest } from '../kinds/responses.ts'
import { declaredTools } from '../kinds/responses-tools.ts'
import { itemTexts } from '../kinds/responses-usage.ts'
import { tokenizer } from '../kinds/tokenizer.ts'

const perMessage = 4

/** Counts the tokens of a text, exact up to 20,000 characters. */
export async function countTokens(text: string): Promise<number> {
  return text === '' ? 0 : (await tokenizer()).count(text)
}

/** The usage of a prompt. */
export type PromptUsage = Pick<Usage, 'prompt_tokens' | 'prompt_tokens_details'>

type Inputs = string | readonly unknown[]

/** Counts the texts, or tokens, of which embeddings or a completion are requested. */
export async function countInputs(input: Inputs): Promise<PromptUsage> {
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

/** Counts a chat request without its documents. */
export async function countChat(body: ChatRequest): Promise<PromptUsage> {
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
        else if (part.type === 'image_url') images += imageTokens.inputEstimate
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

/** Counts a Messages request without its documents, which only their provider can count. */
export async function countMessages({
  system,
  messages,
  tools,
}: Pick<MessagesRequest, 'system' | 'messages' | 'tools'>): Promise<PromptUsage> {
  const texts: string[] = tools ? [JSON.stringify(tools)] : []
  let images = 0
  const visit = (block: MessagesBlock | MessagesResultBlock) => {
    if (isBlock(block, 'text')) texts.push(block.text)
    else if (isBlock(block, 'thinking')) texts.push(block.thinking)
    else if (isBlock(block, 'tool_use')) texts.push(block.name, JSON.stringify(block.input))
    else if (isBlock(block, 'image')) images += imageTokens.inputEstimate
    else if (isBlock(block, 'tool_result')) visitAll(block.content ?? '')
  }
  const visitAll = (content: string | readonly (MessagesBlock | MessagesResultBlock)[]) => {
    if (typeof content === 'string') texts.push(content)
    else content.forEach(visit)
  }
  visitAll(system ?? '')
  for (const { content } of messages) visitAll(content)
  const tokens = 3 + messages.length * perMessage + images + (await countTokens(texts.join('\n')))
  return {
    prompt_tokens: tokens,
    ...(images > 0 && { prompt_tokens_details: { audio_tokens: 0, image_tokens: images } }),
  }
}

/** Counts a Responses request without its documents and its encrypted reasoning. */
export async function countResponses({ instructions, input, tools }: ResponsesRequest): Promise<PromptUsage> {
  const offered = declaredTools({ tools, input }).map(({ tool }) => tool)
  const texts: string[] = [instructions ?? '', offered.length > 0 ? JSON.stringify(offered) : '']
  let images = 0
  let audio = 0
  const visit = (content: unknown) => {
    if (typeof content === 'string') texts.push(content)
    if (!Array.isArray(content)) return
    for (const part of content) {
      if (isPart(part, 'input_text') || isPart(part, 'output_text')) texts.push(part.text)
      else if (isPart(part, 'refusal')) texts.push(part.refusal)
      else if (isPart(part, 'input_image')) images += imageTokens.inputEstimate
      else if (isPart(part, 'input_audio')) audio += Math.ceil(part.input_audio.data.length / 256)
    }
  }
  const items = typeof input === 'string' ? [{ role: 'user' as const, content: input }] : input
  for (const item of items) {
    if (isMessageItem(item)) visit(item.content)
    else {
      texts.push(...itemTexts(item))
      visit((item as { output?: unknown }).output)
    }
  }
  const tokens = 3 + items.length * perMessage + images + audio + (await countTokens(texts.join('\n')))
  return {
    prompt_tokens: tokens,
    ...((images > 0 || audio > 0) && { prompt_tokens_details: { audio_tokens: audio, image_tokens: images } }),
  }
}

/** Counts a request in Google's form without its documents and its thought signatures. */
export async function countGenerateContent({
  systemInstruction,
  contents,
  tools,
}: Pick<GenerateContentRequest, 'systemInstruction' | 'contents' | 'tools'>): Promise<PromptUsage> {
  const declared = declaredFunctions(tools).map(({ declaration }) => declaration)
  const texts: string[] = [declared.length > 0 ? JSON.stringify(declared) : '']
  let images = 0
  let audio = 0
  for (const { parts = [] } of systemInstruction ? [systemInstruction, ...contents] : contents)
    for (const { text, functionCall, functionResponse, inlineData, fileData, thought } of parts) {
      if (text && !thought) texts.push(text)
      if (functionCall) texts.push(functionCall.name, JSON.stringify(functionCall.args ?? {}))
      if (functionResponse) texts.push(functionResponse.name, JSON.stringify(functionResponse.response ?? {}))
      const kind = inlineData || fileData ? fileKindOf((inlineData ?? fileData)!.mimeType) : null
      if (kind === 'image') images += imageTokens.inputEstimate
      if (kind === 'sound') audio += Math.ceil((inlineData?.data.length ?? 0) / 256)
      if (kind === 'text' && inlineData) texts.push(Buffer.from(inlineData.data, 'base64').toString())
    }
  const tokens = 3 + contents.length * perMessage + images + audio + (await countTokens(texts.join('\n')))
  return {
    prompt_tokens: tokens,
    ...((images > 0 || audio > 0) && { prompt_tokens_details: { audio_tokens: audio, image_tokens: images } }),
  }
}
