import { RecentResponses } from '../../api/sockets/responses/recent-responses.ts'
import { ByteBudget } from '../../shared/io/byte-budget.ts'
import { test } from '../support/test.ts'

/** What a connection keeps of its conversation, without the connection. */

type Item = { type: 'message'; role: 'user'; content: string }
const message = (content: string): Item => ({ type: 'message', role: 'user', content })

function startChain() {
  const held = new ByteBudget(64 * 1024 * 1024, 'conversations').open('me')
  const recent = new RecentResponses(held)
  let whole: Item[] = []
  let last: string | null = null
  let count = 0
  /** Adds a turn to the chain; returns its id. */
  const add = (...fresh: Item[]) => {
    whole = [...whole, ...fresh]
    const id = `resp_${count++}`
    recent.add(id, { previousId: last, fresh, whole }, [], false)
    last = id
    return id
  }
  return { held, recent, add, whole: () => whole }
}

test('turns without items take no memory, and are continued as the one before them', t => {
  const { held, recent, add } = startChain()
  add()
  t.is(held.bytes, 0)
  add(message('Hello'))
  const { bytes } = held
  const ids = Array.from({ length: 1_000 }, () => add())
  t.is(held.bytes, bytes)
  t.deepEqual(recent.find(ids.at(-1)!), [message('Hello')])
  t.true(recent.isOnlyHere(ids.at(-1)!))
  t.is(recent.find(ids[0]!), null)
})

test('a chain of any length is the whole conversation, also where it forks', t => {
  const { held, recent, add, whole } = startChain()
  const ends: { id: string; items: Item[] }[] = []
  for (let i = 0; i < 350; i++) {
    ends.push({ id: add(message(`Turn ${i}`)), items: whole() })
    if (i % 25 === 0) for (const { id, items } of ends.slice(-16)) t.deepEqual(recent.find(id), items)
  }
  const { id, items } = ends.at(-10)!
  const fresh = [message('Another')]
  recent.add('resp_fork', { previousId: id, fresh, whole: [...items, ...fresh] }, [], false)
  t.deepEqual(recent.find('resp_fork'), [...items, ...fresh])
  // At most the conversation and, for the oldest of the 16, its beginning.
  t.true(held.bytes < 2.5 * JSON.stringify(whole()).length)
})
