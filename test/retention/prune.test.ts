import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { newId } from '../../shared/base/ids.ts'
import { dayMs } from '../../shared/base/time.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { breaches, observe } from '../support/chaos.ts'
import { createAccount } from '../support/gateway.ts'
import { operatorJson, runOperator, storesEnv } from '../support/operator.ts'
import { test } from '../support/test.ts'
import { use, useStores } from '../support/use.ts'
import { newDelivery } from '../support/webhooks/webhooks.ts'

let organisationId: string

const stores = useStores(test)
const services = use(test, () => observe(stores))
test.before(async () => {
  ;({ organisationId } = await createAccount(services))
})

type Line = { table: string; what: string; rows: number; bytes: number | null; left?: number }
type Report = { dry_run: boolean; data: Line[] }

const ago = (days: number) => new Date(Date.now() - days * dayMs)

/** One row of each table that is removed by its age, of an age in days. */
async function insertRows(days: number): Promise<void> {
  const { db } = services
  const at = ago(days)
  const user = await db.user.create({ data: { id: newId('org'), email: `${newId('org')}@example.com`, name: 'Ada' } })
  const own = { organisationId, createdAt: at }
  const call = { keyId: 'key', model: 'm', environment: 'live' } as const
  await db.$executeRaw`
    INSERT INTO generations (id, created_at, organisation_id, key_id, request_id, kind, environment, model, status, streamed,
      attempts, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, estimated, cost_nano, duration_ms)
    VALUES (${newId('chatcmpl')}, ${at}, ${organisationId}, 'key', 'req', 'chat', 'test', 'm', 200, false, 1, 0, 0, 0, 0, false, 0, 1)`
  const sketch = { hours: 1, startsAt: at, latencySketch: [], firstTokenSketch: [] }
  await db.durationSketch.create({ data: { organisationId, environment: 'live', ...sketch } })
  await db.feedback.create({
    data: { ...own, ...call, generationId: newId('chatcmpl'), score: 1, updatedAt: at },
  })
  await db.qualityCounter.create({ data: { organisationId, scope: newId('key'), model: 'm', updatedAt: at } })
  const incident = { kind: 'circuit', subject: 'openai', openedAt: at, seenAt: at, closedAt: at }
  await db.incident.create({ data: { id: newId('inc'), ...incident } })
  const group = { key: newId('key'), openedAt: at, closedAt: at, createdAt: at }
  await db.incidentGroup.create({ data: { id: newId('inc'), ...group } })
  const message = { event: 'test', channel: 'email', target: 'a@example.com', status: 'delivered' }
  await db.incidentMessage.create({ data: { id: newId('imsg'), ...message, nextAttemptAt: at, createdAt: at } })
  await db.idempotencyKey.create({ data: { ...own, key: newId('req'), bodyHash: 'x' } })
  const response = { keyId: 'key', session: 's', status: 'completed', environment: 'live' } as const
  const sizes = { inputCount: 0, itemsBytes: 0, storedBytes: 0 }
  await db.storedResponse.create({ data: { ...own, ...response, ...sizes, id: newId('resp'), expiresAt: at } })
  await db.conversation.create({ data: { ...own, id: newId('conv'), environment: 'live', expiresAt: at } })
  await db.auditEvent.create({
    data: { ...own, id: newId('evt'), actorKind: 'operator', actorName: 'operator', action: 'key.created' },
  })
  const excess = { cause: newId('chatcmpl'), keyId: 'key', amountNano: 1n, bookedAt: at, handledAt: at }
  await db.excess.create({ data: { ...own, ...excess } })
  const factor = { factor: 2, factorSince: at, exceeded: 1n, worst: 2, since: at, lastAt: at }
  await db.reservationFactor.create({
    data: { organisationId, provider: 'openai', model: newId('chatcmpl'), ...factor },
  })
  await db.alert.create({ data: { ...own, id: newId('alr'), cause: newId('alr'), type: 'key.blocked', data: {} } })
  await db.session.create({ data: { id: newId('org'), token: newId('org'), userId: user.id, expiresAt: at } })
  await db.verification.create({ data: { id: newId('org'), identifier: 'i', value: 'v', expiresAt: at } })
  const invitation = { id: newId('org'), email: 'a@example.com', role: 'member', inviterId: user.id }
  await db.invitation.create({ data: { ...own, ...invitation, expiresAt: at } })
  const content = { inputBytes: 1, outputBytes: 1, inputTruncated: false, outputTruncated: false, redactions: 0 }
  await db.requestContent.create({ data: { ...own, ...content, id: newId('chatcmpl'), expiresAt: at } })
  const file = { environment: 'live', purpose: 'upload', filename: 'a.txt', contentType: 'text/plain' } as const
  const storageKey = `uploads/${newId('upl')}.txt`
  await db.file.create({ data: { ...own, ...file, id: newId('upl'), bytes: 1_000n, storageKey, expiresAt: at } })
  await insertEndedWork(at)
}

