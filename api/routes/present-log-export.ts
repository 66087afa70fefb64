import type { z } from 'zod'
import type { LogExportCursor } from '../../shared/generated/prisma/client.ts'
import type { LogExportServices } from '../../shared/log-exports/export-services.ts'
import { type ExportWithCursors, fieldsOf } from '../../shared/log-exports/log-exports.ts'
import type { logExport, logExportReplay, logExportStream } from '../schemas/log-exports.ts'

export type ShownExport = z.output<typeof logExport>
type ShownStream = z.output<typeof logExportStream>
export type ShownReplay = z.output<typeof logExportReplay>

/** An export in the API's format, with the state of its streams and replays, without secrets. */
export function presentExport({ logExports, clock }: LogExportServices, row: ExportWithCursors): ShownExport {
  const live = row.cursors.filter(({ replayFrom }) => replayFrom === null)
  const replays = row.cursors
    .filter(({ replayFrom }) => replayFrom !== null)
    .sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime())
  const isFailing = row.cursors.some(({ status, attempts }) => status === 'running' && attempts > 0)
  const disabled = row.pausedForFailures ? 'paused' : 'disabled'
  return {
    id: row.id,
    object: 'log_export',
    ...(fieldsOf(row) as Omit<ReturnType<typeof fieldsOf>, 'kind' | 'format' | 'streams'> &
      Pick<ShownExport, 'kind' | 'format' | 'streams'>),
    status: row.enabled ? (isFailing ? 'failing' : 'active') : disabled,
    previous_secret_valid_until: logExports.secretsOf(row)?.previousUntil?.toISOString() ?? null,
    state: row.streams.flatMap(stream => {
      const cursor = live.find(one => one.stream === stream)
      return cursor ? [presentStream(cursor, clock.now())] : []
    }),
    replays: replays.map(presentReplay),
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  }
}

function presentStream(cursor: LogExportCursor, nowMs: number): ShownStream {
  const { deliveredThrough, attempts } = cursor
  return {
    stream: cursor.stream as ShownStream['stream'],
    delivered_through: deliveredThrough.toISOString(),
    lag_s: Math.max(0, Math.round((nowMs - deliveredThrough.getTime()) / 1_000)),
    batches: cursor.sequence,
    rows: Number(cursor.rows),
    last_delivered_at: cursor.lastDeliveredAt?.toISOString() ?? null,
    attempts,
    failing_since: cursor.failingSince?.toISOString() ?? null,
    next_attempt_at: attempts > 0 ? cursor.nextAttemptAt.toISOString() : null,
    last_error: cursor.lastError,
    last_error_at: cursor.lastErrorAt?.toISOString() ?? null,
    gaps: cursor.gaps as ShownStream['gaps'],
  }
}

/** A replay, whose position is a time in milliseconds. */
export function presentReplay(cursor: LogExportCursor): ShownReplay {
  const [from, to] = [cursor.replayFrom!, cursor.replayTo!]
  const done = (Number(cursor.position) - from.getTime()) / (to.getTime() - from.getTime())
  return {
    id: cursor.id,
    object: 'log_export.replay',
    stream: cursor.stream as ShownReplay['stream'],
    from: from.toISOString(),
    to: to.toISOString(),
    status: cursor.status as ShownReplay['status'],
    progress: Math.min(1, Math.max(0, done)),
    batches: cursor.sequence,
    rows: Number(cursor.rows),
    attempts: cursor.attempts,
    last_error: cursor.lastError,
    created_at: cursor.createdAt.toISOString(),
    ended_at: cursor.endedAt?.toISOString() ?? null,
  }
}
