import { mp3Length } from '../../../io/media/mp3.ts'
import { waveLength } from '../../../io/media/wave.ts'
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

/** For the formats that OpenAI accepts in messages, to a tenth of a second; null for any other. */
async function secondsOf(bytes: Buffer): Promise<number | null> {
  const file = { bytes: bytes.length, read: async (start: number, end: number) => bytes.subarray(start, end) }
  const length = (await waveLength(file)) ?? (await mp3Length(file))
  return length ? Math.round(length.seconds * 10) / 10 : null
}
