/** The members of a native chunk that may need changes. */
type Framed = { model?: unknown; usage?: unknown; system_fingerprint?: unknown }

/** The required frame of a forwarded chunk. */
type Frame = {
  /** Our name of the model. */
  model: string
  /**
   * Whether chunks without usage contain `usage: null`, as OpenAI's do with `include_usage`; otherwise the member is
   * absent.
   */
  includeUsage: boolean
}

/** Edits the frame members of a chunk in its event text, without serializing it again. */
export class Splicer {
  readonly #frame: Frame
  readonly #ourName: string
  /** The provider's last model name, as written in JSON. */
  #theirName: { name: unknown; serialized: string } = { name: null, serialized: 'null' }

  constructor(frame: Frame) {
    this.#frame = frame
    this.#ourName = asBytes(JSON.stringify(frame.model))
  }

  /**
   * Returns the event text of a chunk for forwarding: unchanged if it needs no edits, null if it cannot be edited in
   * place. `raw`: the event as latin1 text of its bytes; `chunk`: its parsed content, without usage.
   */
  splice(raw: string, chunk: Framed): string | null {
    const { model, includeUsage } = this.#frame
    const edits: (Edit | null)[] = []
    let missing = ''
    if (chunk.model === undefined) missing += `"model":${this.#ourName},`
    else if (chunk.model !== model) edits.push(this.#renaming(raw, chunk.model))
    if (chunk.usage !== undefined && !includeUsage) edits.push(removalOfNull(raw, 'usage'))
    if (chunk.usage === undefined && includeUsage) missing += '"usage":null,'
    // Some clients reject a null there; all accept its absence.
    if (chunk.system_fingerprint === null) edits.push(removalOfNull(raw, 'system_fingerprint'))
    if (missing !== '') edits.push(insertionOf(raw, missing))
    return edits.length === 0 ? raw : applyEdits(raw, edits)
  }

  #renaming(text: string, name: unknown): Edit | null {
    if (name !== this.#theirName.name) this.#theirName = { name, serialized: asBytes(JSON.stringify(name)) }
    const { serialized } = this.#theirName
    const member = findMember(text, 'model', serialized)
    return member && { start: member.end - serialized.length, end: member.end, text: this.#ourName }
  }
}

/** A replacement for part of a text. */
type Edit = { start: number; end: number; text: string }

/** Applies non-overlapping edits; null when one of them was not found. */
function applyEdits(text: string, edits: (Edit | null)[]): string | null {
  if (!edits.every(edit => edit !== null)) return null
  if (edits.length > 1) edits.sort((a, b) => a.start - b.start)
  let out = ''
  let from = 0
  for (const edit of edits) {
    out += text.slice(from, edit.start) + edit.text
    from = edit.end
  }
  return out + text.slice(from)
}

/** Removes a null member and the comma before it; null when it is the first member or ambiguous. */
function removalOfNull(text: string, name: string): Edit | null {
  const member = findMember(text, name, 'null')
  if (!member) return null
  const { start, end } = member
  if (text[start - 1] === ',') return { start: start - 1, end, text: '' }
  return text.startsWith(', ', start - 2) ? { start: start - 2, end, text: '' } : null
}

/** Inserts members into the non-empty object of an event; null when its data is not found. */
function insertionOf(text: string, members: string): Edit | null {
  const data = text.startsWith('data:') ? 0 : text.indexOf('\ndata:')
  if (data < 0) return null
  const start = text.indexOf('{', data) + 1
  return { start, end: start, text: members }
}

/**
 * The start of a member and the end of its value; null when several member names end like this one, or the value is
 * written differently. Quotes within JSON strings are escaped, so model output never matches.
 */
function findMember(text: string, name: string, serialized: string): { start: number; end: number } | null {
  // Searches from a letter on: quotes are too frequent.
  const rest = `${name}":`
  const at = text.indexOf(rest)
  let end = at + rest.length
  if (at < 1 || text[at - 1] !== '"' || text.includes(rest, end)) return null
  if (text[end] === ' ') end++
  return text.startsWith(serialized, end) ? { start: at - 1, end: end + serialized.length } : null
}

/** Text as latin1 characters of its UTF-8 bytes. */
export function asBytes(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}
