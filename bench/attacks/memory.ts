import { setTimeout as sleep } from 'node:timers/promises'
import { type Attack, atOnce, type Call, jsonCall, openRaw, send, untilAborted, type World } from './attack.ts'

// Attacks by what requests hold: streams nobody reads, parsed bodies, conversations of many items.

const slow = { role: 'user', content: 'sandbox:slow=20000' }
const many = <T>(count: number, one: (index: number) => T) => Array.from({ length: count }, (_, index) => one(index))
const echo = (text: string, stream: boolean) =>
  jsonCall('/v1/chat/completions', {
    model: 'gpt-4.1',
    stream,
    max_tokens: 900_000,
    messages: [{ role: 'user', content: text }],
  })

/** Sends a request and never reads its answer. */
function sendUnread(world: World, key: string, { path, body }: Call, signal: AbortSignal): void {
  const socket = openRaw(world.port, signal)
  const head = [`POST ${path} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${key}`, 'Content-Type: application/json']
  socket.write([...head, `Content-Length: ${Buffer.byteLength(body)}`, '', ''].join('\r\n'))
  socket.write(body)
}

function unread(name: string, what: string, call: Call): Attack {
  return {
    name,
    what,
    seconds: 15,
    async run(world, signal) {
      const keys = await atOnce(2, () => world.newKey())
      for (let i = 0; i < 40; i++) sendUnread(world, keys[i % 2]!, call, signal)
      await untilAborted(signal)
    },
  }
}

const words = 'word '.repeat(190_000)
const vectors = jsonCall('/v1/embeddings', {
  model: 'text-embedding-3-small',
  dimensions: 1_500,
  input: many(330, () => 'a'),
})

/** Requests of two organisations at once, whose answers take a while. */
function held(name: string, what: string, call: Call): Attack {
  return {
    name,
    what,
    seconds: 25,
    async run(world, signal) {
      const keys = await atOnce(2, () => world.newKey())
      await atOnce(184, index => send(world.port, keys[index % 2]!, call, signal).catch(() => {}))
    },
  }
}

const blocks = jsonCall('/v1/messages', {
  model: 'claude-sonnet-5-5',
  max_tokens: 5,
  messages: [{ role: 'user', content: many(19_000, () => ({ type: 'text', text: 'a' })) }, slow],
})
const emptyObjects = jsonCall('/v1/chat/completions', {
  model: 'gpt-4.1',
  max_tokens: 5,
  messages: [slow],
  tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', x: many(97_000, () => ({})) } } }],
})
const texts = jsonCall('/v1/chat/completions', {
  model: 'gpt-4.1',
  max_tokens: 5,
  messages: [{ role: 'user', content: `${'x'.repeat(900_000)}\u6f22` }, slow],
})

const manyItems: Attack = {
  name: 'many-items',
  what: 'a conversation of 19,000 items, continued',
  seconds: 40,
  async run(world, signal) {
    const key = await world.newKey()
    const ask = async (path: string, value: object) =>
      (await fetch(`http://127.0.0.1:${world.port}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(value),
        signal,
      }).then(response => response.json())) as { id: string }
    const { id } = await ask('/v1/conversations', {})
    const turn = { model: 'gpt-5-nano', conversation: id, max_output_tokens: 16 }
    await ask('/v1/responses', { ...turn, input: many(19_000, () => ({ role: 'user', content: 'a' })) })
    await ask('/v1/responses', { ...turn, input: 'x' })
    await ask('/v1/responses/input_tokens', { model: 'gpt-5-nano', conversation: id, input: 'x' })
  },
}

const manyParts: Attack = {
  name: 'many-parts',
  what: 'a conversation of 900,000 elements, read',
  seconds: 60,
  async run(world, signal) {
    const key = await world.newKey()
    const created = await fetch(`http://127.0.0.1:${world.port}/v1/conversations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: '{}',
    })
    const { id } = (await created.json()) as { id: string }
    const item = { role: 'user', content: many(780, () => ({ type: 'input_text', text: 'ab' })) }
    const added = jsonCall(`/v1/conversations/${id}/items`, { items: many(20, () => item) })
    for (let i = 0; i < 58 && !signal.aborted; i++) await send(world.port, key, added, signal)
    await sleep(500)
    for (let i = 0; i < 3; i++)
      await send(world.port, key, jsonCall('/v1/responses', { model: 'gpt-4.1', conversation: id, input: 'x' }), signal)
  },
}

export const memoryAttacks = [
  unread('unread-streams', '40 streamed echoes of 950 kB, unread', echo(words, true)),
  unread('unread-letters', '40 streamed echoes of 475,000 words', echo('a '.repeat(475_000), true)),
  unread('unread-answers', '40 whole echoes of 950 kB, unread', echo(words, false)),
  unread('unread-vectors', '40 answers of 495,000 numbers, unread', vectors),
  manyItems,
  manyParts,
  held('held-blocks', '184 bodies of 19,000 blocks, held', blocks),
  held('held-objects', '184 bodies of 97,000 empty objects, held', emptyObjects),
  held('held-texts', '184 bodies of 0.9 MB of wide text, held', texts),
]
