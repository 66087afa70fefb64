import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { observe } from '../../support/chaos.ts'
import { call, createAccount, startProcess } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'

/** Answers of a provider in the smallest pieces, each of which is an object of some hundred bytes for who receives it. */

const stores = useStores(test)
const services = use(test, () => observe(stores))
const openai = use(test, startOpenAiEmulator)
const characters = 3_000_000

/** Writes a text with a chunk of HTTP's chunked encoding for each byte. */
async function writeTiny(response: ServerResponse, text: string): Promise<void> {
  const socket = response.socket!
  const piece = 10_000
  for (let at = 0; at < text.length && !socket.destroyed; at += piece) {
    const chunks = Array.from(text.slice(at, at + piece), character => `1\r\n${character}\r\n`).join('')
    if (!socket.write(chunks)) await once(socket, 'drain')
  }
}

test('200 for a whole answer of which each byte comes by itself: the process lives on the heap of a small machine', async t => {
  const web = await startProcess('web', stores, {
    OPENAI_API_KEY: 'upstream-secret',
    OPENAI_BASE_URL: `${openai.url}/v1`,
    NODE_OPTIONS: '--max-old-space-size=400',
  })
  t.teardown(() => web.kill())
  const { live } = await createAccount(services)
  const content = 'a'.repeat(characters)
  const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }]
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  openai.next(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
    await writeTiny(
      response,
      JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage }),
    )
    response.end()
  })
  const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] }
  const response = await call(web.url, '/v1/chat/completions', { key: live, body })
  t.is(response.status, 200)
  const answer = (await response.json()) as { choices: typeof choices }
  t.is(answer.choices[0]!.message.content.length, characters)
})
