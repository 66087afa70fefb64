/** The transcript of a session. */
type Line = { id: string; who: 'you' | 'model'; text: string }
export type SessionEvent = { id: number; at: number; type: string; detail: string }
export type TalkState = {
  phase: 'closed' | 'opening' | 'open'
  lines: Line[]
  /** The latest events, newest first; audio events are only counted. */
  events: SessionEvent[]
  soundsIn: number
  soundsOut: number
  tokens: number
  /** The close reason; null while it is open. */
  ended: { code: number; reason: string } | null
  error: { code: string; message: string } | null
}

export const noTalk: TalkState = {
  phase: 'closed',
  lines: [],
  events: [],
  soundsIn: 0,
  soundsOut: 0,
  tokens: 0,
  ended: null,
  error: null,
}

const maxEvents = 200
const maxLines = 200

/** The fields of a session event that are read. */
export type ServerEvent = {
  type: string
  item_id?: string
  delta?: string
  text?: string
  transcript?: string
  item?: { id: string; role?: string; content?: { text?: string; transcript?: string }[] }
  response?: { usage?: { total_tokens?: number }; status?: string }
  error?: { code?: string; message?: string }
}

/** Reduces a server event into the session's state. */
export function withServerEvent(state: TalkState, event: ServerEvent, at: number): TalkState {
  if (event.type === 'response.output_audio.delta') return { ...state, soundsIn: state.soundsIn + 1 }
  const listed = { ...state, events: listedWith(state.events, event.type, detailOf(event), at) }
  if (event.type === 'error')
    return {
      ...listed,
      error: { code: event.error?.code ?? 'error', message: event.error?.message ?? 'The session failed.' },
    }
  if (event.type === 'response.done')
    return { ...listed, tokens: state.tokens + (event.response?.usage?.total_tokens ?? 0) }
  return { ...listed, lines: linesWith(state.lines, event) }
}

/** Reduces a client event into the session's state. */
export function withSentEvent(state: TalkState, type: string, at: number): TalkState {
  if (type === 'input_audio_buffer.append') return { ...state, soundsOut: state.soundsOut + 1 }
  return { ...state, events: listedWith(state.events, `→ ${type}`, '', at) }
}

function listedWith(events: SessionEvent[], type: string, detail: string, at: number): SessionEvent[] {
  const [latest] = events
  // Consecutive text deltas are one entry.
  if (latest?.type === type && type.endsWith('.delta'))
    return [{ ...latest, at, detail: latest.detail + detail }, ...events.slice(1)]
  return [{ id: (latest?.id ?? 0) + 1, at, type, detail }, ...events].slice(0, maxEvents)
}

function detailOf({ delta, transcript, text, error, response }: ServerEvent): string {
  return delta ?? transcript ?? text ?? error?.message ?? response?.status ?? ''
}

const spoken = ['response.output_audio_transcript', 'response.output_text']

function linesWith(lines: Line[], { type, item_id: id, delta, transcript, item }: ServerEvent): Line[] {
  if (id && delta !== undefined && spoken.some(name => type === `${name}.delta`))
    return extended(lines, id, 'model', delta)
  if (id && type === 'conversation.item.input_audio_transcription.completed')
    return extended(lines, id, 'you', transcript ?? '')
  if (type === 'conversation.item.added' && item?.role === 'user') {
    const text = item.content?.map(part => part.text ?? part.transcript ?? '').join('') ?? ''
    return text === '' ? lines : extended(lines, item.id, 'you', text)
  }
  return lines
}

function extended(lines: Line[], id: string, who: Line['who'], text: string): Line[] {
  if (!lines.some(line => line.id === id)) return [...lines, { id, who, text }].slice(-maxLines)
  return lines.map(line => (line.id === id ? { ...line, text: line.text + text } : line))
}
