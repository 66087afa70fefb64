import type { UsageEvent } from '../../../shared/wallet/usage-event.ts'

type Identity = Pick<UsageEvent, 'id' | 'at' | 'org' | 'key' | 'month' | 'requestId'>

/** The usage event of a successful chat request that cost 1,000 nano-dollars, except for the given fields. */
export function usageEventOf({ id, ...fields }: Identity & Partial<UsageEvent>): UsageEvent {
  return {
    id,
    kind: 'chat',
    model: 'coin',
    provider: 'openai',
    mode: 'balanced',
    environment: 'live',
    status: 200,
    errorCode: null,
    finishReason: 'stop',
    streamed: false,
    attempts: 1,
    upstreamId: null,
    promptTokens: 1,
    completionTokens: 1,
    cachedTokens: 0,
    reasoningTokens: 0,
    estimated: false,
    cost: 1_000,
    cap: null,
    firstByteMs: 1,
    durationMs: 2,
    ...fields,
  }
}
