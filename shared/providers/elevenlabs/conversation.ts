import type { RealtimeAdapter, RealtimeMeter } from '../realtime-contract.ts'

/**
 * ElevenLabs' agents: JSON events in text frames, the agent in the address. Nothing in the conversation tells its price
 * (elevenlabs.io/docs/eleven-agents/api-reference/eleven-agents/websocket).
 */
export const conversation: RealtimeAdapter = {
  path: ({ upstream_model: agent }) => `/v1/convai/conversation?${new URLSearchParams({ agent_id: agent })}`,
  meter: () => clock,
  // Their newer clients read it, the older pass over events of a type that they do not know.
  errorEvent: ({ code, message, ...details }) =>
    JSON.stringify({ type: 'error', error_event: { error_type: code, message, details } }),
}

/** Our clock is what such a session is paid by. */
const clock: RealtimeMeter = {
  ownClock: false,
  sessionSeconds: null,
  owing: false,
  begun: true,
  underWay: [],
  asks: () => null,
  sent: () => {},
  forget: () => {},
  read: () => [],
  farewell: () => [],
}
