import type { ErrorBody, GatewayError } from '../base/errors.ts'
import type { Usage } from '../base/usage.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'

/** What a realtime session used: tokens, or the length of sound, of its model or of another one that it drew in. */
export type RealtimeUse = {
  /** The provider's name of another model than the session's; null = the session's own. */
  upstreamModel: string | null
} & ({ usage: Usage } | { seconds: number })

/** Content of an answer or of its prompt. `textBytes` is text that no provider has counted: a tokenizer makes no more tokens than bytes of it. */
export type Content = { textTokens: number; audioTokens: number; imageTokens: number; textBytes: number }

/** An answer, or the work of another model, that the provider was asked for or has begun, and whose use it has not reported. */
export type Work = {
  /** As in `RealtimeUse`. */
  readonly upstreamModel: string | null
  /** The most that its provider reads for it. */
  readonly prompt: Readonly<Content>
  /** What of its output has passed so far. */
  readonly output: Content
  /** The most output that it may have, in tokens; null = as much as its model can. */
  readonly maxOutputTokens: number | null
  /** Whether its output can be sound. */
  readonly speaks: boolean
  /** Whether the provider said that it began it. */
  begun: boolean
}

/** What a frame of the client makes the provider do. `certain`: an answer of its own; else the provider decides whether to begin one. */
export type Ask = { work: Work; certain: boolean }

/** Reads what one session's provider says of its use, and what its client asks for. */
export type RealtimeMeter = {
  /** What is under way: the same objects until it is reported, refused or given up. */
  readonly underWay: readonly Work[]
  /** What a frame asks for, told by its bytes, without parsing it; null = nothing. Never throws. */
  asks(frame: Buffer): Ask | null
  /** Counts a frame that was passed on to the provider at `nowMs`, and what it asked for. Never throws. */
  sent(frame: Buffer, ask: Ask | null, nowMs: number): void
  /** Gives up what was asked for and not begun within half a minute: the provider refused it in words of its own. */
  forget(nowMs: number): void
  /** What one frame of the provider reports; cheap for the many that report nothing. Never throws. */
  read(frame: Buffer): readonly RealtimeUse[]
  /** Whether the provider tells how long the session lasted; if not, our clock does. */
  readonly ownClock: boolean
  /** How long it lasted until now, in seconds, by the provider's own clock; null while it has not said. */
  readonly sessionSeconds: number | null
  /** Whether the provider is at work on something whose use it has not reported yet. */
  readonly owing: boolean
  /** Whether the provider has begun the session: from then on no frame of the client can choose its model. */
  readonly begun: boolean
  /** Frames that ask the provider for the use it owes, once its client has left; each work once, also when asked again. */
  farewell(): readonly string[]
}

/** What a client may not ask of a provider within a session. */
export type SessionGuard = {
  /** Whether a frame may ask for it: told by the bytes, as every frame is looked at and most are sound. */
  suspects(frame: Buffer): boolean
  /** Why a frame must not reach the provider; null where it may. Parses it. */
  refusal(frame: Buffer): GatewayError | null
}

/** How one protocol holds a realtime session. The frames pass as they are; an adapter only reads them. Stateless but for its meter. */
export type RealtimeAdapter = {
  /** Where the socket is opened, with its query; the model is in it where the address names it. */
  path(deployment: Deployment, intent: string | null): string
  meter(): RealtimeMeter
  /**
   * Where the model is named in a client's first frames in place of the address: the frame to send in place of this one, the
   * same where nothing has to change. Asked for every frame until the session has begun: a provider that refuses one may take
   * the next. Throws a GatewayError when it names another model than the session's.
   */
  opening?(frame: Buffer, target: { model: ModelRow; deployment: Deployment }): Buffer
  /** What clients may not ask for, in whatever frame; absent where they cannot. The session goes on without the frame. */
  guard?: SessionGuard
  /** The frame that applies settings given ahead of the session; absent where clients send all settings themselves. */
  settings?(session: Record<string, unknown>): string
  /** An error as clients of this protocol know it. */
  errorEvent(error: ErrorBody['error']): string
}
