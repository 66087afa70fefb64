import { GatewayError } from '../../base/errors.ts'
import { isObject } from '../../base/is-object.ts'
import { formatPath, parseJson } from '../../base/json.ts'
import type { JudgeModel, SessionGuard } from '../realtime-contract.ts'

/**
 * Matches every frame that can name tools, a stored prompt, a service tier, traces or a model that transcribes: the name, or an
 * escaped letter that could spell it. Audio matches neither, in base64 or as bytes.
 */
const marks = /"(?:tools|prompt|service_tier|tracing|(?:input_audio_)?transcription)"|\\u00[4-7][\da-f]/i

/**
 * Blocks frames that name provider-run tools, a prompt stored in the provider account, or a more expensive tier. Such
 * tools are billed per call, which the events do not report, and can read the account's shared data: vector stores,
 * containers, connectors. Settings that the agents libraries send by default are not refused but left out: traces, which would
 * store the session in the account, and a transcription by a model that the key may not use.
 */
export const toolGuard: SessionGuard = {
  suspects: frame => marks.test(frame.toString('latin1')),
  refusal: (frame, judge) =>
    refusalOf(frame, event => {
      checkUnpriced(event)
      checkTranscriber(event, judge)
    }),
  strip: withoutDefaults,
}

const strippable = /"(?:tracing|(?:input_audio_)?transcription)"/i

/**
 * The frame without the setting `tracing`, by which OpenAI keeps the session's traces (openai, resources/realtime:
 * RealtimeTracingConfig), and with null, which turns it off, for a transcription by a model that the key may not use.
 */
function withoutDefaults(frame: Buffer, judge: JudgeModel): Buffer {
  if (!strippable.test(frame.toString('latin1'))) return frame
  const event = parseJson(frame, 'The frame') as { session?: unknown }
  const { session } = event
  if (!isObject(session)) return frame
  const kept = Object.entries(session)
    .filter(([name]) => name.toLowerCase() !== 'tracing')
    .map(([name, setting]) => [name, withoutTranscriber(name, setting, judge)])
  return Buffer.from(JSON.stringify({ ...event, session: Object.fromEntries(kept) }))
}

/** A setting of a session, with null for each transcription in it, at whatever depth, by a model that the key may not use. */
function withoutTranscriber(name: string, setting: unknown, judge: JudgeModel): unknown {
  if (!isObject(setting) || name.toLowerCase() === 'tools') return setting
  if (isTranscription(name)) return forbiddenModel(setting, judge) === null ? setting : null
  const entries = Object.entries(setting)
  return Object.fromEntries(entries.map(([member, value]) => [member, withoutTranscriber(member, value, judge)]))
}

/**
 * Throws 403 `model_not_allowed` where a session that only transcribes names a model that its key may not use: without it there
 * would be nothing left of the session.
 */
function checkTranscriber(event: unknown, judge: JudgeModel): void {
  const { type, session } = event as { type?: unknown; session?: unknown }
  if (!isObject(session) || (session.type !== 'transcription' && type !== 'transcription_session.update')) return
  const find = (value: Record<string, unknown>, path: string[]): void => {
    for (const [name, member] of Object.entries(value)) {
      if (!isObject(member)) continue
      const at = [...path, name]
      const model = isTranscription(name) ? forbiddenModel(member, judge) : null
      if (model !== null) throw modelNotAllowed(model, [...at, 'model'])
      find(member, at)
    }
  }
  find(session, ['session'])
}

/** GA settings have it as `audio.input.transcription`, those of the beta as `input_audio_transcription`. */
function isTranscription(name: string): boolean {
  return /^(?:input_audio_)?transcription$/i.test(name)
}

/** The model of a transcription if the key may not use it. */
function forbiddenModel(transcription: Record<string, unknown>, judge: JudgeModel): string | null {
  const [, model] = Object.entries(transcription).find(([name]) => name.toLowerCase() === 'model') ?? []
  return typeof model === 'string' && judge(model) === 'not_allowed' ? model : null
}

export function modelNotAllowed(model: string, path: readonly string[]): GatewayError {
  const message = `This key may not use \`${formatPath([model])}\`.`
  return new GatewayError('model_not_allowed', message, { param: formatPath([...path]) })
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
