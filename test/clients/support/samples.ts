import { randomBytes } from 'node:crypto'
import { textureFile } from '../../../shared/providers/sandbox/media/mesh-files.ts'

export { wav } from '../../support/media/sounds.ts'

/** One chat model behind each protocol that is translated; the request of the first is passed on. */
export const targets = [
  { model: 'gpt-5.6-luna', provider: 'openai' },
  { model: 'claude-haiku-4-5', provider: 'anthropic' },
  { model: 'gemini-3.5-flash', provider: 'gemini' },
] as const

/** A word that nothing else has said: to find a request again by. */
export const marker = () => `mark${randomBytes(6).toString('hex')}`

export const weather = {
  name: 'weather',
  description: 'The weather in a city',
  parameters: {
    type: 'object' as const,
    properties: { city: { type: 'string' as const } },
    required: ['city'],
    additionalProperties: false,
  },
}

export const person = {
  type: 'object' as const,
  properties: { name: { type: 'string' as const }, age: { type: 'number' as const } },
  required: ['name', 'age'],
  additionalProperties: false,
}

export const image = textureFile()
export const imageUri = `data:image/png;base64,${image.toString('base64')}`
