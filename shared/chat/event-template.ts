/** Values that prove the positions of the texts of an event: nothing else in an event equals them. */
export const probes = ['headgate-probe-0', 'headgate-probe-1', 'headgate-probe-2'] as const
/** Learning stops after this many unused templates in a row: the server's events differ in more than their text. */
export const maxUnusedTemplates = 4
/** Matches a member whose value is plain text. */
const values = new Map(
  ['content', 'reasoning_content', 'refusal', 'text', 'thinking', 'partial_json', 'obfuscation', 'p'].map(name => [
    name,
    plainValueOf(name),
  ]),
)
const quote = 0x22
const backslash = 0x5c

function plainValueOf(name: string): RegExp {
  return new RegExp(`("${name}": ?")[ !#-[\\]-~]*(?=")`)
}

/** The end of plain text, which is identical in JSON, bytes and characters: the first character that needs escaping. */
export function endOfPlain(bytes: Buffer, from: number): number {
  let at = from
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte < 0x20 || byte > 0x7e || byte === quote || byte === backslash) break
  }
  return at
}

/** Whether these bytes contain `part` at this position. */
export function hasAt(bytes: Buffer, part: Buffer, at: number): boolean {
  const end = at + part.length
  return end <= bytes.length && part.compare(bytes, at, end) === 0
}

/** Replaces the first plain-text value of each named member by a probe; null when one is missing. */
export function withProbes(raw: string, names: readonly string[]): string | null {
  let text = raw
  for (const [i, name] of names.entries()) {
    const changed = text.replace(values.get(name)!, `$1${probes[i]}`)
    if (changed === text) return null
    text = changed
  }
  return text
}

/** Not from Node's buffer pool, which a template would keep in memory. */
export function ownBytes(text: string): Buffer {
  const bytes = Buffer.alloc(text.length)
  bytes.write(text, 'latin1')
  return bytes
}

/** The parts of a text around its probes; null unless each occurs exactly once, in this order. */
export function partsAround(order: readonly string[], text: string): string[] | null {
  const parts: string[] = []
  let rest = text
  for (const probe of order) {
    const [before, after, more] = rest.split(probe)
    if (after === undefined || more !== undefined) return null
    parts.push(before!)
    rest = after
  }
  return [...parts, rest]
}
