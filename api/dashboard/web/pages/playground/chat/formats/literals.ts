const step = 2

/** A JavaScript literal of a JSON value. In JSON a line begins with a name and a colon only where it is a member. */
export function javascriptOf(value: unknown): string {
  return JSON.stringify(value, null, step).replace(/^( *)"([a-z]\w*)": /gim, '$1$2: ')
}

/** The keyword arguments of a Python call. Members that the SDK does not name go into `extra_body`. */
export function pythonArguments(body: object): string {
  const { mode, ...named } = body as Record<string, unknown>
  const all = mode === undefined ? named : { ...named, extra_body: { mode } }
  return Object.entries(all)
    .map(([name, value]) => `    ${name}=${pythonOf(value, '    ')},\n`)
    .join('')
}

/** A Python literal of a JSON value; lines after the first begin with `indent`. */
export function pythonOf(value: unknown, indent: string): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value !== 'object') return JSON.stringify(value)
  const inner = `${indent}    `
  const [open, close, items] = Array.isArray(value)
    ? ['[', ']', value.map(item => pythonOf(item, inner))]
    : ['{', '}', Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonOf(item, inner)}`)]
  return items.length === 0
    ? `${open}${close}`
    : `${open}\n${items.map(item => `${inner}${item},\n`).join('')}${indent}${close}`
}
