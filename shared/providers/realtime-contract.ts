import type { ErrorBody, GatewayError } from '../base/errors.ts'
import type { Usage } from '../base/usage.ts'
import type { Deployment, ModelRow } from '../catalog/schema.ts'

/** What a realtime session used: tokens, or the length of sound, of its model or of another one that it drew in. */
export type RealtimeUse = {
  /** The provider's name of another model than the session's; null = the session's own. */
  upstreamModel: string | null
} & ({ usage: Usage } | { seconds: number })

/** Reads what one session's provider says of its use. */
export type RealtimeMeter = {
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
  /** Frames that ask the provider for the use it owes, once its client has left. */
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
