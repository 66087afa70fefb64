import type { ChatMessage } from '../../kinds/chat.ts'
import type { Fitting } from './fitting.ts'

/**
 * "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'": a line of the system prompt
 * has it where the client's messages do not, as those of clients of Gemini or Claude, which ask for no such word.
 */
export function fitJsonWord(fitting: Fitting): void {
  const { response_format: format, messages } = fitting.body
  if (format?.type !== 'json_object' || !fitting.profile.json_word || messages.some(mentionsJson)) return
  fitting.instruct('Answer with one JSON object.')
  fitting.adjusted.push('messages')
}

function mentionsJson({ content }: ChatMessage): boolean {
  if (typeof content === 'string') return /json/i.test(content)
  return content?.some(part => part.type === 'text' && /json/i.test(part.text)) === true
}
