import type { Exchange } from './recording-proxy.ts'

/** Members whose texts are choices among a few, not content. */
const choices =
  /^(type|role|effort|mode|display|format|detail|service_tier|truncation|verbosity|tool_choice|summary|keep)$/
const choice = /^[a-z][\w.-]{0,40}$/
/** What an agent's own tools take is not the protocol. */
const schemas = /^(parameters|input_schema|schema|parametersJsonSchema|definition|arguments|input|metadata)$/
const maxDepth = 12

/**
 * What a client asks, without its content: routes, headers, betas, the members of bodies with their choices, and the
 * gateway's refusals.
 */
export function shapesOf(exchanges: Exchange[]): Set<string> {
  const shapes = new Set<string>()
  for (const { method, path, headers, body, status, answer } of exchanges) {
    const route = `${method} ${path.replace(/\/(resp|conv|file|batch|job|vid|gen|key)[-_][\w-]+/g, '/…').replace(/=[^&]*/g, '')}`
    shapes.add(route)
    for (const name of Object.keys(headers)) shapes.add(`${route} header ${name}`)
    for (const beta of String(headers['anthropic-beta'] ?? '').split(',')) if (beta) shapes.add(`beta ${beta.trim()}`)
    addMembers(shapes, route, '', body, 0)
    if (status >= 400) shapes.add(`${route} refused: ${status} ${messageOf(answer)}`)
  }
  return shapes
}

function addMembers(shapes: Set<string>, route: string, path: string, value: unknown, depth: number): void {
  if (depth > maxDepth || typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const one of value) addMembers(shapes, route, `${path}[]`, one, depth + 1)
    return
  }
  for (const [name, member] of Object.entries(value)) {
    const at = path ? `${path}.${name}` : name
    shapes.add(`${route} ${at}`)
    if (choices.test(name) && typeof member === 'string' && choice.test(member)) shapes.add(`${route} ${at}=${member}`)
    if (!schemas.test(name) || Array.isArray(member)) addMembers(shapes, route, at, member, depth + 1)
  }
}

function messageOf(answer: string): string {
  try {
    return JSON.parse(answer).error.message
  } catch {
    return answer.slice(0, 200)
  }
}

/** The lines that say what is new in `newest`, and what is gone. */
export function differencesOf(pinned: Set<string>, newest: Set<string>): string[] {
  const added = [...newest].filter(shape => !pinned.has(shape)).map(shape => `+ ${shape}`)
  const gone = [...pinned].filter(shape => !newest.has(shape)).map(shape => `- ${shape}`)
  return [...added.sort(), ...gone.sort()]
}
