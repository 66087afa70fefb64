import assert from 'node:assert/strict'
import {
  batchOf,
  chatLine,
  createBatch,
  jsonLines,
  lineFaults,
  resultsOf,
  uploadInput,
} from '../../support/batches/gateway.ts'
import { call, eventually } from '../../support/gateway.ts'
import type { Cell, Moment } from '../cell.ts'
import { gated } from '../providers.ts'
import { acrossSteps } from './across-steps.ts'
import { assertDuration, coinNano, rowOf, type Seen, type Tokens } from './charges.ts'

type Submitted = { id: string; mark: string; submittedMs: number }

async function submit({ stack, account, receiver }: Cell, path: string, body: object): Promise<string> {
  const response = await call(stack.url, path, { key: account.live, body: { ...body, webhook_url: receiver.url } })
  const text = await response.text()
  assert.ok(response.ok, `${response.status}: ${text}`)
  return JSON.parse(text).id
}

/** A piece of slow work as its GET returns it. */
async function shown({ stack, account }: Cell, path: string) {
  const response = await call(stack.url, path, { key: account.live })
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return JSON.parse(text)
}

/** Its receiver was told once that it is over. */
function assertToldOnce({ receiver }: Cell, id: string): void {
  const told = receiver.received.filter(({ body }) => JSON.parse(body).data?.id === id)
  assert.equal(told.length, 1, `webhooks for ${id}`)
}

/** Waits for the worker at the provider, where no wrong clock may keep it away. */
async function arrival({ providers }: Cell, gate: string, at: Moment): Promise<void> {
  if (at === 'before') await providers.gates.arrival(gate)
}

/** A call of the worker takes at least what the provider took, and at most the time since it was submitted. */
function seenOf({ providers }: Cell, gate: string, submittedMs: number): Seen {
  return { minMs: providers.gates.waitedMs(gate), maxMs: performance.now() - submittedMs }
}

const discount = 0.75

export const delayedJobs = acrossSteps<Submitted>({
  name: 'delayed job',
  async open(cell, mark, at) {
    const submittedMs = performance.now()
    const body = { model: 'coin', max_tokens: 100, messages: gated(mark) }
    const id = await submit(cell, '/v1/jobs', { body, completion_window: '1h' })
    await arrival(cell, mark, at)
    return { id, mark, submittedMs }
  },
  async close({ providers }, { mark }) {
    providers.gates.open(mark)
  },
  async check(cell, { id, mark, submittedMs }) {
    const { status, error, cost_usd, result } = await shown(cell, `/v1/jobs/${id}`)
    assert.equal(status, 'completed', JSON.stringify(error))
    assert.equal(cell.providers.gates.calls(mark), 1, 'calls of the provider')
    assert.equal(Math.round(cost_usd * 1e9), Math.round(coinNano(result.usage as Tokens) * discount), 'its cost')
    assertDuration((await rowOf(cell, { id })).durationMs, seenOf(cell, mark, submittedMs), 'the duration')
    assertToldOnce(cell, id)
  },
})

const videoSeconds = 2
const videoUsdPerSecond = 0.12

export const videos = acrossSteps<Submitted>({
  name: 'video job',
  async open(cell, mark, at) {
    const submittedMs = performance.now()
    const request = { model: 'runway-gen4.5', prompt: mark, seconds: videoSeconds }
    const id = await submit(cell, '/v1/videos', request)
    if (at === 'before') await videoArrival(cell, mark)
    return { id, mark, submittedMs }
  },
  async close(cell, { mark }) {
    await videoArrival(cell, mark)
    for (const { id } of worksOf(cell, mark)) cell.providers.video.finish(id)
  },
  async check(cell, { id, mark }) {
    const { status, error, cost_usd } = await shown(cell, `/v1/videos/${id}`)
    assert.equal(status, 'completed', JSON.stringify(error))
    assert.equal(worksOf(cell, mark).length, 1, 'starts at the provider')
    assert.equal(cost_usd, videoSeconds * videoUsdPerSecond, 'its cost')
    assertToldOnce(cell, id)
  },
})

function videoArrival(cell: Cell, mark: string): Promise<void> {
  return eventually(() => worksOf(cell, mark).length > 0, `the provider has the video ${mark}`)
}

function worksOf({ providers }: Cell, mark: string) {
  return [...providers.video.works.values()].filter(({ body }) => body.promptText === mark)
}

const lineCount = 3

export const batches = acrossSteps<Submitted>({
  name: 'batch',
  async open(cell, mark, at) {
    const submittedMs = performance.now()
    const door = { url: cell.stack.url, key: cell.account.live }
    const lines = lineNames(mark).map(name => chatLine(name, 'coin', `gate=${name} Go on.`, { max_tokens: 100 }))
    const fileId = await uploadInput(door, jsonLines(lines))
    const { id } = await createBatch(door, fileId, { batch_routing: 'gateway', webhook_url: cell.receiver.url })
    await arrival(cell, lineNames(mark)[0]!, at)
    return { id, mark, submittedMs }
  },
  async close({ providers }, { mark }) {
    for (const name of lineNames(mark)) providers.gates.open(name)
  },
  async check(cell, { id, mark, submittedMs }) {
    const door = { url: cell.stack.url, key: cell.account.live }
    const batch = await batchOf(door, id)
    const results = await resultsOf(door, batch)
    assert.deepEqual(lineFaults(lineNames(mark), results), [])
    assert.deepEqual(
      results.errors.map(({ error, response }) => error ?? response),
      [],
    )
    assert.equal(batch.status, 'completed')
    for (const { custom_id: name, response } of results.output) {
      assert.equal(cell.providers.gates.calls(name), 1, `calls for the line ${name}`)
      const { durationMs } = await rowOf(cell, { requestId: response!.request_id })
      assertDuration(durationMs, seenOf(cell, name, submittedMs), 'the duration of a line')
    }
    const costs = results.output.map(({ response }) => response!.body.usage.cost as number)
    const costUsd = costs.reduce((sum, cost) => sum + Math.round(cost * 1e9), 0) / 1e9
    assert.equal(batch.cost_usd, costUsd, 'the cost of its lines')
    assertToldOnce(cell, id)
  },
})

function lineNames(mark: string): string[] {
  return Array.from({ length: lineCount }, (_, index) => `${mark}-${index}`)
}
