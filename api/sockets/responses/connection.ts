import type { IncomingHttpHeaders } from 'node:http'
import type { Duplex } from 'node:stream'
import { GatewayError } from '../../../shared/base/errors.ts'
import { newId } from '../../../shared/base/ids.ts'
import { elapsedMs, type MonotonicMs } from '../../../shared/base/time.ts'
import type { HeldBytes } from '../../../shared/io/byte-budget.ts'
import { truncateReason, type WebSocket } from '../../../shared/io/socket.ts'
import { SocketLiveness } from '../../../shared/io/socket-liveness.ts'
import { refusesKey } from '../../../shared/keys/policy.ts'
import type { Services } from '../../../shared/open-services.ts'
import { closeCodeOf } from '../../../shared/realtime/closing.ts'
import { policyViolation } from '../frame-reader.ts'
import { FrameSender } from './frame-sender.ts'
import { RecentResponses } from './recent-responses.ts'
import { errorFrame, serveTurn, type WaitingTurn } from './turn.ts'
import { TurnWriter } from './turn-writer.ts'

/** As OpenAI's. */
const maxConnectionMs = 60 * 60_000
const idleMs = 15 * 60_000
const maxWaitingTurns = 16
const maxCancelBytes = 4_096
const maxRefusedFrames = 64
/** The statuses of turns whose frame was at fault. */
const invalidStatuses = new Set([400, 413])
/** Leaves room for the number of the turn within the length of a request id. */
const maxRequestIdLength = 120

type ConnectionInput = {
  services: Services
  organisationId: string
  authorization: string
  headers: IncomingHttpHeaders
  requestId: string
}

/** One WebSocket at /v1/responses: its frames, one turn after another, and its end. */
export class ResponsesConnection {
  /** Headers of the upgrade response beside those of every response. */
  readonly headers = {}
  /** Resolves with fields for the log once the connection is closed. */
  readonly over: Promise<Record<string, unknown>>
  readonly #input: ConnectionInput
  readonly #connection: Duplex
  readonly #openedMs: MonotonicMs
  readonly #recentBytes: HeldBytes
  readonly #recent: RecentResponses
  readonly #waiting: WaitingTurn[] = []
  readonly #resolveOver: (fields: Record<string, unknown>) => void
  #client: { socket: WebSocket; sender: FrameSender; liveness: SocketLiveness } | null = null
  #turn: TurnWriter | null = null
  #turns = 0
  /** Frames refused in a row. */
  #refusedFrames = 0
  #idleSinceMs: MonotonicMs
  #isDraining = false
  #isClosing = false

  constructor(input: ConnectionInput, connection: Duplex) {
    const { services, organisationId } = input
    const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>()
    this.over = promise
    this.#resolveOver = resolve
    this.#input = input
    this.#connection = connection
    this.#openedMs = services.monotonic.now()
    this.#idleSinceMs = this.#openedMs
    this.#recentBytes = services.budgets.conversations.open(organisationId)
    this.#recent = new RecentResponses(this.#recentBytes)
  }

