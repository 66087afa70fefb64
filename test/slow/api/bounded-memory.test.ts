import { join } from 'node:path'
import { type Attack, jsonCall, send, type World } from '../../../bench/attacks/attack.ts'
import { memoryAttacks } from '../../../bench/attacks/memory.ts'
import { observe } from '../../support/chaos.ts'
import { createAccount } from '../../support/gateway.ts'
import { type MeasuredProcess, maxBlockMs, startMeasured } from '../../support/io/measured.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'

/** What free keys have a web process hold in memory, on the heap of a machine of 512 MB. */

const heapMb = 400
/** Of what attackers hold, and of the garbage that a heap of this size may have before it is collected. */
const maxGrownMb = 450
let web: MeasuredProcess
let world: World
const preload = join(import.meta.dirname, '../../support/io/measure-preload.ts')

const stores = useStores(test)
const services = use(test, () => observe(stores))
test.beforeEach(async () => {
  web = await startMeasured(stores, {
    TEST_KEY_RPM: '0',
    TEST_KEY_TPM: '0',
    LOG_LEVEL: 'error',
    NODE_OPTIONS: `--import=${preload} --expose-gc --max-old-space-size=${heapMb}`,
  })
  const newKey = async () => {
    const { organisationId, test } = await createAccount(services)
    await services.db.organisation.update({ where: { id: organisationId }, data: { keepResponses: true } })
    return test
  }
  world = { port: Number(new URL(web.url).port), newKey }
})
test.afterEach.always(() => web?.kill())

/** Runs an attack, during which others are served; what it did to the process. */
async function withstand({ run, seconds }: Attack) {
  const victim = await world.newKey()
  const chat = jsonCall('/v1/chat/completions', { model: 'gpt-4.1', messages: [{ role: 'user', content: 'Hello!' }] })
  const statuses: number[] = []
  const measured = await web.measure(async () => {
    const controller = new AbortController()
    const timer = setTimeout(() => controller.abort(), seconds * 1_000)
    const running = run(world, controller.signal).catch(() => {})
    for (let isOver = false; !isOver; ) {
      statuses.push((await send(world.port, victim, chat, AbortSignal.timeout(60_000))).status)
      isOver = await Promise.race([
        running.then(() => true),
        new Promise<false>(again => setTimeout(again, 250, false)),
      ])
    }
    clearTimeout(timer)
  })
  return { ...measured, refused: statuses.filter(status => status !== 200) }
}

const attackOf = (name: string) => memoryAttacks.find(attack => attack.name === name)!

for (const name of ['unread-streams', 'unread-letters', 'unread-answers', 'held-blocks', 'held-objects', 'held-texts'])
  test.serial(`200 for others meanwhile: ${name}`, async t => {
    const { grownMb, refused } = await withstand(attackOf(name))
    // Where the process is full, it is full for all: it lives, and what it holds is bounded.
    t.true(refused.every(status => status === 503))
    t.true(grownMb < maxGrownMb, `${Math.round(grownMb)} MB`)
  })

for (const name of ['many-items', 'many-parts'])
  test.serial(`no turn is long: ${name}`, async t => {
    const { blockMs, grownMb, refused } = await withstand(attackOf(name))
    t.deepEqual(refused, [])
    t.true(blockMs < maxBlockMs, `${Math.round(blockMs)} ms`)
    t.true(grownMb < maxGrownMb, `${Math.round(grownMb)} MB`)
  })
