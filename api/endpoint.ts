import type { IncomingHttpHeaders } from 'node:http'
import type { z } from 'zod'
import type { ErrorCode } from '../shared/base/errors.ts'
import type { Permission, Role } from '../shared/base/roles.ts'
import type { StoredFile } from '../shared/files/files.ts'
import type { Actor } from '../shared/io/audit.ts'
import type { HeldBytes } from '../shared/io/byte-budget.ts'
import type { ResolvedKey } from '../shared/keys/policies.ts'
import type { Scope } from '../shared/keys/policy.ts'
import type { Services } from '../shared/open-services.ts'
import type { Platform } from '../shared/platform.ts'
import type { PresetDialect } from '../shared/presets/apply-preset.ts'
import type { Origin } from '../shared/traces/work.ts'
import type { Person } from './auth/accounts.ts'
import type { Fields, FilePart } from './body/multipart.ts'
import type { HttpResponse } from './http-response.ts'
import type { AnswerHeaderName } from './schemas/headers.ts'
import type { Context, Keep, Upload } from './state.ts'

export type { Context, Keep, Upload } from './state.ts'

/**
 * Who may call: anyone, a standard key with a scope (null = any valid key), or a provisioning key. Dashboard routes
 * require a signed-in person: any, an operator of the service, or a member of the `{organisation}` in the path whose
 * role has this permission. Visitors' routes are open, and learn who is signed in.
 */
export type Access =
  | 'public'
  | 'provisioning'
  | { scope: Scope | null }
  | 'visitor'
  | 'person'
  | 'operator'
  | { permission: Permission }

/** An optional request header that an endpoint reads, as documented. */
export type Header = { name: string; maxLength: number; description: string }

export type FormFile = {
  name: string
  description: string
  required: boolean
  /** Maximum number of files of this name; default 1. */
  max?: number
  /** Replaces the limits of uploads. */
  maxBytes?: number
}

/** A multipart form with files, either the only request format or an alternative to the JSON body. */
export type Form = {
  files: FormFile[]
  /** Text fields that may be repeated, also as `name[]`. */
  lists?: string[]
  /** Whether its fields have the URL of a file in place of the required one. */
  hasUrl?(fields: Fields): boolean
  /** Maximum length of a text field, if the default of forms is too low. */
  maxFieldBytes?: number
  /** Maximum number of text fields, if the default of forms is too low. */
  maxFields?: number
  /** True if there is no JSON alternative. */
  only?: boolean
  /** What a caller who sends JSON all the same may have meant. */
  instead?: string
  /** Stores a file as it arrives, for the key of the request, instead of the storage of media uploads. */
  store?(services: Platform, apiKey: ResolvedKey, part: FilePart): Promise<StoredFile>
  /** The JSON body equivalent to a form, which is then validated. Without it, the form has no other fields. */
  toBody?(fields: Fields, uploads: Upload[], services: Platform): unknown
  /** Form field names of body fields, for errors. */
  names?: Record<string, string>
  /** True if the files are not needed after the response. */
  passing?: boolean
  /** A valid form, for the documentation: each file is a file name. */
  example?: Record<string, unknown>
  /** True if the documentation shows the JSON body first, because OpenAI's clients do not send a form here. */
  jsonFirst?: boolean
}

/**
 * `contentType`: null without a body. `also`: other possible content types. `events`: the data of each event if it may
 * be an event stream. `headers`: headers beyond those that every response of its access has.
 */
export type ResponseSpec = {
  description: string
  schema?: z.ZodType
  contentType?: string | null
  also?: string[]
  events?: z.ZodType
  headers?: AnswerHeaderName[]
}

/** A request as a handler receives it: validated, and typed by the endpoint's own schemas. */
export type Validated<Body, Query> = {
  services: Services
  apiKey: ResolvedKey
  organisationId: string
  person: Person
  /** Null for an operator, who looks at an organisation from outside. */
  role: Role | null
  actor: Actor
  body: Body
  raw: Buffer
  /** Drops the bytes of a large body, and their memory; absent for others. */
  releaseRaw: (() => void) | undefined
  /** The memory of a body that was read. */
  heldBody: HeldBytes | null
  uploads: Upload[]
  query: Query
  params: Record<string, string>
  headers: IncomingHttpHeaders
  /** The query of the URL as received, with its question mark; '' = none. */
  search: string
  client: HttpResponse
  requestId: string
  /** What queued work that it creates keeps of it. */
  origin: Origin
  logFields: Record<string, unknown>
  keep: Keep
  ctx: Context
}

/** A request as the handler of an endpoint that bypasses Koa receives it: without Koa's context. */
export type RequestWithoutKoa<Body> = Omit<Validated<Body, unknown>, 'ctx' | 'params' | 'query'>

/** A JSON body, and its text, which may be sent on. */
export type JsonBody = { value: unknown; raw: Buffer }

export type Endpoint = {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** With parameters in braces, as in OpenAPI. */
  path: string
  /** Other paths that it is served at; they are not documented one by one. */
  aliases?: readonly string[]
  /** True if the last path parameter may contain slashes. */
  deep?: boolean
  /** Whose clients it is for, if they send keys in other places. */
  dialect?: 'google'
  /** The method name in generated clients, e.g. `createFile`; dashboard endpoints are not documented. */
  operationId?: string
  tag: string
  summary: string
  description?: string
  access: Access
  /**
   * True if requests of standard keys cost nothing: each counts against the limits of its key before its handler runs, or
   * before the files of its form are received.
   */
  free?: true
  /** True if the response to a standard key contains a secret: its copy for an `Idempotency-Key` is encrypted. */
  secret?: boolean
  body?: z.ZodType
  /** True if a request may have no body, which then means `{}`. */
  optionalBody?: true
  /** Changes a JSON body before it is validated, by the parameters of the path and the query with its question mark. */
  readBody?(body: JsonBody, params: Record<string, string>, search: string): JsonBody
  /** The format of the body, if it may name a preset. */
  presets?: PresetDialect
  /** For a body that has another one as its member `body`, which may name a preset: the format of that one. */
  innerPresets?(value: object): PresetDialect
  /** Maximum size of a JSON body, if it is not the usual one. */
  maxBodyBytes?: number
  /** A valid body, for the documentation. */
  example?: unknown
  form?: Form
  query?: z.ZodObject
  headers?: Header[]
  answers: Record<number, ResponseSpec>
  /** True if the handler responds through `client` and needs no Koa context: see `endpointWithoutKoa`. */
  bypassesKoa?: true
  /** Its error codes, beyond those of every endpoint with its access. */
  errors?: ErrorCode[]
  // biome-ignore lint/suspicious/noExplicitAny: each endpoint's handler is typed by its own schemas, see `endpoint`
  handle(request: Validated<any, any>): unknown
}

/**
 * Declares an endpoint: guards, schemas and documentation in one place, with a handler typed by them. The handler's
 * return value is sent as JSON unless it responded through `client`.
 */
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
 * Declares an endpoint whose handler responds through `client`. Its JSON requests bypass Koa (`directDispatch`); the
 * handler's type asserts that it uses nothing of Koa.
 */
export function endpointWithoutKoa<B extends z.ZodType>(
  declared: Omit<Endpoint, 'handle' | 'body' | 'query' | 'bypassesKoa'> & {
    body: B
    handle(request: RequestWithoutKoa<z.output<B>>): Promise<void>
  },
): Endpoint {
  return { ...declared, bypassesKoa: true }
}
