import { FairSlots, type SlotOwner } from '../../shared/io/fair-slots.ts'
import { monotonicAt } from '../support/clocks/monotonic.ts'
import { test } from '../support/test.ts'

const live = (organisationId: string): SlotOwner => ({ organisationId, environment: 'live' })
const trial = (organisationId: string): SlotOwner => ({ organisationId, environment: 'test' })
const patient = { waitMs: Number.POSITIVE_INFINITY, maxWaiting: 100 }

/** Slots of a clock of their own, with work that ends when the test says so. */
function world(options = { slots: 2, testSlots: 1 }) {
  let nowMs = 0
  const slots = new FairSlots({ ...options, now: () => monotonicAt(nowMs) })
  const running: { name: string; end(): void }[] = []
  return {
    advance: (ms: number) => {
      nowMs += ms
    },
    names: () => running.map(({ name }) => name),
    /** Starts work, or queues it; what it comes to: whether it ran. */
    begin: (name: string, owner: SlotOwner, limits = patient) =>
      slots
        .run(owner, limits, () => {
          const { promise, resolve } = Promise.withResolvers<void>()
          running.push({ name, end: resolve })
          return promise
        })
        .then(outcome => outcome !== undefined),
    /** Ends running work after so long, and waits until the next has begun. */
    async end(name: string, ms = 0) {
      nowMs += ms
      const at = running.findIndex(one => one.name === name)
      running.splice(at, 1)[0]!.end()
      await new Promise(resolve => setImmediate(resolve))
    },
  }
}

test('the slot goes to whom used the least time lately, however many others send', async t => {
  const { begin, end, names } = world({ slots: 1, testSlots: 1 })
  for (const owner of ['a', 'b', 'c']) for (const n of [1, 2]) void begin(`${owner}${n}`, trial(owner))
  await end('a1', 5_000)
  t.deepEqual(names(), ['b1'])
  void begin('victim', trial('victim'))
  await end('b1', 5_000)
  t.deepEqual(names(), ['c1'], 'who came first of those that used nothing')
  await end('c1', 5_000)
  t.deepEqual(names(), ['victim'])
  await end('victim', 50)
  t.is(names().length, 1, 'then those that used more')
})

test('what was used is forgotten with time', async t => {
  const { begin, end, names, advance } = world({ slots: 1, testSlots: 1 })
  void begin('heavy', live('heavy'))
  await end('heavy', 8_000)
  void begin('light', live('light'))
  await end('light', 2_000)
  void begin('other', live('other'))
  void begin('heavy2', live('heavy'))
  void begin('light2', live('light'))
  await end('other', 10)
  t.deepEqual(names(), ['light2'])
  await end('light2', 100)
  await end('heavy2', 100)
  advance(30 * 60_000)
  void begin('other2', live('other'))
  void begin('heavy3', live('heavy'))
  void begin('light3', live('light'))
  await end('other2', 10)
  t.deepEqual(names(), ['heavy3'], 'in the order of arrival again')
})

test('live work finds a slot while test work waits, and goes first', async t => {
  const { begin, end, names } = world()
  for (const n of [1, 2, 3]) void begin(`test${n}`, trial(`org${n}`))
  t.deepEqual(names(), ['test1'], 'never all slots')
  void begin('live1', live('x'))
  t.deepEqual(names(), ['test1', 'live1'])
  void begin('live2', live('x'))
  await end('test1', 10)
  t.deepEqual(names(), ['live1', 'live2'])
  await end('live1', 10)
  t.deepEqual(names(), ['live2', 'test2'])
})

test('a full queue gives up the last entry of the owner with the most, and none of the other lane', async t => {
  const { begin, end, names } = world({ slots: 1, testSlots: 1 })
  const limits = { ...patient, maxWaiting: 3 }
  void begin('first', trial('a'), limits)
  const flood = [1, 2, 3].map(n => begin(`a${n}`, trial('a'), limits))
  t.false(await begin('a4', trial('a'), limits))
  const newcomer = begin('b', trial('b'), limits)
  t.false(await flood[2]!)
  t.false(await begin('a5', trial('a'), limits))
  void begin('live', live('a'), limits)
  await end('first', 3_000)
  t.deepEqual(names(), ['live'])
  await end('live', 10)
  t.deepEqual(names(), ['b'])
  await end('b', 10)
  t.true(await newcomer)
})

test('given up after the time to wait, and the slot is free again after work that threw', async t => {
  const { begin, end, names } = world({ slots: 1, testSlots: 1 })
  void begin('first', live('a'))
  t.false(await begin('late', live('b'), { ...patient, waitMs: 5 }))
  await end('first')
  const slots = new FairSlots({ slots: 1, testSlots: 1 })
  await t.throwsAsync(
    slots.run(live('a'), patient, () => Promise.reject(new Error('broken'))),
    { message: 'broken' },
  )
  t.deepEqual(await slots.run(live('a'), patient, async () => 1), { result: 1 })
  t.deepEqual(names(), [])
})
