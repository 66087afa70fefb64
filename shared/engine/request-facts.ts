import { toolsOfItems } from '../kinds/responses-tools.ts'

/** What the request log keeps of what a request asked for; absent fields were not sent. */
export type RequestFacts = {
  /** Settings such as `temperature`, and the number of tools; never texts of the prompt. */
  parameters?: Record<string, string | number | boolean>
  /** The caller's name of its own user. */
  endUser?: string
  metadata?: Record<string, string>
  /** The caller's name of the conversation. */
  session?: string
}

/** What the headers of a request attribute it to. */
export type RequestLabels = { user?: string; tags?: Record<string, string> }

/** The settings that are kept, by their name in the body: numbers, booleans and short words. */
const settings = [
  ...['temperature', 'top_p', 'top_k', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'seed'],
  ...['frequency_penalty', 'presence_penalty', 'reasoning_effort', 'verbosity', 'service_tier', 'tool_choice'],
  ...['parallel_tool_calls', 'logprobs', 'top_logprobs', 'truncation', 'background', 'store', 'max_tool_calls'],
  ...['dimensions', 'encoding_format', 'size', 'quality', 'style', 'voice', 'format', 'output_format', 'language'],
  ...['duration', 'aspect_ratio', 'resolution'],
]
/** Settings inside an object of the body: the field of that object. */
const nested = { response_format: 'type', reasoning: 'effort', thinking: 'type' }
/** Lists of which only the length is kept. */
const lists = ['tools', 'models']

/** What is kept of a member of the body: itself, one field of it, or its length. */
type Kept = { name: string; valueOf(value: unknown): unknown }
const keptMembers = new Map<string, Kept>([
  ...settings.map(name => [name, { name, valueOf: (value: unknown) => value }] as const),
  ...Object.entries(nested).map(
    ([name, field]) => [name, { name: `${name}.${field}`, valueOf: (value: unknown) => Object(value)[field] }] as const,
  ),
  ...lists.map(
    name => [name, { name, valueOf: (value: unknown) => (Array.isArray(value) ? value.length : null) }] as const,
  ),
])
/** Members of a body that are read; bodies have a dozen. */
const maxMembers = 500
const maxWordLength = 64
const maxNameLength = 200
const maxMetadata = 16
const maxMetadataLength = 128

type Body = Record<string, unknown>

/**
 * The facts of a validated body. `session`: the conversation that the request names, if any; `labels`: what its headers add,
 * which takes precedence.
 */
export function factsOf(body: object, session: string | null, labels: RequestLabels | null = null): RequestFacts {
  const given = body as Body
  const facts: RequestFacts = {}
  const itemTools = toolsOfItems(given.input).length
  let parameters = parametersOf(given)
  if (itemTools > 0) parameters = { ...parameters, tools: Number(parameters?.tools ?? 0) + itemTools }
  if (parameters) facts.parameters = parameters
  const metadata = given.metadata
  if (typeof metadata === 'object' && metadata !== null) {
    const kept = metadataOf(metadata as Body)
    if (kept) facts.metadata = kept
  }
  const endUser = given.safety_identifier ?? given.user ?? (metadata as Body | null | undefined)?.user_id
  // Coding agents put an object into `user_id`: the session, which is known by then.
  if (typeof endUser === 'string' && endUser !== '' && !endUser.startsWith('{'))
    facts.endUser = endUser.slice(0, maxNameLength)
  if (labels?.user) facts.endUser = labels.user
  if (labels?.tags) facts.metadata = { ...facts.metadata, ...labels.tags }
  if (session) facts.session = session.slice(0, maxNameLength)
  return facts
}

/** Reads the members that the body has: looking up all that it may have takes microseconds. */
function parametersOf(body: Body): RequestFacts['parameters'] {
  let parameters: RequestFacts['parameters']
  let members = 0
  for (const member in body) {
    if (members++ === maxMembers) break
    const kept = keptMembers.get(member)
    if (!kept) continue
    const value = kept.valueOf(body[member])
    const isWord = typeof value === 'string' && value.length <= maxWordLength
    if (typeof value === 'number' || typeof value === 'boolean' || isWord) (parameters ??= {})[kept.name] = value
  }
  return parameters
}

function metadataOf(metadata: Body): Record<string, string> | null {
  const kept: Record<string, string> = {}
  let count = 0
  for (const name in metadata) {
    const value = metadata[name]
    if (typeof value !== 'string' || (name === 'user_id' && value.startsWith('{'))) continue
    if (count++ === maxMetadata) break
    kept[name.slice(0, maxWordLength)] = value.slice(0, maxMetadataLength)
  }
  return count > 0 ? kept : null
}
