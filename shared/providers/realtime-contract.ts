import type { ErrorBody, GatewayError } from '../base/errors.ts'
import type { MonotonicMs } from '../base/time.ts'
import type { Usage } from '../base/usage.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'

/**
 * Usage of a realtime session, of its model or of another model that it invoked: tokens or audio seconds; or `unreported`, a work
 * that delivered output and ended without a usage, which is estimated.
 */
export type RealtimeUse = {
  /** The provider's name of another model than the session's; null = the session's own. */
  upstreamModel: string | null
} & ({ usage: Usage } | { seconds: number } | { unreported: PendingWork })

/**
 * Content of a response or of its prompt. `textBytes` is text that no provider has counted: it has at most one token
 * per byte.
 */
export type Content = { textTokens: number; audioTokens: number; imageTokens: number; textBytes: number }

/** A response, or the work of another model, that was requested or has begun and whose usage is not reported yet. */
export type PendingWork = {
  /** As in `RealtimeUse`. */
  readonly upstreamModel: string | null
  /** Upper bound of the prompt. */
  readonly prompt: Readonly<Content>
  /** Output relayed so far. */
  readonly output: Content
  /** Upper bound of the output, in tokens; null = the model's own limit. */
  readonly maxOutputTokens: number | null
  /** Whether its output can be audio. */
  readonly hasAudioOutput: boolean
  /** Whether the provider reported that it began. */
  hasBegun: boolean
}

/**
 * What a client frame triggers at the provider. `isCertain`: a response; otherwise the provider decides whether to begin
 * one.
 */
export type WorkRequest = { work: PendingWork; isCertain: boolean }

/** Meters one session: reads the provider's usage reports and the client's requests. */
export type RealtimeMeter = {
  /** Work in progress: the same objects until it is reported, refused or abandoned. */
  readonly pendingWork: readonly PendingWork[]
  /** What a frame requests, in whatever order and spelling; null = nothing. Never throws. */
  detectRequest(frame: Buffer): WorkRequest | null
  /** Counts a frame that was relayed to the provider at `nowMs`, and what it requested. Never throws. */
  countSent(frame: Buffer, ask: WorkRequest | null, nowMs: MonotonicMs): void
  /**
   * Drops requests that did not begin within half a minute: the provider refused them by an event that is not
   * recognised.
   */
  expireRequests(nowMs: MonotonicMs): void
  /** The usage that one provider frame reports; cheap for the many frames that report none. A repeated report is none. Never throws. */
  readUsage(frame: Buffer): readonly RealtimeUse[]
  /** Whether the provider reports the session's duration; if not, the gateway's clock measures it. */
  readonly ownClock: boolean
  /** The duration so far in seconds, by the provider's clock; null until it reports one. */
  readonly sessionSeconds: number | null
  /** Whether the provider has begun work whose usage is not reported yet. */
  readonly hasPendingUsage: boolean
  /** Whether the provider has begun the session: from then on no client frame can choose the model. */
  readonly hasBegun: boolean
  /**
   * Frames that request the outstanding usage after the client has disconnected; repeated calls return each work once.
   */
  finalFrames(): readonly string[]
}

/** Why a session may not use another model than its own, by the provider's name of it; null = it may. */
export type JudgeModel = (upstreamModel: string) => 'unpriced' | 'not_allowed' | null

/** What a client may not request within a session. */
export type SessionGuard = {
  /** Cheap pre-check on the bytes: it runs for every frame, and most are audio. */
  suspects(frame: Buffer): boolean
  /** Parses the frame. Returns why it must not reach the provider, or null. */
  refusal(frame: Buffer, judge: JudgeModel): GatewayError | null
  /** The frame to forward, of one that is suspected and not refused; by default the frame itself. */
  strip?(frame: Buffer, judge: JudgeModel): Buffer
}

/**
 * How one protocol serves a realtime session. Frames pass unchanged; an adapter only reads them. Stateless except for
 * its meter.
 */
export type RealtimeAdapter = {
  /** The socket's path including the query; it contains the model where the protocol puts it in the URL. */
  path(deployment: Deployment, intent: string | null): string
  meter(): RealtimeMeter
  /**
   * Where the client's first frames, not the URL, name the model: the frame to send instead of this one, or the same
   * frame if nothing changes. Called for every frame until the session has begun: a provider that rejects one may
   * accept the next. Throws a GatewayError when it names another model than the session's.
   */
  opening?(frame: Buffer, target: { model: ModelRow; deployment: Deployment }): Buffer
  /**
   * What clients may not request in any frame; absent where there is no such thing. The session continues without the
   * frame.
   */
  guard?: SessionGuard
  /** The frame that applies settings given before the session; absent where clients send all settings themselves. */
  settings?(session: Record<string, unknown>): string
  /** An error in this protocol's event format. */
  errorEvent(error: ErrorBody['error']): string
}