  /** Serves the client, whose upgrade was answered. */
  start(socket: WebSocket): void {
    const sender = new FrameSender(socket, this.#connection)
    this.#client = { socket, sender, liveness: new SocketLiveness(socket, this.#openedMs) }
    socket.on('message', (frame: Buffer, isBinary) => this.#receive(frame, isBinary))
    // Invalid frames; the subsequent close event ends the connection.
    socket.on('error', () => {
      this.#isClosing = true
    })
    socket.on('close', () => this.#end())
  }

  /** Ends a connection whose client disconnected before it started. */
  abandon(): void {
    this.#end()
  }

  /** Must be called about every second: detects dead peers, and closes the connection at its limits. */
  tick(nowMs: MonotonicMs): void {
    if (!this.#client) return
    this.#client.liveness.check(nowMs)
    if (this.#turn) return
    if (this.#isExpired(nowMs)) this.#close(4408, 'A connection may last 60 minutes. Open another one.')
    else if (elapsedMs(this.#idleSinceMs, nowMs) >= idleMs) this.#close(1000, 'No turn for 15 minutes.')
  }

  /** Closes the connection as soon as no turn is running. */
  drain(): void {
    this.#isDraining = true
    if (!this.#turn) this.#closeForRestart()
  }

  /** Destroys the connection. */
  terminate(): void {
    this.#client?.socket.terminate()
  }

  #receive(frame: Buffer, isBinary: boolean): void {
    if (this.#isClosing) return
    const cancel = cancelOf(frame)
    if (isBinary) this.#refuse(new GatewayError('invalid_request', 'Send text frames with one JSON object each.'))
    else if (cancel) this.#cancel(cancel.response_id)
    else if (this.#waiting.length >= maxWaitingTurns) this.#refuse(tooManyTurnsError())
    else this.#enqueue(frame)
  }

  /** Reports an error, and closes the connection with the code; without one, with that of the error. */
  stop(failure: GatewayError, code = closeCodeOf(failure)): void {
    if (this.#isClosing) return
    this.#report(failure)
    this.#close(code, failure.message)
  }

  #enqueue(frame: Buffer): void {
    const { services, organisationId } = this.#input
    const held = services.budgets.bodies.open(organisationId)
    held.hold(frame.length)
    this.#waiting.push({ frame, held })
    if (!this.#turn) void this.#serveWaiting()
  }

  /** Serves the waiting turns one after another. */
  async #serveWaiting(): Promise<void> {
    for (let next = this.#next(); next; next = this.#next()) {
      const { held } = next
      const { services } = this.#input
      if (this.#isExpired(services.monotonic.now())) {
        held.release()
        return this.stop(connectionLimitError(), 4408)
      }
      const writer = new TurnWriter(this.#client!.sender, this.#nextRequestId())
      this.#turn = writer
      const context = { ...this.#input, connectionId: this.#input.requestId, recent: this.#recent }
      const served = serveTurn(context, next, writer)
      void served.finally(() => held.release())
      const failure = await Promise.race([served, writer.left])
      if (failure && refusesKey(failure)) return this.#close(closeCodeOf(failure), failure.message)
      if (failure && invalidStatuses.has(failure.status)) this.#countRefused(failure)
      else this.#refusedFrames = 0
    }
    this.#turn = null
    this.#idleSinceMs = this.#input.services.monotonic.now()
    if (this.#isDraining) this.#closeForRestart()
  }

  #next(): WaitingTurn | undefined {
    return this.#isDraining || this.#isClosing ? undefined : this.#waiting.shift()
  }

  /** The request id of the next turn, which its client can derive. */
  #nextRequestId(): string {
    const { requestId } = this.#input
    this.#turns++
    return requestId.length > maxRequestIdLength ? newId('req') : `${requestId}.${this.#turns}`
  }

  /** Ends the running turn; none, if it is another than the client names. */
  #cancel(responseId: unknown): void {
    const turn = this.#turn
    if (!turn || turn.gone || (responseId !== undefined && responseId !== turn.responseId)) return
    const cancelled = new GatewayError('response_cancelled', 'The response was cancelled.')
    turn.writeObject(errorFrame(cancelled, turn.requestId))
    turn.leave()
  }

  #isExpired(nowMs: MonotonicMs): boolean {
    return elapsedMs(this.#openedMs, nowMs) >= maxConnectionMs
  }

  #refuse(failure: GatewayError): void {
    this.#report(failure)
    this.#countRefused(failure)
  }

  /** The connection closes after too many frames in a row that were refused. */
  #countRefused({ message }: GatewayError): void {
    this.#refusedFrames++
    if (this.#refusedFrames >= maxRefusedFrames) this.#close(policyViolation, `Too many refused frames. ${message}`)
  }

  #report(failure: GatewayError): void {
    this.#client!.sender.send(JSON.stringify(errorFrame(failure, this.#input.requestId)))
  }

  #closeForRestart(): void {
    this.#close(1012, 'The gateway restarts. Open another connection.')
  }

  #close(code: number, reason: string): void {
    this.#isClosing = true
    this.#client?.socket.close(code, truncateReason(reason))
  }

  #end(): void {
    this.#isClosing = true
    this.#turn?.leave()
    for (const { held } of this.#waiting.splice(0)) held.release()
    this.#recentBytes.release()
    this.#resolveOver({ turns: this.#turns })
  }
}

/** The frame `response.cancel`; null for any other, which begins a turn. */
function cancelOf(frame: Buffer): { response_id?: unknown } | null {
  if (frame.length > maxCancelBytes) return null
  try {
    const value = JSON.parse(frame.toString())
    return value?.type === 'response.cancel' ? value : null
  } catch {
    return null
  }
}

function tooManyTurnsError(): GatewayError {
  const message = `At most ${maxWaitingTurns} turns of a connection may wait. Wait for one to end, or open another connection.`
  return new GatewayError('rate_limit_exceeded', message)
}

/** In the words of OpenAI's API. */
function connectionLimitError(): GatewayError {
  const message =
    'Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.'
  return new GatewayError('websocket_connection_limit_reached', message)
}
