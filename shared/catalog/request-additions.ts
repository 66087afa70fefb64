import { z } from 'zod'
import { namesIn } from '../base/names.ts'

/**
 * What a deployment adds to the requests that it receives: headers, and top-level members of the body. Both are checked when the
 * catalog is loaded, so that neither can authorize a request, frame it, or buy what has no price.
 */

const maxHeaders = 20
const maxParameters = 50

/** Hop-by-hop headers (RFC 9110, 7.6.1), those of framing and content, those that carry credentials, and those the gateway sets. */
const refusedHeaders = namesIn(`
  connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade
  host content-length content-type content-encoding accept accept-encoding expect traceparent tracestate
  authorization cookie set-cookie x-api-key api-key x-goog-api-key xi-api-key x-key`)
const refusedPrefix = /^(x-amz-|sec-websocket-|:)/

const headerName = z
  .string()
  .toLowerCase()
  .regex(/^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/, 'must be the name of a header')
  .refine(name => !refusedHeaders.has(name) && !refusedPrefix.test(name), {
    error: 'is a header of the connection, of the content or of credentials, which a deployment cannot set',
  })

/** A value that can be sent. Its message does not repeat it: it may be a secret. */
export const sendable = /^[\x21-\x7e]([\x20-\x7e]{0,1998}[\x21-\x7e])?$/
const headerText = z.string().regex(sendable, 'must be 1 to 2,000 printable ASCII characters')

/** The headers of a deployment. Values of a file may have references, `${NAME}`, to variables of the environment. */
export const deploymentHeaders = z
  .record(headerName, headerText)
  .refine(headers => Object.keys(headers).length <= maxHeaders, `must be at most ${maxHeaders} headers`)

/**
 * Members of a body that decide what a request is, what it costs or which answer the gateway reads. The gateway sets them, from the
 * request and the price (docs/decisions/paid-fields.md).
 */
const refusedParameters = namesIn(`
  model models messages input prompt contents system instructions systemInstruction system_instruction stream stream_options
  max_tokens max_completion_tokens max_output_tokens n best_of candidateCount generationConfig generation_config min_tokens
  tools tool_config toolConfig functions service_tier modalities audio background store container conversation
  previous_response_id metadata thread mcp_servers include web_search web_search_options enable_search search
  search_parameters data_sources plugins documents image images size quality duration seconds resolution num_images
  dimensions encoding_format ignore_eos`)

const parameterName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,99}$/, 'must be the name of a top-level member')
  .refine(name => !refusedParameters.has(name), {
    error: 'decides what a request is or costs, which a deployment cannot change',
  })
const parameterValues = z
  .record(parameterName, z.json())
  .refine(values => JSON.stringify(values).length <= 20_000, 'must have at most 20,000 characters as JSON')

/** `set` replaces a member, `default` adds one that a request does not have, `remove` takes one out. */
export const deploymentParameters = z
  .strictObject({
    set: parameterValues.optional(),
    default: parameterValues.optional(),
    remove: z.array(parameterName).max(maxParameters).optional(),
  })
  .superRefine(({ set = {}, default: defaults = {}, remove = [] }, context) => {
    const seen = new Set<string>()
    for (const [part, names] of Object.entries({ set: Object.keys(set), default: Object.keys(defaults), remove }))
      for (const name of names) {
        const message = 'is in two of set, default and remove'
        if (seen.has(name)) context.addIssue({ code: 'custom', message, path: [part, name] })
        seen.add(name)
      }
    if (seen.size > maxParameters)
      context.addIssue({ code: 'custom', message: `must be at most ${maxParameters} members` })
  })
type DeploymentParameters = z.infer<typeof deploymentParameters>

/** A request's members with the parameters of a deployment. */
export function withParameters(
  members: Record<string, unknown>,
  { set, default: defaults, remove = [] }: DeploymentParameters,
): Record<string, unknown> {
  const changed = { ...defaults, ...members, ...set }
  for (const name of remove) delete changed[name]
  return changed
}

/** Headers whose value is a list, to which a deployment adds: `anthropic-beta`. */
const listHeader = /-beta$/

/** The headers of a request with those of a deployment, which win. */
export function withHeaders(
  headers: Record<string, string>,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const all = { ...headers }
  for (const [name, value] of Object.entries(own)) {
    const before = listHeader.test(name) ? all[name] : undefined
    all[name] = before ? `${before},${value}` : value
  }
  return all
}

/** A body of JSON with the parameters of a deployment; any other body as it is. */
export function withBodyParameters<Body>(body: Body, parameters: DeploymentParameters): Body | string {
  if (typeof body !== 'string' && !Buffer.isBuffer(body)) return body
  const text = String(body)
  if (!text.startsWith('{')) return body // A form.
  return JSON.stringify(withParameters(JSON.parse(text) as Record<string, unknown>, parameters))
}

const reference = /\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g

/**
 * A text with its references, `${NAME}`, replaced by what `read` returns of the name; `missing` gets the names without a value. `$${`
 * stands for `${`.
 */
export function resolveReferences(
  text: string,
  read: (name: string) => string | undefined,
  missing: (name: string) => void,
): string {
  return text
    .split('$${')
    .map(part =>
      part.replace(reference, (whole, name: string) => {
        const value = read(name)
        if (value === undefined || value === '') missing(name)
        return value ?? whole
      }),
    )
    .join('${')
}
