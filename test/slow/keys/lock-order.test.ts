// Transactions on the keys of one organisation that overlap: each waits for the other, none is a victim of a deadlock.

import { newId } from '../../../shared/base/ids.ts'
import { updateContentSettings } from '../../../shared/content-log/content-settings.ts'
import { operatorActor } from '../../../shared/io/audit.ts'
import { budgetSettings, setBudget } from '../../../shared/keys/budgets.ts'
import { settleMemberKeys } from '../../../shared/keys/removed-member-keys.ts'
import { setSuspension } from '../../../shared/keys/suspensions.ts'
import { bookUsage } from '../../../shared/wallet/booking.ts'
import { join, signUp } from '../../support/dashboard/dashboard.ts'
import { eventually } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { useGateway } from '../../support/use.ts'
import { usageEventOf } from '../../support/wallet/usage-event.ts'

const gateway = useGateway(test)

type Organisation = { id: string; memberId: string; keys: { id: string; hash: string }[] }

/** An organisation with two live keys, which a member created. */
async function organisation(): Promise<Organisation> {
  const { organisationId: id } = await signUp(gateway)
  const { userId: memberId } = await signUp(gateway)
  await join(gateway, memberId, id, 'member')
  for (const name of ['one', 'two']) await gateway.key(id, 'live', { name })
  const { db } = gateway.services
  await db.apiKey.updateMany({ where: { organisationId: id }, data: { createdById: memberId } })
  const keys = await db.apiKey.findMany({ where: { organisationId: id }, orderBy: { id: 'asc' } })
  return { id, memberId, keys }
}

/** Changes of all keys of an organisation. */
const changesOfAll: Record<string, (of: Organisation) => Promise<unknown>> = {
  budget: ({ id }) =>
    setBudget(gateway.services, id, 'organisation', budgetSettings.parse({ limit_usd: 5 }), operatorActor),
  suspension: ({ id }) => setSuspension(gateway.services, id, 'fraud', operatorActor),
  'content settings': ({ id }) =>
    updateContentSettings(
      gateway.services,
      id,
      { retention_days: 5, content_logging: { mode: 'all', until: new Date(Date.now() + 3_600_000).toISOString() } },
      operatorActor,
    ),
  'hand-over': ({ id, memberId }) =>
    settleMemberKeys(gateway.services, { organisationId: id, userId: memberId }, 'hand_over', operatorActor),
}

/** Changes of one key. */
const changesOfOne: Record<string, (id: string, hash: string) => Promise<unknown>> = {
  patch: (id, hash) => gateway.services.keys.patch(id, hash, { name: 'new' }, operatorActor),
  roll: (id, hash) => gateway.services.keys.roll(id, hash, operatorActor),
  revocation: (id, hash) => gateway.services.keys.revoke(id, hash, operatorActor),
}

function book({ id: org, keys }: Organisation): Promise<void> {
  const at = Date.now()
  const common = { at, org, month: new Date(at).toISOString().slice(0, 7), cost: 1 }
  const events = keys.map(key =>
    usageEventOf({ ...common, id: newId('chatcmpl'), key: key.id, requestId: newId('req') }),
  )
  return gateway.services.rawPool.transaction(run => bookUsage(run, events, at))
}

/** Runs `works`, started one after the other while one key of the organisation is locked: each waits before the next is started. */
async function overlap(held: { id: string }, works: (() => Promise<unknown>)[]): Promise<void> {
  const { db } = gateway.services
  const running: Promise<unknown>[] = []
  await db.$transaction(async tx => {
    const [{ pid }] = await tx.$queryRaw<[{ pid: number }]>`
      SELECT pg_backend_pid() AS pid FROM api_keys WHERE id = ${held.id} FOR UPDATE`
    const countWaiting = async () => {
      const [{ count }] = await db.$queryRaw<[{ count: number }]>`
        WITH RECURSIVE waiting AS (
          SELECT ${pid}::int AS pid
          UNION SELECT a.pid FROM pg_stat_activity a JOIN waiting w ON w.pid = ANY(pg_blocking_pids(a.pid))
        ) SELECT count(*)::int - 1 AS count FROM waiting`
      return count
    }
    for (const work of works) {
      running.push(work())
      await eventually(async () => (await countWaiting()) === running.length, `${running.length} wait`)
    }
  })
  await Promise.all(running)
}

for (const [name, change] of Object.entries(changesOfAll)) {
  test.serial(`charges of several keys beside a change of all of them: ${name}`, async t => {
    for (const held of [0, 1])
      for (const isBookedFirst of [false, true]) {
        const of = await organisation()
        const works = [() => change(of), () => book(of)]
        await overlap(of.keys[held]!, isBookedFirst ? works.reverse() : works)
        const { balanceNano } = await gateway.services.db.wallet.findUniqueOrThrow({ where: { organisationId: of.id } })
        t.is(balanceNano, -2n)
      }
  })

  for (const [one, changeOne] of Object.entries(changesOfOne))
    test.serial(`a change of one key beside a change of all of them: ${one}, ${name}`, async t => {
      for (const held of [0, 1]) {
        const of = await organisation()
        await overlap(of.keys[held]!, [() => change(of), () => changeOne(of.id, of.keys[1 - held]!.hash)])
        t.pass()
      }
    })
}
