import type { RealtimeAdapter, RealtimeMeter } from '../../realtime-contract.ts'

/**
 * ElevenLabs' agents: JSON events in text frames; the URL names the agent. The conversation does not report its price
 * (elevenlabs.io/docs/eleven-agents/api-reference/eleven-agents/websocket).
 */
export const realtime: RealtimeAdapter = {
  path: ({ upstream_model: agent }) => `/v1/convai/conversation?${new URLSearchParams({ agent_id: agent })}`,
  meter: () => clock,
  // Newer clients read it; older ones ignore unknown event types.
  errorEvent: ({ code, message, ...details }) =>
    JSON.stringify({ type: 'error', error_event: { error_type: code, message, details } }),
}

/** Such a session is billed by the gateway's clock. */
const clock: RealtimeMeter = {
  ownClock: false,
  sessionSeconds: null,
  hasPendingUsage: false,
  hasBegun: true,
  pendingWork: [],
  detectRequest: () => null,
  countSent: () => {},
  expireRequests: () => {},
  readUsage: () => [],
  finalFrames: () => [],
}
