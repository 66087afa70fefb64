import test from 'ava'
import type { ResponsesServerEvent } from 'openai/resources/responses/responses'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { chargedNano, dataOf, expectedNano, startWorld, type World } from '../support/chat/gateway.ts'
import { openResponses, textOf } from '../support/chat/responses-socket.ts'

let world: World
test.before(async () => {
  world = await startWorld({ OPENROUTER_API_KEY: '' })
})
test.after.always(() => world?.close())
test.beforeEach(() => world.openai.reset())

const model = 'gpt-4o-mini'
const live = () => world.gateway.account({ usd: '100' })
const sent = () => world.openai.requests.at(-1)!
const open = (key: string) => openResponses(world.gateway.url, { key })

test.serial('the events of a turn are those of the HTTP stream, one object per frame', async t => {
  const { live: key } = await live()
  const client = await open(key)
  const events = await client.turn({ model, input: 'Hello' })
  const body = { model, input: 'Hello', stream: true }
  const response = await world.gateway.fetch('/v1/responses', { key, body })
  const streamed = dataOf(await response.text())
  t.is(streamed.pop(), '[DONE]')
  t.deepEqual(events, streamed)
  t.true(client.frames.every(({ isBinary }) => !isBinary))
  const [overSocket, overHttp] = world.openai.requests
  t.deepEqual(overSocket!.body, overHttp!.body)
  await client.close()
})
