import { randomUUID } from 'node:crypto'
import { minPieceCharacters } from './response.ts'
import { fakeInstance } from './schema-faker.ts'

export type FunctionTool = { name: string; parameters?: Record<string, unknown> | undefined }

const minArgumentCharacters = 12

/**
 * The function to call: the one that the choice names, otherwise the first if one is `required` or `isRequested` for.
 * `choice`: `none`, `auto`, `required`, or a function's name.
 */
export function calledTool(
  tools: readonly FunctionTool[],
  choice: { named: string } | string | undefined,
  isRequested: boolean,
): FunctionTool | 'unknown' | null {
  if (typeof choice === 'object') return tools.find(({ name }) => name === choice.named) ?? 'unknown'
  return choice === 'required' || (isRequested && choice !== 'none') ? (tools[0] ?? null) : null
}

/** Arguments valid for the tool's schema, as JSON. */
export function argumentsOf({ parameters }: FunctionTool): string {
  return JSON.stringify(fakeInstance(parameters ?? {}) ?? {})
}

/** Splits arguments for streaming, as they are read; `copies` of them are streamed. */
export function* argumentPieces(args: string, copies = 1): Generator<string> {
  const length = Math.max(minArgumentCharacters, minPieceCharacters(args.length * copies))
  for (const [piece] of args.matchAll(new RegExp(`.{1,${length}}`, 'gsu'))) yield piece
}

/** An id for a call or an audio output, in OpenAI's format. */
export function newCallId(prefix: 'call' | 'audio'): string {
  return `${prefix}_${randomUUID().replaceAll('-', '')}`
}
