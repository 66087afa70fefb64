import { GatewayError } from '../../base/errors.ts'
import { formatPath, parseJson } from '../../base/json.ts'
import type { SessionGuard } from '../realtime-contract.ts'

/**
 * Matches every frame that can name tools, a stored prompt, a service tier or traces: the name, or an escaped letter that
 * could spell it. Audio matches neither, in base64 or as bytes.
 */
const marks = /"(?:tools|prompt|service_tier|tracing)"|\\u00[4-7][\da-f]/i

/**
 * Blocks frames that name provider-run tools, a prompt stored in the provider account, or a more expensive tier. Such
 * tools are billed per call, which the events do not report, and can read the account's shared data: vector stores,
 * containers, connectors. Traces, which would store the session in the account, are left out of its settings.
 */
export const toolGuard: SessionGuard = {
  suspects: frame => marks.test(frame.toString('latin1')),
  refusal: frame => refusalOf(frame, checkUnpriced),
  strip: withoutTracing,
}

const tracing = /"tracing"/i

/**
 * The frame without the setting `tracing`, by which OpenAI keeps the session's traces (openai, resources/realtime:
 * RealtimeTracingConfig). Its agents library sends it by default, so it is left out rather than refused.
 */
function withoutTracing(frame: Buffer): Buffer {
  if (!tracing.test(frame.toString('latin1'))) return frame
  const event = parseJson(frame, 'The frame') as { session?: unknown }
  const { session } = event
  if (typeof session !== 'object' || session === null) return frame
  const kept = Object.entries(session).filter(([name]) => name.toLowerCase() !== 'tracing')
  return Buffer.from(JSON.stringify({ ...event, session: Object.fromEntries(kept) }))
}

/** What `check` throws for the event of a frame, or why the frame cannot be read; null for neither. */
export function refusalOf(frame: Buffer, check: (event: unknown) => void): GatewayError | null {
  try {
    check(parseJson(frame, 'The frame'))
    return null
  } catch (error) {
    // The provider's parser may accept what ours rejects.
    if (error instanceof GatewayError) return error
    throw error
  }
}

/** Tiers that have the usual price, or a lower one. */
const usualTiers: readonly unknown[] = ['auto', 'default', 'flex', null]

/**
 * Throws 400 `unsupported_capability` for tools that the client does not run, anywhere in settings or an event, for a
 * stored prompt, which may have some, and for other tiers than the usual ones. `path` is the value's location, for
 * `param`.
 */
export function checkUnpriced(value: unknown, path: readonly string[] = []): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    const at = [...path, name]
    if (name.toLowerCase() === 'service_tier' && !usualTiers.includes(member))
      throw unsupported('Sessions have the usual service tier: leave `service_tier` out.', at)
    if (typeof member !== 'object' || member === null) continue
    switch (Array.isArray(value) ? null : name.toLowerCase()) {
      case 'tools':
        for (const tool of Array.isArray(member) ? member : [member]) checkTool(tool, at)
        break
      case 'prompt':
        throw unsupported('Sessions take no stored prompt: send its text as `instructions`.', at)
      default:
        checkUnpriced(member, at)
    }
  }
}

/** A function's parameters are not checked: the client runs it. */
function checkTool(tool: unknown, path: readonly string[]): void {
  const { type } = (tool ?? {}) as { type?: unknown }
  if (type === 'function') return
  const other = typeof type === 'string' ? `, and no \`${formatPath([type])}\`` : ''
  throw unsupported(`Sessions take tools of the type \`function\`, which their client runs${other}.`, path)
}

export function unsupported(message: string, path: readonly string[]): GatewayError {
  return new GatewayError('unsupported_capability', message, { param: formatPath([...path]) })
}
