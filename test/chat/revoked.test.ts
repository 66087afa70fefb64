// Streams of a key that is revoked while they run.

import { operatorActor } from '../../shared/io/audit.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { events } from '../emulators/emulator.ts'
import { chargedNano, dataOf, generationOf, saying, startWorld } from '../support/chat/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)

const words = 'the quick brown fox jumps over the lazy dog '.repeat(40)
const chunk = `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { content: words }, finish_reason: null }] })}\n\n`

test.serial(
  'revoked_api_key ends a running stream, the provider is stopped and what was produced is billed; other keys’ go on',
  async t => {
    const { gateway, openai } = world
    const [account, other] = [await gateway.account(), await gateway.account()]
    const body = saying('gpt-5.6-luna', 'Tell me', { stream: true })
    const ask = (key: string) => {
      openai.next(events([chunk], { end: 'hang' }))
      return gateway.fetch('/v1/chat/completions', { key, body })
    }
    const leaving = new AbortController()
    openai.next(events([chunk], { end: 'hang' }))
    const goesOn = await gateway.fetch('/v1/chat/completions', { key: other.live, body, signal: leaving.signal })
    const answer = await ask(account.live)
    t.deepEqual([answer.status, goesOn.status], [200, 200])
    await gateway.services.keys.revoke(account.organisationId, hashSecret(account.live), operatorActor)
    const data = dataOf(await answer.text())
    t.like(data.at(-1), { error: { code: 'revoked_api_key', type: 'authentication_error' } })
    t.is(data.at(-1).choices[0].finish_reason, 'error')
    t.is(data[0].choices[0].delta.content, words)
    await openai.requests[1]!.aborted
    const row = await generationOf(world, answer.headers.get('x-generation-id')!)
    t.like(row, { status: 401, errorCode: 'revoked_api_key', estimated: true })
    t.true(row.completionTokens >= 300 && row.completionTokens <= 500)
    t.is(await chargedNano(world, account), Number(row.costNano))
    const reader = goesOn.body!.getReader()
    t.false((await reader.read()).done)
    leaving.abort()
    await openai.requests[0]!.aborted
  },
)

test.serial('a change that leaves the key in force leaves its stream alone', async t => {
  const { gateway, openai } = world
  const account = await gateway.account()
  const hash = hashSecret(account.live)
  let look = () => {}
  const looked = new Promise<void>(resolve => (look = resolve))
  const { policies } = gateway.services
  const unconfirmed = policies.findUnconfirmed.bind(policies)
  policies.findUnconfirmed = async knowns => {
    const changed = await unconfirmed(knowns)
    if (changed.length > 0) setImmediate(look)
    return changed
  }
  const leaving = new AbortController()
  openai.reset()
  openai.next(events([chunk], { end: 'hang' }))
  const body = saying('gpt-5.6-luna', 'Tell me', { stream: true })
  const answer = await gateway.fetch('/v1/chat/completions', { key: account.live, body, signal: leaving.signal })
  await gateway.services.keys.patch(account.organisationId, hash, { name: 'Renamed' }, operatorActor)
  await looked
  policies.findUnconfirmed = unconfirmed
  const reader = answer.body!.getReader()
  let text = ''
  while (!text.includes('lazy dog')) text += Buffer.from((await reader.read()).value!).toString()
  t.false(text.includes('error'))
  leaving.abort()
  await openai.requests[0]!.aborted
})
