import { newId } from '../../shared/base/ids.ts'
import type { File } from '../../shared/files/files.ts'
import type { Connection } from '../../shared/io/db.ts'
import { runMaintenance } from '../../workers/maintenance.ts'
import { answersError } from '../support/api/edge.ts'
import { uploadInput } from '../support/batches/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const dayMs = 24 * 3_600_000
let nowMs = Math.floor(Date.now() / 1000) * 1000
const gateway = useGateway(test, {}, { clock: { now: () => nowMs } })
const account = use(test, () => gateway.account())

const upload = () => uploadInput({ url: gateway.url, key: account.live }, '{}\n')
const rowOf = (id: string) => gateway.services.db.file.findUnique({ where: { id } })
async function hasBytes(storageKey: string): Promise<boolean> {
  const blob = await gateway.services.blobs.read(storageKey)
  blob?.stream.destroy()
  return blob !== null
}

/** Writes a batch that reads a file, as far as files are concerned; gives its id. */
async function writeBatch(
  db: Connection,
  { id: inputFileId, organisationId, storageKey, bytes }: File,
): Promise<string> {
  const about = { keyId: 'key', requestId: 'req', environment: 'live', endpoint: '/v1/chat/completions' } as const
  const input = { inputFileId, inputKey: storageKey, inputBytes: bytes }
  const times = { month: '2026-11', deadlineAt: new Date(nowMs + dayMs) }
  const { id } = await db.batch.create({ data: { id: newId('batch'), organisationId, ...about, ...input, ...times } })
  return id
}
const batchOf = async (id: string) => writeBatch(gateway.services.db, (await rowOf(id))!)
const endBatch = (id: string) => gateway.services.db.batch.update({ where: { id }, data: { status: 'completed' } })

test('deleted: row and bytes go at once when no batch reads them', async t => {
  const id = await upload()
  const { storageKey } = (await rowOf(id))!
  await endBatch(await batchOf(id))
  t.is((await gateway.fetch(`/v1/files/${id}`, { key: account.live, method: 'DELETE' })).status, 200)
  t.is(await rowOf(id), null)
  t.false(await hasBytes(storageKey))
  await answersError(
    t,
    await gateway.fetch(`/v1/files/${id}`, { key: account.live, method: 'DELETE' }),
    'not_found',
    'id',
  )
})

test.serial(
  'deleted: gone for every route, while the bytes stay until the last batch that reads them is over',
  async t => {
    const { files } = gateway.services
    const id = await upload()
    const { storageKey } = (await rowOf(id))!
    const [first, second] = [await batchOf(id), await batchOf(id)]
    t.is((await gateway.fetch(`/v1/files/${id}`, { key: account.live, method: 'DELETE' })).status, 200)
    for (const path of [`/v1/files/${id}`, `/v1/files/${id}/content`])
      await answersError(t, await gateway.fetch(path, { key: account.live }), 'not_found', 'id')
    t.false((await (await gateway.fetch('/v1/files', { key: account.live })).text()).includes(id))
    await endBatch(first)
    await files.releaseInput(id)
    await runMaintenance('expire', null, gateway.services)
    t.true(await hasBytes(storageKey))
    await endBatch(second)
    await files.releaseInput(id)
    t.false(await hasBytes(storageKey))
    t.is(await rowOf(id), null)
  },
)

test('kept: a file that its owner has not deleted is there after its batch', async t => {
  const id = await upload()
  await endBatch(await batchOf(id))
  await gateway.services.files.releaseInput(id)
  t.is((await gateway.fetch(`/v1/files/${id}`, { key: account.live })).status, 200)
})

test.serial('expired: the housekeeping deletes it, but not under a batch that still reads it', async t => {
  const { files } = gateway.services
  const [gone, read] = [await upload(), await upload()]
  const [goneKey, readKey] = [(await rowOf(gone))!.storageKey, (await rowOf(read))!.storageKey]
  const batch = await batchOf(read)
  nowMs += 30 * dayMs - 1_000
  await runMaintenance('expire', null, gateway.services)
  t.is((await gateway.fetch(`/v1/files/${gone}`, { key: account.live })).status, 200)
  nowMs += 1_000
  for (const id of [gone, read])
    await answersError(t, await gateway.fetch(`/v1/files/${id}`, { key: account.live }), 'not_found', 'id')
  await runMaintenance('expire', null, gateway.services)
  t.deepEqual([await rowOf(gone), await hasBytes(goneKey)], [null, false])
  t.true(await hasBytes(readKey))
  await endBatch(batch)
  t.is(await files.expire(nowMs), 1)
  t.false(await hasBytes(readKey))
  nowMs -= 30 * dayMs
})

test.serial('an input for a batch: the owner’s own, of the right purpose, and not about to go', async t => {
  const { files, db } = gateway.services
  const { organisationId } = account
  const id = await upload()
  const find = (file: string, environment: 'live' | 'test' = 'live', owner = organisationId) =>
    db.$transaction(tx => files.findBatchInput(tx, file, { organisationId: owner, environment }))
  t.is((await find(id))?.id, id)
  t.is(await find(id, 'test'), null)
  t.is(await find(id, 'live', (await gateway.account()).organisationId), null)
  t.is(await find('file-unknown'), null)
  nowMs += 30 * dayMs - 60_000
  t.is(await find(id), null)
  nowMs -= 30 * dayMs - 60_000
  await db.file.update({ where: { id }, data: { purpose: 'batch_output' } })
  t.is(await find(id), null)
})

test('an input for a batch: a deletion at the same moment comes before it or keeps the bytes', async t => {
  const { files, db } = gateway.services
  const owner = { organisationId: account.organisationId, environment: 'live' } as const
  for (let round = 0; round < 10; round++) {
    const id = await upload()
    const { storageKey } = (await rowOf(id))!
    const create = db.$transaction(async tx => {
      const input = await files.findBatchInput(tx, id, owner)
      return input && writeBatch(tx, input)
    })
    const [batch, deleted] = await Promise.all([create, files.delete(id, owner)])
    t.true(deleted)
    t.is(await hasBytes(storageKey), batch !== null)
  }
})

test.serial('an input for a batch: it is not deleted before the batch is written', async t => {
  const { files, db } = gateway.services
  const owner = { organisationId: account.organisationId, environment: 'live' } as const
  const id = await upload()
  const { storageKey } = (await rowOf(id))!
  let deleting: Promise<boolean> | undefined
  await db.$transaction(async tx => {
    const input = await files.findBatchInput(tx, id, owner)
    deleting = files.delete(id, owner)
    const waiting = () => db.$queryRaw<object[]>`SELECT 1 FROM pg_locks WHERE NOT granted`
    await eventually(async () => (await waiting()).length > 0, 'the deletion waits')
    await writeBatch(tx, input!)
  })
  t.true(await deleting)
  t.true(await hasBytes(storageKey))
  t.is(await db.$transaction(tx => files.findBatchInput(tx, id, owner)), null)
})
