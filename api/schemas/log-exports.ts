import { z } from 'zod'

const time = z.iso.datetime()
const stream = z.enum(['requests', 'audit', 'content'])

export const logExportStream = z
  .strictObject({
    stream,
    delivered_through: time.describe('Everything written before this time is delivered.'),
    lag_s: z.number().describe('How long ago that is, in seconds.'),
    batches: z.int().describe('Batches delivered: the number of the latest one.'),
    rows: z.number().describe('Rows delivered.'),
    last_delivered_at: time.nullable(),
    attempts: z.int().describe('Failed attempts at the current batch.'),
    failing_since: time.nullable(),
    next_attempt_at: time.nullable().describe('Of a batch that was not accepted.'),
    last_error: z.string().nullable().describe('What the latest failed attempt came to.'),
    last_error_at: time.nullable(),
    gaps: z
      .array(
        z.strictObject({
          from: time,
          to: time,
          reason: z.enum(['retention', 'transactions_restarted']),
          noticed_at: time,
        }),
      )
      .describe('Windows whose rows were deleted before they were delivered, or may be missing; the latest 20.'),
  })
  .meta({ id: 'LogExportStream' })

export const logExportReplay = z
  .strictObject({
    id: z.string(),
    object: z.literal('log_export.replay'),
    stream,
    from: time,
    to: time,
    status: z.enum(['running', 'completed', 'failed', 'cancelled']),
    progress: z.number().describe('From 0 to 1: how much of the window is delivered.'),
    batches: z.int(),
    rows: z.number(),
    attempts: z.int(),
    last_error: z.string().nullable(),
    created_at: time,
    ended_at: time.nullable(),
  })
  .meta({ id: 'LogExportReplay' })

export const logExport = z
  .strictObject({
    id: z.string(),
    object: z.literal('log_export'),
    name: z.string(),
    kind: z.enum(['https', 'otlp', 's3']),
    url: z.string().nullable(),
    bucket: z.string().nullable(),
    region: z.string().nullable(),
    prefix: z.string().nullable(),
    path_style: z.boolean(),
    access_key_id: z.string().nullable(),
    headers: z.array(z.string()).describe('The names of its headers; their values are never shown.'),
    format: z.enum(['ndjson', 'json', 'protobuf']),
    gzip: z.boolean(),
    streams: z.array(stream),
    environment: z.enum(['live', 'test']).nullable(),
    fields: z.record(z.string(), z.array(z.string())).nullable(),
    interval_s: z.int(),
    enabled: z.boolean(),
    status: z
      .enum(['active', 'failing', 'disabled', 'paused'])
      .describe('`paused`: it was disabled because its batches were not accepted for days.'),
    previous_secret_valid_until: time
      .nullable()
      .describe('Until when the secret before the last roll signs as well; null if it does not.'),
    state: z.array(logExportStream),
    replays: z.array(logExportReplay).describe('Those that run, and the latest of 30 days.'),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'LogExport' })

export const logExportTest = z
  .strictObject({
    delivered: z.boolean(),
    status: z.int().nullable().describe('The HTTP status of the destination; null without an answer.'),
    error: z.string().nullable(),
    response: z.string().nullable().describe('The first kilobyte of the answer.'),
  })
  .meta({ id: 'LogExportTest' })
