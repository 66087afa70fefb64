import { randomUUID } from 'node:crypto'
import { instanceOf } from './instance.ts'

export type FunctionTool = { name: string; parameters?: Record<string, unknown> | undefined }

const pieceCharacters = /.{1,12}/gsu

/**
 * The function that is called: the one that the choice names, else the first where one is `required` or `asked` for.
 * `choice`: `none`, `auto`, `required`, or a function by its name.
 */
export function calledTool(
  tools: readonly FunctionTool[],
  choice: { named: string } | string | undefined,
  asked: boolean,
): FunctionTool | 'unknown' | null {
  if (typeof choice === 'object') return tools.find(({ name }) => name === choice.named) ?? 'unknown'
  return choice === 'required' || (asked && choice !== 'none') ? (tools[0] ?? null) : null
}

/** Arguments valid for the tool's schema, as JSON. */
export function argumentsOf({ parameters }: FunctionTool): string {
  return JSON.stringify(instanceOf(parameters ?? {}) ?? {})
}

/** Arguments as they are streamed. */
export function argumentPieces(args: string): string[] {
  return args.match(pieceCharacters) ?? []
}

/** A name for a call or a piece of sound, as OpenAI's look. */
export function newCallId(prefix: 'call' | 'audio'): string {
  return `${prefix}_${randomUUID().replaceAll('-', '')}`
}
