import { measureSound } from '../../../io/media/measure.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'

type UserPart = Exclude<Extract<ChatRequest['messages'][number], { role: 'user' }>['content'], string>[number]

/** The sandbox's response to a last user message with media and no text; '' for any other. */
export async function describeMedia({ messages }: ChatRequest): Promise<string> {
  const message = messages.findLast(({ role }) => role === 'user')
  if (message?.role !== 'user' || typeof message.content === 'string') return ''
  if (message.content.some(part => part.type === 'text' && part.text.trim() !== '')) return ''
  const sentences: string[] = []
  for (const part of message.content) if (part.type !== 'text') sentences.push(await sentenceOf(part))
  return sentences.join(' ')
}

async function sentenceOf(part: Exclude<UserPart, { type: 'text' }>): Promise<string> {
  if (part.type === 'image_url') return 'I saw an image.'
  if (part.type === 'file') return 'I read a file.'
  const { data, format } = part.input_audio
  const seconds = await secondsOf(Buffer.from(data, 'base64'))
  return seconds === null ? `I heard ${format} audio.` : `I heard ${seconds} seconds of ${format} audio.`
}

/** Answers of the sandbox wait for one another. */
const sandbox = { organisationId: 'sandbox', environment: 'test' } as const

/** To a tenth of a second; null if the sound cannot be read. */
async function secondsOf(bytes: Buffer): Promise<number | null> {
  const ms = await measureSound(bytes, sandbox)
  return ms === null ? null : Math.round(ms / 100) / 10
}