/** An ended job with and one without a delivery, and an ended batch. */
async function insertEndedWork(at: Date): Promise<void> {
  const { db } = services
  const made = [
    await newDelivery(services, organisationId, 'http://127.0.0.1:9/never'),
    await newDelivery(services, organisationId, 'http://127.0.0.1:9/never'),
  ]
  await db.webhookDelivery.delete({ where: { id: made[1]!.id } })
  await db.webhookDelivery.update({ where: { id: made[0]!.id }, data: { status: 'delivered', nextAttemptAt: at } })
  const exported = { organisationId, name: 'a', kind: 'https', format: 'ndjson', streams: ['requests'], intervalS: 60 }
  const replay = { stream: 'requests', replayFrom: at, replayTo: at, status: 'completed', position: 0n, maxRows: 1 }
  const ended = { deliveredThrough: at, nextAttemptAt: at, createdAt: at, endedAt: at }
  await db.logExport.create({
    data: {
      ...exported,
      id: newId('exp'),
      dueAt: at,
      createdAt: at,
      updatedAt: at,
      cursors: { create: { id: newId('replay'), ...replay, ...ended } },
    },
  })
  await db.job.updateMany({
    where: { id: { in: made.map(({ jobId }) => jobId) } },
    data: { createdAt: at, deadlineAt: at, completedAt: at },
  })
  const about = { organisationId, keyId: 'key', requestId: 'req', environment: 'live', endpoint: '/v1/x' } as const
  const input = { inputFileId: 'file', inputKey: 'key', inputBytes: 1n, month: '2026-01' }
  const times = { status: 'completed', createdAt: at, deadlineAt: at, completedAt: at } as const
  await db.batch.create({ data: { id: newId('batch'), ...about, ...input, ...times } })
}

/** What is removed of rows that are ten years old, but not of those of the last minutes. */
const removed = [
  ['generations', 1],
  ['usage_hours', 1],
  ['duration_sketches', 1],
  ['usage_peaks', 1],
  ['usage_day_details', 1],
  ['usage_days', 1],
  ['feedback', 1],
  ['incidents', 1],
  ['incident_groups', 1],
  ['incident_messages', 1],
  ['quality_counters', 1],
  ['idempotency_keys', 1],
  ['stored_responses', 1],
  ['conversations', 1],
  ['request_contents', 1],
  ['files', 1],
  ['webhook_deliveries', 1],
  ['log_export_cursors', 1],
  ['jobs', 2],
  ['jobs', 1],
  ['batches', 1],
  ['audit_events', 1],
  ['excesses', 1],
  ['reservation_factors', 1],
  ['alerts', 1],
  ['sessions', 1],
  ['verifications', 1],
  ['invitations', 1],
] as const

test.serial('exit 0: --dry-run counts what is past its retention, and removes nothing', async t => {
  await insertRows(3_650)
  await insertRows(-1)
  const report = await operatorJson<Report>(stores, 'prune', '--dry-run')
  t.true(report.dry_run)
  t.deepEqual(
    report.data.map(({ table, rows }) => [table, rows]),
    removed as unknown as [string, number][],
  )
  t.is(report.data.find(({ table }) => table === 'files')!.bytes, 1_000)
  t.deepEqual(await operatorJson<Report>(stores, 'prune', '--dry-run'), report)
  const { stdout } = await runOperator(storesEnv(stores), 'prune', '--dry-run')
  t.regex(stdout, /^rows +size +table +what\n/)
  t.regex(stdout, /^ +1 +1\.0 kB +files +files with their bytes in storage$/m)
})

test.serial('exit 0: what is past its retention is removed, once, and nothing else', async t => {
  const report = await operatorJson<Report>(stores, 'prune')
  t.false(report.dry_run)
  t.true(report.data.every(({ left }) => left === 0))
  const again = await operatorJson<Report>(stores, 'prune')
  t.deepEqual(
    again.data.filter(({ rows }) => rows > 0),
    [],
  )
  const { db } = services
  for (const count of [
    db.generation.count(),
    db.usageHour.count(),
    db.usagePeak.count(),
    db.usageDayDetail.count(),
    db.durationSketch.count(),
    db.usageDay.count(),
    db.feedback.count(),
    db.storedResponse.count(),
    db.conversation.count(),
    db.file.count(),
    db.webhookDelivery.count(),
    db.batch.count(),
    db.session.count(),
    db.invitation.count(),
  ])
    t.is(await count, 1)
  t.is(await db.job.count(), 2)
  t.deepEqual(await breaches(services), [])
})

test.serial('the hourly maintenance removes the same', async t => {
  await insertRows(3_650)
  await runMaintenance('partitions', null, services)
  await runMaintenance('expire', null, services)
  const { data } = await operatorJson<Report>(stores, 'prune', '--dry-run')
  t.deepEqual(
    data.filter(({ rows }) => rows > 0),
    [],
  )
})

test('exit 1: a flag with a value where none belongs', async t => {
  const { exitCode, stderr } = await runOperator(storesEnv(stores), 'prune', '--dry-run', 'yes')
  t.is(exitCode, 1)
  t.regex(stderr, /--dry-run: takes no value/)
})

test('docs/retention.md says of every table how long its rows are kept', async t => {
  const text = readFileSync(join(import.meta.dirname, '../../docs/retention.md'), 'utf8')
  const rows = await services.db.$queryRaw<{ name: string }[]>`
    SELECT tablename::text AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`
  t.deepEqual(
    rows.map(({ name }) => name).filter(name => !text.includes(`\`${name}\``)),
    [],
  )
})
