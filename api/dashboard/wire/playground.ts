/** What the playground and its route tell each other. */

/** POST /dashboard/api/organisations/{organisation}/keys/{hash}/playground-secret */
export type PlaygroundSecretAnswer = {
  /** Stands for the key at the public API; it appears only here. */
  secret: string
  expires_at: string
}
