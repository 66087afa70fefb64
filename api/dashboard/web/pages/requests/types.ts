import { kindNames } from '../jobs/kind-names.ts'

const names: Record<string, string> = {
  chat: 'Chat',
  messages: 'Messages',
  responses: 'Responses',
  generate_content: 'Gemini',
  completion: 'Completion',
  embedding: 'Embeddings',
  image: 'Image',
  speech: 'Speech',
  transcription: 'Transcription',
  music: 'Music',
  sfx: 'Sound effect',
  rerank: 'Rerank',
  moderation: 'Moderation',
  ocr: 'OCR',
  realtime: 'Realtime session',
  batch: 'Batch',
  ...kindNames,
}

/** The display names of request types. */
export function typeName(type: string): string {
  return names[type] ?? type
}

export const typeChoices = Object.entries(names).map(([value, label]) => ({ value, label }))
