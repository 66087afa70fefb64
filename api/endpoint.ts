import type { IncomingHttpHeaders } from 'node:http'
import type { z } from 'zod'
import type { ErrorCode } from '../shared/base/errors.ts'
import type { StoredFile } from '../shared/jobs/files.ts'
import type { Actor } from '../shared/keys/audit.ts'
import type { Known } from '../shared/keys/policies.ts'
import type { Scope } from '../shared/keys/policy.ts'
import type { Services } from '../shared/services.ts'
import type { AnswerHeaderName } from './answer-headers.ts'
import type { Person } from './auth/accounts.ts'
import type { Role } from './auth/roles.ts'
import type { HttpClient } from './http-client.ts'
import type { Fields, FilePart } from './middleware/multipart.ts'
import type { Context, Keep, Upload } from './state.ts'

export type { Context, Keep, Upload } from './state.ts'

/**
 * Who may call: anybody, a standard key with a scope (null = any valid key), or a provisioning key. Routes of the dashboard
 * take a signed-in person: any, an operator of the service, or a member of the `{organisation}` in the path with at least a role.
 */
export type Access = 'public' | 'provisioning' | { scope: Scope | null } | 'person' | 'operator' | { role: Role }

/** An optional request header that an endpoint reads, as the documentation has it. */
export type Header = { name: string; maxLength: number; description: string }

export type FormFile = {
  name: string
  description: string
  required: boolean
  /** How many files of this name; one where absent. */
  most?: number
  /** In place of the limits of uploads. */
  mostBytes?: number
}

/** A multipart form with files, which an endpoint takes: alone, or as another way to write its JSON body. */
export type Form = {
  files: FormFile[]
  /** Text fields that may be there several times, also as `name[]`. */
  lists?: string[]
  /** The longest text field, where the usual limit of forms is too low. */
  maxFieldBytes?: number
  /** How many text fields, where the usual limit of forms is too low. */
  maxFields?: number
  /** True where there is no other way to write the body. */
  only?: boolean
  /** Stores a file as it comes in, for the key of the request, in place of what is done with uploads of media. */
  store?(services: Services, known: Known, part: FilePart): Promise<StoredFile>
  /** The JSON body that a form stands for; it is validated as one. Without it the form has no other fields. */
  toBody?(fields: Fields, uploads: Upload[], services: Services): unknown
  /** What a field of the body is called in the form, for errors. */
  names?: Record<string, string>
  /** True where the files are of no use once the request is answered. */
  passing?: boolean
  /** True for work that costs nothing: it is counted against the key's limits before the file is taken in. */
  free?: boolean
  /** A form that is accepted, for the documentation: each file by a name with its extension. */
  example?: Record<string, unknown>
  /** True where the documentation shows the JSON body first: the form is not what clients of OpenAI send here. */
  jsonFirst?: boolean
}

/**
 * `contentType`: null where it has no body. `also`: other content types that it may have. `events`: the data of each event
 * where it may be an event stream. `headers`: those beside the ones that every answer of its access has.
 */
export type Answer = {
  description: string
  schema?: z.ZodType
  contentType?: string | null
  also?: string[]
  events?: z.ZodType
  headers?: AnswerHeaderName[]
}

/** A request as a handler sees it: validated, typed by the endpoint's own schemas. */
export type Validated<Body, Query> = {
  services: Services
  known: Known
  organisationId: string
  person: Person
  role: Role
  actor: Actor
  body: Body
  raw: Buffer
  uploads: Upload[]
  query: Query
  params: Record<string, string>
  headers: IncomingHttpHeaders
  client: HttpClient
  requestId: string
  wide: Record<string, unknown>
  keep: Keep
  ctx: Context
}

/** A request as the handler of a direct endpoint sees it: nothing of the framework. */
export type Direct<Body> = Omit<Validated<Body, unknown>, 'ctx' | 'params' | 'query'>

export type Endpoint = {
  method: 'get' | 'post' | 'patch' | 'delete'
  /** With parameters in braces, as OpenAPI writes them. */
  path: string
  /** True when the parameter at the end of the path may contain slashes. */
  deep?: boolean
  /** The name of the call in generated clients, e.g. `createFile`; endpoints of the dashboard are not documented. */
  operationId?: string
  tag: string
  summary: string
  description?: string
  access: Access
  /** True where the answer to a standard key holds a secret: what is kept of it for an `Idempotency-Key` is sealed. */
  secret?: boolean
  body?: z.ZodType
  /** A body that is accepted, for the documentation. */
  example?: unknown
  form?: Form
  query?: z.ZodObject
  headers?: Header[]
  answers: Record<number, Answer>
  /** True where the handler answers through `client` and needs nothing of the framework: see `direct`. */
  direct?: true
  /** Error codes of its own beyond those every endpoint of its access can give. */
  errors?: ErrorCode[]
  // biome-ignore lint/suspicious/noExplicitAny: each endpoint's handler is typed by its own schemas, see `endpoint`
  handle(request: Validated<any, any>): unknown
}

/** Declares an endpoint: its guards, schemas and documentation in one place, its handler typed by them. What the handler returns is sent as JSON, unless it answered through `client`. */
export function endpoint<B extends z.ZodType = z.ZodUnknown, Q extends z.ZodObject = z.ZodObject>(
  declared: Omit<Endpoint, 'handle' | 'body' | 'query'> & {
    body?: B
    query?: Q
    handle(request: Validated<z.output<B>, z.output<Q>>): unknown
  },
): Endpoint {
  return declared
}

/**
 * Declares an endpoint whose handler answers through `client`. Its JSON requests go past the framework (`withLane`); that nothing
 * of it is used is what the handler's type asserts.
 */
export function direct<B extends z.ZodType>(
  declared: Omit<Endpoint, 'handle' | 'body' | 'query' | 'direct'> & {
    body: B
    handle(request: Direct<z.output<B>>): Promise<void>
  },
): Endpoint {
  return { ...declared, direct: true }
}
