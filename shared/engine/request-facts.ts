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

/** The settings that are kept, by their name in the body: numbers, booleans and short words. */
const settings = [
  ...['temperature', 'top_p', 'top_k', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'seed'],
  ...['frequency_penalty', 'presence_penalty', 'reasoning_effort', 'verbosity', 'service_tier', 'tool_choice'],
  ...['parallel_tool_calls', 'logprobs', 'top_logprobs', 'truncation', 'background', 'store', 'max_tool_calls'],
  ...['dimensions', 'encoding_format', 'size', 'quality', 'style', 'voice', 'format', 'output_format', 'language'],
  ...['duration', 'aspect_ratio', 'resolution'],
] as const
/** Settings inside an object of the body: its name, and the name of the field in it. */
const nested = [
  ['response_format', 'type'],
  ['reasoning', 'effort'],
  ['thinking', 'type'],
] as const
const maxWordLength = 64
const maxNameLength = 200
const maxMetadata = 16
const maxMetadataLength = 128

type Body = Record<string, unknown>

/** The facts of a validated body. `session`: the conversation that the request names, if any. */
export function factsOf(body: object, session: string | null): RequestFacts {
  const given = body as Body
  const facts: RequestFacts = {}
  const parameters = parametersOf(given)
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
  if (session) facts.session = session.slice(0, maxNameLength)
  return facts
}

function parametersOf(body: Body): RequestFacts['parameters'] {
  let parameters: RequestFacts['parameters']
  const keep = (name: string, value: unknown) => {
    if (typeof value === 'number' || typeof value === 'boolean') (parameters ??= {})[name] = value
    else if (typeof value === 'string' && value.length <= maxWordLength) (parameters ??= {})[name] = value
  }
  for (const name of settings) if (body[name] !== undefined) keep(name, body[name])
  for (const [name, field] of nested) {
    const value = body[name]
    if (typeof value === 'object' && value !== null) keep(`${name}.${field}`, (value as Body)[field])
  }
  if (Array.isArray(body.tools)) keep('tools', body.tools.length)
  if (Array.isArray(body.models)) keep('models', body.models.length)
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
