/**
 * What requests have that the gateway does not know: a `field` of the top level or a `header`, which are not sent, and a
 * `beta` or a `nested` member or type, which pass. Collected by the process, for operators to see once by name
 * (`UnknownNames`): translation, which meets them, has no services.
 */
export const unknownKinds = ['field', 'header', 'beta', 'nested'] as const
export type UnknownKind = (typeof unknownKinds)[number]
type UnknownName = { kind: UnknownKind; name: string; count: number }

/** Names come from callers: of more than this, only their number is known. */
const maxNames = 200
const maxCharacters = 80

let found = new Map<string, UnknownName>()
const totals: Record<UnknownKind, number> = { field: 0, header: 0, beta: 0, nested: 0 }

/** Notes a name of a request whose key is valid, such as `messages.thread` or `items.shell_call`. */
export function noteUnknown(kind: UnknownKind, name: string): void {
  totals[kind]++
  const shown = shownName(name)
  const id = `${kind} ${shown}`
  const known = found.get(id)
  if (known) known.count++
  else if (found.size < maxNames) found.set(id, { kind, name: shown, count: 1 })
}

/** The names since the last call. */
export function takeUnknown(): UnknownName[] {
  const taken = [...found.values()]
  found = new Map()
  return taken
}

/** How many were noted since the process began. */
export function countUnknown(): Readonly<Record<UnknownKind, number>> {
  return totals
}

/** A name of a caller, which may be any text. */
function shownName(name: string): string {
  const text = name.slice(0, maxCharacters).replace(/[^\w.:-]/g, '?')
  return name.length > maxCharacters ? `${text}…` : text
}
