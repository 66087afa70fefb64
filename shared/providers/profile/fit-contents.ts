import type { ChatMessage } from '../../kinds/chat.ts'
import type { Fitting } from './fitting.ts'

/** Throws 400 for more images than a request may have. */
export function assertFewImages(fitting: Fitting, maxImages: number): void {
  if (countImages(fitting.body.messages) > maxImages)
    throw fitting.refusal('messages', `This model takes at most ${maxImages} images in a request.`)
}

/**
 * "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'": a line of the system prompt
 * of a `json_object` has it where the client's messages do not, as those of clients of Gemini or Claude, which ask for no such word.
 */
export function fitJsonWord(fitting: Fitting): void {
  if (!fitting.profile.json_word || fitting.body.messages.some(mentionsJson)) return
  fitting.instruct('Answer with one JSON object.')
  fitting.adjusted.push('messages')
}

function mentionsJson({ content }: ChatMessage): boolean {
  if (typeof content === 'string') return /json/i.test(content)
  return content?.some(part => part.type === 'text' && /json/i.test(part.text)) === true
}

function countImages(messages: readonly ChatMessage[]): number {
  let count = 0
  for (const { content } of messages)
    if (Array.isArray(content)) for (const { type } of content) if (type === 'image_url') count++
  return count
}
