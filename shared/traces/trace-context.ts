import { randomBytes } from 'node:crypto'

/** The trace that a caller continues here, as it sent it (W3C Trace Context). */
export type TraceParent = { traceId: string; spanId: string; isSampled: boolean; state: string | null }

const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const noTrace = '0'.repeat(32)
const noSpan = '0'.repeat(16)
/** Longer lists of vendors are dropped (W3C Trace Context §3.3.1.5 asks for at least 512 characters). */
const maxStateLength = 512
const sampledFlag = 1

/** Parses a `traceparent` and its `tracestate`; null if there is none, or if it is invalid. */
export function parseTraceParent(header: unknown, state?: unknown): TraceParent | null {
  const [, version, traceId, spanId, flags, rest] = (typeof header === 'string' && pattern.exec(header)) || []
  if (!version || version === 'ff' || traceId === noTrace || spanId === noSpan) return null
  // Later versions may append fields.
  if (version === '00' && rest) return null
  const isStateValid = typeof state === 'string' && state.length > 0 && state.length <= maxStateLength
  return {
    traceId: traceId!,
    spanId: spanId!,
    isSampled: (Number.parseInt(flags!, 16) & sampledFlag) === sampledFlag,
    state: isStateValid ? state : null,
  }
}

/** A `traceparent` header. */
export function formatTraceParent({ traceId, spanId, isSampled }: Omit<TraceParent, 'state'>): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
}

export function newTraceId(): string {
  return randomBytes(16).toString('hex')
}

export function newSpanId(): string {
  return randomBytes(8).toString('hex')
}

/** Whether a share of all traces, 0 to 1, has this one: every process decides alike. */
export function isInShare(traceId: string, share: number): boolean {
  return share >= 1 || Number.parseInt(traceId.slice(-13), 16) < share * 2 ** 52
}
