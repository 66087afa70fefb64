import { Readable } from 'node:stream'
import OpenAI, { toFile } from 'openai'
import { chatLine, jsonLines } from '../support/batches/gateway.ts'
import { startWorld } from '../support/chat/gateway.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers
const world = use(test, startWorld)
test.before(() => {
  workers = startWorkers(world.gateway.services)
})
test.after.always(async () => {
  await workers?.stop()
})

type Endpoint = '/v1/chat/completions' | '/v1/embeddings' | '/v1/completions' | '/v1/responses'

const lineOf: Record<Endpoint, object> = {
  '/v1/chat/completions': chatLine('one', 'gpt-4o-mini', 'Hello'),
  '/v1/embeddings': {
    custom_id: 'one',
    method: 'POST',
    url: '/v1/embeddings',
    body: { model: 'text-embedding-3-small', input: 'Hello' },
  },
  '/v1/completions': {
    custom_id: 'one',
    method: 'POST',
    url: '/v1/completions',
    body: { model: 'gpt-4o-mini', prompt: 'Hello' },
  },
  '/v1/responses': {
    custom_id: 'one',
    method: 'POST',
    url: '/v1/responses',
    body: { model: 'gpt-4o-mini', input: 'Hello' },
  },
}

async function over(client: OpenAI, id: string): Promise<OpenAI.Batch> {
  let batch = await client.batches.retrieve(id)
  await eventually(async () => {
    batch = await client.batches.retrieve(id)
    return ['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)
  }, `batch ${id} is over`)
  return batch
}

for (const environment of ['live', 'test'] as const) {
  for (const endpoint of Object.keys(lineOf) as Endpoint[]) {
    test.serial(`the SDK’s own way from file to results: ${endpoint} with a ${environment} key`, async t => {
      const account = await world.gateway.account()
      const client = world.sdk(account[environment])
      const file = await client.files.create({
        file: await toFile(Buffer.from(jsonLines([lineOf[endpoint]])), 'in.jsonl'),
        purpose: 'batch',
      })
      const created = await client.batches.create({
        input_file_id: file.id,
        endpoint,
        completion_window: '24h',
        metadata: { nightly: 'yes' },
      })
      t.is(created.object, 'batch')
      t.deepEqual(created.metadata, { nightly: 'yes' })
      const batch = await over(client, created.id)
      t.is(batch.status, 'completed')
      t.deepEqual(batch.request_counts, { total: 1, completed: 1, failed: 0 })
      t.true(batch.usage!.input_tokens > 0)
      const text = await (await client.files.content(batch.output_file_id!)).text()
      const line = JSON.parse(text)
      t.is(line.custom_id, 'one')
      t.is(line.response.status_code, 200)
      t.regex(line.id, /^batch_req_/)
      t.is((await client.files.retrieve(batch.output_file_id!)).purpose, 'batch_output')
    })
  }
}

test.serial('the SDK lists batches page by page, and cancels one', async t => {
  const account = await world.gateway.account()
  const client = world.sdk(account.live)
  const lines = Array.from({ length: 10 }, (_, i) => chatLine(`${i}`, 'gpt-4o-mini', 'Hello'))
  const file = await client.files.create({
    file: await toFile(Readable.from([jsonLines(lines)]), 'in.jsonl'),
    purpose: 'batch',
  })
  const ids: string[] = []
  for (let count = 0; count < 3; count++)
    ids.push(
      (
        await client.batches.create({
          input_file_id: file.id,
          endpoint: '/v1/chat/completions',
          completion_window: '24h',
        })
      ).id,
    )
  const listed: string[] = []
  for await (const batch of client.batches.list({ limit: 2 })) listed.push(batch.id)
  t.deepEqual(listed, ids.toReversed())
  for (const id of ids) await over(client, id)
  await t.throwsAsync(client.batches.cancel(ids[0]!), { instanceOf: OpenAI.ConflictError, message: /over/ })
  await workers.stop()
  const { id } = await client.batches.create({
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  })
  const cancelling = await client.batches.cancel(id)
  t.is(cancelling.status, 'cancelling')
  workers = startWorkers(world.gateway.services)
  const cancelled = await over(client, id)
  t.is(cancelled.status, 'cancelled')
  t.true(cancelled.cancelled_at! >= cancelled.cancelling_at!)
})
