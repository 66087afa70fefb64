import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { type Recorded, type Reply, reset } from '../emulators/emulator.ts'
import { chatChunk, reply, serverError } from '../emulators/openai.ts'
import { saying, startWorld } from '../support/chat/gateway.ts'
import { eventually, type Gateway } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const world = use(test, startWorld)
test.beforeEach(() => {
  for (const emulator of [world.openai, world.anthropic, world.openrouter]) emulator.reset()
})

/** Beyond ASCII, so that its length in characters is not that in bytes. */
const text = `${'A long conversation. '.repeat(20_000)}é`
const request = (model: string) => saying(model, text, { stream: true, max_tokens: 64 })
const bytes = Buffer.byteLength(JSON.stringify(request('gpt-5.1')))

const heldBytes = ({ services }: Gateway) => services.budgets.bodies.bytes

/** Streams one word, and the rest when `rest` is resolved. */
function inTwoParts(rest: Promise<void>): Reply {
  return async (_request, response) => {
    const send = (...events: (object | string)[]) =>
      response.write(
        events.map(event => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`).join(''),
      )
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    send(chatChunk({ role: 'assistant', content: 'Yes' }))
    await rest
    const usage = { prompt_tokens: 80_000, completion_tokens: 2, total_tokens: 80_002 }
    send(chatChunk({ content: '.' }), { ...chatChunk({}, 'stop'), usage }, '[DONE]')
    response.end()
  }
}

test.serial('200: the bytes of a large request, received and sent, are dropped once its answer has begun', async t => {
  const { gateway, openai } = world
  const { live } = await gateway.account()
  const rest = Promise.withResolvers<void>()
  openai.next(inTwoParts(rest.promise))
  const answer = await gateway.fetch('/v1/chat/completions', { key: live, body: request('gpt-4.1') })
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  const { value } = await reader.read()
  t.regex(value!, /Yes/)
  await eventually(() => heldBytes(gateway) < 2 * bytes, 'the bytes are dropped')
  t.true(heldBytes(gateway) > bytes)
  rest.resolve()
  let whole = ''
  for (let part = await reader.read(); !part.done; part = await reader.read()) whole += part.value
  t.regex(whole, /"completion_tokens":2/)
  await eventually(() => heldBytes(gateway) === 0, 'nothing is held any more')
})

const failures: [what: string, fails: Reply][] = [
  ['an error', serverError],
  ['a broken connection', reset],
]
for (const [what, fails] of failures)
  test.serial(`200 by the next provider, which receives a large request whole after ${what} at the first`, async t => {
    const { gateway, openai, openrouter } = world
    const { live } = await gateway.account()
    openai.next(fails)
    openrouter.next(reply)
    const model = what === 'an error' ? 'gpt-5' : 'gpt-5-mini'
    const answer = await gateway.fetch('/v1/chat/completions', { key: live, body: request(model) })
    t.is(answer.status, 200)
    t.regex(await answer.text(), /\[DONE\]/)
    for (const { requests } of [openai, openrouter]) {
      const [{ body, headers, raw }] = requests as [Recorded]
      t.is(body.messages[0].content, text)
      t.deepEqual([headers['content-length'], headers['transfer-encoding']], [String(raw.length), undefined])
    }
  })

test.serial('200: a large request that came compressed, and one that is translated, are received whole', async t => {
  const { gateway, openai, anthropic } = world
  const { live } = await gateway.account()
  const compressed = await promisify(gzip)(JSON.stringify(request('gpt-4.1')))
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${live}`, 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: new Uint8Array(compressed),
  })
  t.regex(await answer.text(), /\[DONE\]/)
  t.is(openai.requests[0]!.body.messages[0].content, text)
  const translated = await gateway.fetch('/v1/chat/completions', { key: live, body: request('claude-sonnet-4-6') })
  t.regex(await translated.text(), /\[DONE\]/)
  t.true(JSON.stringify(anthropic.requests[0]!.body.messages).includes(`"${text}"`))
  await eventually(() => heldBytes(gateway) === 0, 'nothing is held any more')
})
