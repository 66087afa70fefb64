/** Types shared by the playground and its route. */

/** POST /dashboard/api/organisations/{organisation}/keys/{key}/playground-secret */
export type PlaygroundSecretAnswer = {
  /** Replaces the key at the public API; it is shown only once. */
  secret: string
  expires_at: string
}
