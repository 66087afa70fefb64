import { GatewayError } from '../base/errors.ts'
import { nameOf, parseJson } from '../base/json.ts'
import type { SessionGuard } from './realtime-contract.ts'

/**
 * In every frame that can name tools or a stored prompt: the name, or a letter written as an escape, with which it could be
 * spelt. Sound has neither, in base64 or as bytes.
 */
const marks = /"(?:tools|prompt)"|\\u00[4-7][\da-f]/i

/**
 * Keeps back what names tools that the provider would run, or a prompt stored in its account. Such tools cost by the call,
 * which the events do not tell, and read what the account holds for everybody: vector stores, containers, connectors.
 */
export const toolGuard: SessionGuard = {
  suspects: frame => marks.test(frame.toString('latin1')),
  refusal(frame) {
    try {
      checkTools(parseJson(frame, 'The frame'))
      return null
    } catch (error) {
      // What we cannot read as it is written, a provider may.
      if (error instanceof GatewayError) return error
      throw error
    }
  },
}

/**
 * Throws 400 `unsupported_capability` for tools that their client does not run, wherever settings or an event name them, and
 * for a stored prompt, which may have some. `path` is where the value is, for `param`.
 */
export function checkTools(value: unknown, path: readonly string[] = []): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (typeof member !== 'object' || member === null) continue
    const at = [...path, name]
    switch (Array.isArray(value) ? null : name.toLowerCase()) {
      case 'tools':
        for (const tool of Array.isArray(member) ? member : [member]) checkTool(tool, at)
        break
      case 'prompt':
        throw unsupported('Sessions take no stored prompt: send its text as `instructions`.', at)
      default:
        checkTools(member, at)
    }
  }
}

/** What a function is called with is its client's business. */
function checkTool(tool: unknown, path: readonly string[]): void {
  const { type } = (tool ?? {}) as { type?: unknown }
  if (type === 'function') return
  const other = typeof type === 'string' ? `, and no \`${nameOf([type])}\`` : ''
  throw unsupported(`Sessions take tools of the type \`function\`, which their client runs${other}.`, path)
}

function unsupported(message: string, path: readonly string[]): GatewayError {
  return new GatewayError('unsupported_capability', message, { param: nameOf([...path]) })
}
