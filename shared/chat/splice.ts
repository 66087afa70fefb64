/** A parsed chunk of our dialect, as far as its frame is concerned. */
type Framed = { model?: unknown; usage?: unknown; system_fingerprint?: unknown }

/** What a chunk that passes as it came has to say. */
export type Frame = {
  /** Our name of the model. */
  model: string
  /** Whether a chunk without usage says `usage: null`, as OpenAI does where `include_usage` is set; else it does not name it. */
  includeUsage: boolean
}

/** Changes the few members of a chunk that are not the client's own, in the text of its event, without writing it anew. */
export class Splicer {
  readonly #frame: Frame
  readonly #ourName: string
  /** What the provider called the model last, as it is written in JSON. */
  #theirName: { name: unknown; written: string } = { name: null, written: 'null' }

  constructor(frame: Frame) {
    this.#frame = frame
    this.#ourName = asBytes(JSON.stringify(frame.model))
  }

  /**
   * The text of a chunk's event as it may pass: the same where nothing is to be changed, null where that cannot be done in place.
   * `raw`: the event as latin1 text of its bytes; `chunk`: what it holds, without usage.
   */
  splice(raw: string, chunk: Framed): string | null {
    const { model, includeUsage } = this.#frame
    const edits: (Edit | null)[] = []
    let missing = ''
    if (chunk.model === undefined) missing += `"model":${this.#ourName},`
    else if (chunk.model !== model) edits.push(this.#renaming(raw, chunk.model))
    if (chunk.usage !== undefined && !includeUsage) edits.push(removalOfNull(raw, 'usage'))
    if (chunk.usage === undefined && includeUsage) missing += '"usage":null,'
    // Not every client takes a null there, while all take a chunk without it.
    if (chunk.system_fingerprint === null) edits.push(removalOfNull(raw, 'system_fingerprint'))
    if (missing !== '') edits.push(insertionOf(raw, missing))
    return edits.length === 0 ? raw : edited(raw, edits)
  }

  #renaming(text: string, name: unknown): Edit | null {
    if (name !== this.#theirName.name) this.#theirName = { name, written: asBytes(JSON.stringify(name)) }
    const { written } = this.#theirName
    const member = findMember(text, 'model', written)
    return member && { start: member.end - written.length, end: member.end, text: this.#ourName }
  }
}

/** What stands in the place of a part of a text. */
type Edit = { start: number; end: number; text: string }

/** A text with some parts replaced, which do not overlap; null where one of them was not found. */
function edited(text: string, edits: (Edit | null)[]): string | null {
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

/** Takes a member that is null out of a chunk with the comma before it; null where it is the first member or cannot be told from others. */
function removalOfNull(text: string, name: string): Edit | null {
  const member = findMember(text, name, 'null')
  if (!member) return null
  const { start, end } = member
  if (text[start - 1] === ',') return { start: start - 1, end, text: '' }
  return text.startsWith(', ', start - 2) ? { start: start - 2, end, text: '' } : null
}

/** Adds members to the object of an event, which has some; null where its data is not found. */
function insertionOf(text: string, members: string): Edit | null {
  const data = text.startsWith('data:') ? 0 : text.indexOf('\ndata:')
  if (data < 0) return null
  const start = text.indexOf('{', data) + 1
  return { start, end: start, text: members }
}

/**
 * Where a member begins and its value ends; null where more than one member's name ends like this one's, or the value is written
 * in another way. Quotes within JSON strings are escaped, so that no member is found in what a model wrote.
 */
function findMember(text: string, name: string, written: string): { start: number; end: number } | null {
  // Searched from a letter on: there are quotes everywhere.
  const rest = `${name}":`
  const at = text.indexOf(rest)
  let end = at + rest.length
  if (at < 1 || text[at - 1] !== '"' || text.includes(rest, end)) return null
  if (text[end] === ' ') end++
  return text.startsWith(written, end) ? { start: at - 1, end: end + written.length } : null
}

/** Text as latin1 characters that are its UTF-8 bytes. */
export function asBytes(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1')
}
