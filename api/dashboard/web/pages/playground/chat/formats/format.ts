import { isObject } from '../../../../../../../shared/base/is-object.ts'
import type { Piece, Turn } from '../turns.ts'

/** What is asked of a model, apart from an API format. */
export type Prompt = {
  model: string
  /** The model's output limit; null where it is unknown. */
  maxOutputTokens: number | null
  system: string
  turns: Turn[]
  /** As chat completions take them; each format writes its own form of functions. */
  tools: unknown[]
  mode: string
  temperature: number | string
  maxTokens: number | string
  asksForPictures: boolean
}

/** A format in which the API takes a conversation and streams the response. */
export type Format = {
  label: string
  path: string
  /** The body of a streamed request. */
  body: (prompt: Prompt) => object
  /** The part of a response in one event of its stream. */
  read: (event: never) => Piece
  /** Code of the format's official SDK that prints the text as it arrives. */
  javascript: (origin: string, body: object) => string
  python: (origin: string, body: object) => string
}

type ChatFunction = { name: string; description?: string; parameters?: object; strict?: boolean }

/** Writes the functions of a list of tools in another form; everything else that a user entered stays as it is. */
export function mapFunctions(tools: unknown[], write: (called: ChatFunction) => object): unknown[] {
  return tools.map(tool => {
    const called = isObject(tool) && tool.function
    return isObject(called) ? write(called as ChatFunction) : tool
  })
}

const dataUri = /^data:([^;,]+);base64,(.*)$/s

/** The parts of an image’s data URI. */
export function imageOf(url: string): { type: string; data: string } {
  const [, type = '', data = ''] = dataUri.exec(url) ?? []
  return { type, data }
}
