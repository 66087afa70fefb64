// Jobs that cost more than they held: the same rules as for requests.

import { handleExcesses, watchReservations } from '../../shared/alerts/excesses.ts'
import { json, type Reply } from '../emulators/emulator.ts'
import { startMagicHour } from '../emulators/magic-hour.ts'
import { delayedEnvironment, path, startDelayedWorld, submitDelayed } from '../support/delayed/jobs.ts'
import { type Account, startGateway } from '../support/gateway.ts'
import { answerOf, clip, image, over, rowOf, running, submit, wallet } from '../support/jobs/gateway.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { startWorkers, type Workers } from '../support/workers.ts'

let workers: Workers
const faces = startMagicHour()

const world = use(test, async () =>
  startDelayedWorld({ MAGIC_HOUR_API_KEY: 'key_1', MAGIC_HOUR_BASE_URL: (await faces).url }),
)
test.before(() => {
  workers = startWorkers(world.gateway.services)
})
test.after.always(async () => {
  await workers?.stop()
  await (await faces).close()
})

async function handled(): Promise<void> {
  const { services } = world.gateway
  await handleExcesses(services)
  await watchReservations(services)
  const breaches = await world.gateway.settled()
  if (breaches.length > 0) throw new Error(breaches.join('\n'))
}

const excessesOf = ({ organisationId }: Account) =>
  world.gateway.services.db.ledgerEntry.count({ where: { organisationId, kind: 'excess' } })
/** An answer for which the provider counts these tokens. */
function counting(usage: object): Reply {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'Done' }, finish_reason: 'stop' }]
  return json(200, { id: 'c1', object: 'chat.completion', created: 1, model: 'm', choices, usage })
}

const incidentsOf = (model: string) =>
  world.gateway.services.db.incident.findMany({ where: { kind: 'reservations', model } })

const swapping = '/v1/face-swap'
/** At most 600 credits for the 10 s of the clip, at 0.000945 USD with the margin. */
const heldUsd = 0.567

async function swap(account: Account) {
  const body = { video_url: await clip(10), face_image_url: image, source_face_consent: true }
  const job = await submit(world.gateway, swapping, account.live, body)
  const holdUsd = Number((await rowOf(world.gateway, job.id)).holdNano) / 1e9
  await running(world.gateway, job.id)
  return { id: job.id as string, holdUsd }
}

/** The provider charges for this many seconds, 24 credits each. */
async function finish({ live }: Account, id: string, seconds: number) {
  const { works, finish: end } = await faces
  const work = [...works.values()].find(({ body }) => body.name === id)!
  work.body.end_seconds = work.body.start_seconds + seconds
  end(work.id)
  return over(world.gateway, live, swapping, id)
}

test.serial(
  'completed: a media job whose invoice is above its hold is charged, and the next one holds more',
  async t => {
    const account = await world.gateway.account()
    const first = await swap(account)
    t.is(first.holdUsd, heldUsd)
    const costUsd = Number((30 * 24 * 0.000945).toFixed(9))
    t.like(await finish(account, first.id, 30), { status: 'completed', cost_usd: costUsd })
    t.like(await wallet(world.gateway, account), { balance_usd: 25 - costUsd, reserved_usd: 0 })
    await handled()
    t.is(await excessesOf(account), 1)
    const [incident] = await incidentsOf('magic-hour-face-swap')
    t.is(incident!.message, 'Reservations of magic-hour-face-swap at magic_hour are exceeded (once, worst × 1.20).')

    const second = await swap(account)
    t.true(second.holdUsd >= costUsd, String(second.holdUsd))
    t.like(await finish(account, second.id, 30), { status: 'completed', cost_usd: costUsd })
    await handled()
    t.is(await excessesOf(account), 1)
    // What is held beyond the estimate is no price: a job whose cost is unknown costs the estimate.
    const third = await swap(account)
    const cancelled = await world.gateway.fetch(`${swapping}/${third.id}/cancel`, { key: account.live, method: 'POST' })
    t.like(await answerOf(cancelled), { status: 'cancelled', cost_usd: heldUsd })
    await handled()
  },
)

