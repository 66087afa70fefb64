import type { IncomingHttpHeaders } from 'node:http'
import type { Duplex } from 'node:stream'
import { GatewayError } from '../../../shared/base/errors.ts'
import { newId } from '../../../shared/base/ids.ts'
import { drainingError } from '../../../shared/base/shutdown.ts'
import { elapsedMs, type MonotonicMs } from '../../../shared/base/time.ts'
import { ClientGone } from '../../../shared/engine/failures.ts'
import type { ClientPresence } from '../../../shared/engine/response-writer.ts'
import type { Services } from '../../../shared/open-services.ts'
import { renewSlotsEveryMs, type SessionSlot, SessionSlots } from '../../../shared/realtime/session-slots.ts'
import { resolveStandardKey } from '../../auth/api-keys.ts'
import { confirmKey } from '../../request-lifecycle.ts'
import { ResponsesConnection } from './connection.ts'

const tickMs = 1_000

type ConnectionRequest = { authorization: string; headers: IncomingHttpHeaders; requestId: string }

/** The open WebSocket connections at /v1/responses of this process. */
export class ResponsesConnections {
  readonly #services: Services
  readonly #slots: SessionSlots
  readonly #open = new Map<ResponsesConnection, SessionSlot>()
  readonly #timer: NodeJS.Timeout
  #slotsRenewedMs: MonotonicMs
  #isDraining = false

  constructor(services: Services) {
    const { redis, clock, monotonic, config } = services
    this.#services = services
    this.#slots = new SessionSlots(redis, clock, 'responses', config.responses.maxConnections)
    this.#slotsRenewedMs = monotonic.now()
    this.#timer = setInterval(() => this.#tick(), tickMs)
    this.#timer.unref()
  }

  /**
   * Opens a connection for a key that may use chat models. `logFields` receives fields for the log. Throws the GatewayError
   * to answer the upgrade with, or ClientGone.
   */
  async open(
    request: ConnectionRequest,
    connection: Duplex,
    client: ClientPresence,
    logFields: Record<string, unknown>,
  ): Promise<ResponsesConnection> {
    const services = this.#services
    if (this.#isDraining) throw drainingError()
    const apiKey = await resolveStandardKey(services, request.authorization, 'chat')
    await confirmKey({ services, apiKey })
    const { organisationId, keyId } = apiKey.policy
    logFields.organisation = organisationId
    logFields.key = keyId
    const slot = { organisationId, id: newId('req') }
    if (this.#slots.max === 0 || !(await this.#slots.acquire(slot))) throw noConnectionError(this.#slots.max)
    if (client.gone || this.#isDraining) {
      void this.#slots.release(slot)
      throw client.gone ? new ClientGone() : drainingError()
    }
    const opened = new ResponsesConnection({ ...request, services, organisationId }, connection)
    this.#open.set(opened, slot)
    void opened.over.then(() => {
      this.#open.delete(opened)
      void this.#slots.release(slot)
    })
    return opened
  }

  /** Refuses new connections, and closes the open ones as soon as they run no turn. Resolves when none is left. */
  async drain(): Promise<void> {
    this.#isDraining = true
    for (const connection of this.#open.keys()) connection.drain()
    await Promise.all([...this.#open.keys()].map(({ over }) => over))
  }

  /** Destroys the open connections. */
  close(): void {
    this.#isDraining = true
    clearInterval(this.#timer)
    for (const connection of this.#open.keys()) connection.terminate()
  }

  #tick(): void {
    const nowMs = this.#services.monotonic.now()
    for (const connection of this.#open.keys()) connection.tick(nowMs)
    if (elapsedMs(this.#slotsRenewedMs, nowMs) < renewSlotsEveryMs || this.#open.size === 0) return
    this.#slotsRenewedMs = nowMs
    // After an outage of Redis the next round restores the slots.
    this.#slots.renew([...this.#open.values()]).catch(() => {})
  }
}

/** 426, upon which clients use plain HTTP at once; after any other status they try again first. */
function noConnectionError(max: number): GatewayError {
  const message =
    max === 0
      ? 'There is no WebSocket at /v1/responses: send a plain HTTP request.'
      : `This organisation has ${max} connections open, as many as it may have at a time: send a plain HTTP request.`
  return new GatewayError('upgrade_required', message)
}
