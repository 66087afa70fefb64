import assert from 'node:assert/strict'
import { uploadInput } from '../../support/batches/gateway.ts'
import { call, eventually } from '../../support/gateway.ts'
import { png } from '../../support/media/media-files.ts'
import type { Cell, Work } from '../cell.ts'
import { gated } from '../providers.ts'
import { assertCharged, coinNano } from './charges.ts'

/** An upload with its signed URL, and the input of a batch. */
export const files: Work = {
  name: 'files',
  async begin(cell) {
    const { stack, account } = cell
    const key = account.live
    const form = new FormData()
    form.set('file', new Blob([new Uint8Array(png())]), 'hour-glass.png')
    const headers = { authorization: `Bearer ${key}` }
    const uploaded = await fetch(`${stack.url}/v1/uploads`, { method: 'POST', headers, body: form })
    assert.equal(uploaded.status, 201)
    const { url } = (await uploaded.json()) as { url: string }
    const id = await uploadInput({ url: stack.url, key }, '{"custom_id":"a"}\n')
    const read = async () => {
      assert.equal((await fetch(url)).status, 200, 'the status of the signed URL')
      const { status } = await call(stack.url, `/v1/files/${id}/content`, { key })
      assert.equal(status, 200, 'the status of the file')
    }
    return { during: read, after: read }
  },
}

export const storedResponses: Work = {
  name: 'stored response',
  async begin(cell) {
    const { stack, account, name } = cell
    const key = account.live
    const store = (more: object) => {
      const body = { model: 'coin', input: `The time is ${name}`, store: true, max_output_tokens: 50, ...more }
      return call(stack.url, '/v1/responses', { key, body })
    }
    const first = await store({})
    assert.equal(first.status, 200)
    const { id } = (await first.json()) as { id: string }
    const read = async () => {
      const { status } = await call(stack.url, `/v1/responses/${id}`, { key })
      assert.equal(status, 200, 'the status of the response')
      assert.equal((await store({ previous_response_id: id })).status, 200, 'the status of its continuation')
    }
    return { during: read, after: read }
  },
}

/** The lease of a running request ends by the clock of PostgreSQL: after a step, a repetition may take it over. */
function isLeaseOver({ steps }: Cell): boolean {
  return (steps.postgres ?? 0) > idempotencyLeaseMs
}

const idempotencyLeaseMs = 15_000

export const idempotentRequests: Work = {
  name: 'idempotent request',
  async begin(cell) {
    const { stack, account, providers, name } = cell
    const gate = `idempotent-${name}`
    const done = `idempotent-done-${name}`
    const ask = (idempotencyKey: string) => {
      const body = { model: 'coin', max_tokens: 100, messages: gated(idempotencyKey) }
      const headers = { 'idempotency-key': idempotencyKey }
      return call(stack.url, '/v1/chat/completions', { key: account.live, body, headers })
    }
    providers.gates.open(done)
    const first = await ask(done)
    const original = await first.text()
    assert.equal(first.status, 200, original)
    const running = ask(gate)
    running.catch(() => {}) // Whoever waits for it hears of it.
    await providers.gates.arrival(gate)
    const assertReplayed = async () => {
      const replay = await ask(done)
      assert.equal(await replay.text(), original, 'the replay')
      assert.equal(replay.headers.get('idempotent-replayed'), 'true')
    }
    const assertCharges = ({ headers }: Response, text: string) =>
      assertCharged(cell, headers.get('x-generation-id')!, coinNano(JSON.parse(text).usage))
    let repeated: Promise<Response> | null = null
    let across: { answer: Response; text: string } | null = null
    return {
      async during() {
        await assertReplayed()
        let isAnswered = false
        const again = ask(gate).finally(() => {
          isAnswered = true
        })
        again.catch(() => {}) // Whoever waits for it hears of it.
        const isRunAgain = () => providers.gates.calls(gate) > 1
        await eventually(() => isAnswered || isRunAgain(), 'it is answered or runs')
        const isTakenOver = isRunAgain()
        if (isTakenOver) repeated = again
        else assert.equal((await again).status, 409, 'the status of a request that still runs')
        assert.ok(!isTakenOver || isLeaseOver(cell), 'a request that still runs was run again')
      },
      async after() {
        await assertReplayed()
        providers.gates.open(gate)
        const answers = await Promise.all([running, ...(repeated ? [repeated] : [])])
        const answer = answers.find(one => one.status === 200 && !one.headers.has('idempotent-replayed'))
        assert.ok(answer, 'it was not answered')
        across = { answer, text: await answer.text() }
        for (const other of answers)
          if (other !== answer && other.status !== 409)
            assert.equal(await other.text(), across.text, 'the other answer')
        assert.equal(await (await ask(gate)).text(), across.text, 'the replay of a request that ran across the steps')
      },
      async atRest() {
        await assertCharges(first, original)
        assert.equal(providers.gates.calls(done), 1, 'calls of the provider')
        if (across) await assertCharges(across.answer, across.text)
        assert.equal(providers.gates.calls(gate), repeated ? 2 : 1, 'calls of the provider')
      },
    }
  },
}
