import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ParameterizedContext } from 'koa'
import type { HeldBytes } from '../shared/io/byte-budget.ts'
import type { Connection } from '../shared/io/db.ts'
import type { StoredFile } from '../shared/jobs/files.ts'
import type { Actor } from '../shared/keys/audit.ts'
import type { Known } from '../shared/keys/policies.ts'
import type { Services } from '../shared/services.ts'
import type { Auth, Person } from './auth/accounts.ts'
import type { Role } from './auth/roles.ts'
import { HttpClient } from './http-client.ts'

export type Context = ParameterizedContext<State>

/** A file of a form, by the name of its field. */
export type Upload = { name: string; file: StoredFile }

/**
 * Keeps the answer to a request with an `Idempotency-Key` in the transaction that makes what it tells of, with the headers set
 * until then: for endpoints that create something.
 */
export type Keep = (tx: Connection, answer: object) => Promise<void>

/** What the gateway's entrances know of a request. */
type Arrival = {
  services: Services
  request: IncomingMessage
  response: ServerResponse
  method: string
  path: string
  requestId: string
  /** Headers of whatever is answered. */
  headers: Record<string, string>
}

/** What one request carries on its way, whichever entrance it came by. */
export class State {
  readonly services: Services
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly method: string
  readonly path: string
  readonly requestId: string
  readonly startedMs: number
  readonly client: HttpClient
  /** What the request holds of the process's memory: given back once it is handled and its answer has left. */
  readonly held: HeldBytes[] = []
  /** Fields for the one log line of this request. */
  readonly wide: Record<string, unknown> = {}
  /** What the framework knows of the request; null where it did not come through it. */
  ctx: Context | null = null
  /** Opens the accounts of people, for routes of the dashboard. */
  auth!: () => Promise<Auth>
  /** The standard key, once the guard has looked at it; absent on routes that take none. */
  known!: Known
  /** The organisation of a provisioning key, or of the address of a dashboard's route. */
  organisationId!: string
  /** Whoever is signed in, on routes of the dashboard, and their role in the organisation of the address. */
  person!: Person
  role!: Role
  /** Who is noted for a change, on routes of the dashboard and of provisioning keys. */
  actor!: Actor
  body: unknown
  /** The JSON body's bytes as they came; of a form, a digest of what is in it. */
  raw!: Buffer
  /** The files of a form, in storage. */
  uploads: Upload[] = none
  query: unknown
  /** Absent without an `Idempotency-Key`. */
  keep: Keep | undefined

  constructor({ services, request, response, method, path, requestId, headers }: Arrival) {
    this.services = services
    this.request = request
    this.response = response
    this.method = method
    this.path = path
    this.requestId = requestId
    this.startedMs = services.clock.now()
    this.client = new HttpClient(response, headers)
  }
}

const none: Upload[] = []
