import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { ParameterizedContext } from 'koa'
import type { GatewayError } from '../shared/base/errors.ts'
import type { Role } from '../shared/base/roles.ts'
import type { MonotonicMs } from '../shared/base/time.ts'
import type { StoredFile } from '../shared/files/files.ts'
import type { Actor } from '../shared/io/audit.ts'
import type { HeldBytes } from '../shared/io/byte-budget.ts'
import type { Connection } from '../shared/io/db.ts'
import type { ResolvedKey } from '../shared/keys/policies.ts'
import type { Services } from '../shared/open-services.ts'
import type { Origin } from '../shared/traces/work.ts'
import type { Auth, Person } from './auth/accounts.ts'
import { HttpResponse, OwnTime } from './http-response.ts'

export type Context = ParameterizedContext<State>

/** A file of a form, with its field name. */
export type Upload = { name: string; file: StoredFile }

/**
 * Stores the response to a request with an `Idempotency-Key` in the transaction that creates its object, with the
 * headers set until then and `headers`: for endpoints that create something.
 */
export type Keep = (tx: Connection, answer: object, headers?: Record<string, string>) => Promise<void>

/** The endpoint that serves a request. */
export type ServedEndpoint = { readonly method: string; readonly path: string }

/** What the entry points know of a request. */
type Arrival = {
  services: Services
  request: IncomingMessage
  response: ServerResponse
  method: string
  path: string
  requestId: string
  /** Headers of every response. */
  headers: Record<string, string>
}

/** The state of one request, whichever entry point it used. */
export class State {
  readonly services: Services
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  readonly path: string
  readonly requestId: string
  /** Its date. */
  readonly startedMs: number
  /** When it began, to measure how long it takes. */
  readonly beganMs: MonotonicMs
  readonly client: HttpResponse
  /** The process memory budget of the request: released once it is handled and its response was sent. */
  readonly held: HeldBytes[] = []
  /** The part of it for the body, once one is read. */
  heldBody: HeldBytes | null = null
  /** Fields for the one log line of this request. */
  readonly logFields: Record<string, unknown> = {}
  /** The endpoint that serves it, and the error that it failed with. */
  endpoint: ServedEndpoint | null = null
  failure: GatewayError | null = null
  /** Koa's context of the request; null if it bypassed Koa. */
  ctx: Context | null = null
  /** Opens the accounts of people, for dashboard routes. */
  auth!: () => Promise<Auth>
  /** The standard key, once authenticated; absent on routes without one. */
  apiKey!: ResolvedKey
  /** The organisation of a provisioning key, or of a dashboard route's path. */
  organisationId!: string
  /** The signed-in person on dashboard routes, and their role in the path's organisation; null for an operator. */
  person!: Person
  role!: Role | null
  /** The actor for the audit log, on dashboard routes and with provisioning keys. */
  actor!: Actor
  body: unknown
  /** The bytes of the JSON body as received; for a form, a digest of its content. */
  raw!: Buffer
  releaseRaw: (() => void) | undefined
  /** The stored files of a form. */
  uploads: Upload[] = none
  query: unknown
  /** Does nothing without an `Idempotency-Key`. */
  keep: Keep = keepNothing

  constructor({ services, request, response, method, path, requestId, headers }: Arrival) {
    this.services = services
    this.request = request
    this.response = response
    this.method = method
    this.path = path
    this.requestId = requestId
    this.startedMs = services.clock.now()
    this.beganMs = services.monotonic.now()
    this.client = new HttpResponse(response, headers)
    this.client.time = new OwnTime()
  }

  /** Parameters of the path; an endpoint that bypasses Koa has none. */
  get params(): Record<string, string> {
    return this.ctx?.params ?? {}
  }

  /** The query of the URL as received, with its question mark; '' = none. */
  get search(): string {
    const url = this.request.url ?? ''
    const start = url.indexOf('?')
    return start < 0 ? '' : url.slice(start)
  }

  /** What queued work that it creates keeps of it. */
  get origin(): Origin {
    return { requestId: this.requestId, trace: this.client.trace }
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers
  }
}

async function keepNothing(): Promise<void> {}

const none: Upload[] = []