test.serial('completed for the estimate: a media job whose invoice cannot be true', async t => {
  const account = await world.gateway.account()
  const { id } = await swap(account)
  t.like(await finish(account, id, 1_000_000), { status: 'completed', cost_usd: heldUsd })
  await handled()
  t.is(await excessesOf(account), 0)
})

test.serial(
  'completed without an excess: what a delayed job costs more since it was created is reserved too',
  async t => {
    await workers.stop()
    const account = await world.gateway.account()
    const { id } = await submitDelayed(world, account.live)
    const heldUsd = Number((await rowOf(world.gateway, id)).holdNano) / 1e9
    const dearer = { ...(await delayedEnvironment(world.upstream)), SERVICE_MARGIN_PERCENT: '60' }
    const other = await startGateway(world.stores, dearer)
    const otherWorkers = startWorkers(other.services)
    try {
      const usage = { prompt_tokens: 140, completion_tokens: 50, total_tokens: 190 }
      let reservedUsd = 0
      world.upstream.next(async (request, response) => {
        reservedUsd = (await wallet(world.gateway, account)).reserved_usd
        await counting(usage)(request, response)
      })
      const { status, cost_usd } = await over(world.gateway, account.live, path, id)
      t.is(status, 'completed')
      t.true(cost_usd > heldUsd && cost_usd <= reservedUsd, `${heldUsd} held, ${reservedUsd} reserved, ${cost_usd}`)
      await handled()
      t.is(await excessesOf(account), 0)
      t.like(await wallet(world.gateway, account), { reserved_usd: 0 })
    } finally {
      await otherWorkers.stop()
      await other.close()
      workers = startWorkers(world.gateway.services)
    }
  },
)

test.serial('completed: a delayed job that exceeds its hold is charged, and the next one holds more', async t => {
  const account = await world.gateway.account()
  const usage = { prompt_tokens: 400, completion_tokens: 90, total_tokens: 490 }
  const run = async () => {
    world.upstream.next(counting(usage))
    const { id } = await submitDelayed(world, account.live)
    const { holdNano } = await rowOf(world.gateway, id)
    const { status, cost_usd } = await over(world.gateway, account.live, path, id)
    t.is(status, 'completed')
    await handled()
    return { heldUsd: Number(holdNano) / 1e9, cost: cost_usd as number }
  }
  const first = await run()
  t.true(first.cost > first.heldUsd, JSON.stringify(first))
  const second = await run()
  t.is(second.cost, first.cost)
  t.true(second.heldUsd >= second.cost && second.heldUsd < second.cost * 1.1, JSON.stringify(second))
  t.is(await excessesOf(account), 1)
  t.is((await incidentsOf('coin')).length, 1)
})

test.serial(
  'completed: a delayed job runs on its hold where a factor was learned since and nothing else is left',
  async t => {
    const { db, reservationFactors } = world.gateway.services
    const learned = await db.reservationFactor.findMany({ where: { model: 'coin' } })
    t.true(learned.length > 0)
    await workers.stop()
    await db.reservationFactor.deleteMany({ where: { model: 'coin' } })
    await reservationFactors.refresh()
    const rich = await world.gateway.account()
    const { holdNano } = await rowOf(world.gateway, (await submitDelayed(world, rich.live)).id)
    const account = await world.gateway.account({ usd: (Number(holdNano) / 1e9).toFixed(9) })
    const job = await submitDelayed(world, account.live)
    t.like(await wallet(world.gateway, account), { available_usd: 0 })
    await db.reservationFactor.createMany({ data: learned.map(row => ({ ...row, factor: 10 })) })
    await reservationFactors.refresh()
    workers = startWorkers(world.gateway.services)
    t.is((await over(world.gateway, account.live, path, job.id)).status, 'completed')
    await handled()
  },
)
