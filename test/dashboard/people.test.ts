// What administrators see of people: when they were active, what their keys spend, and what they changed from where.

import type { AuditAnswer, AuditEvent } from '../../api/dashboard/wire/audit.ts'
import type { KeySecretAnswer, KeysAnswer } from '../../api/dashboard/wire/keys.ts'
import type { Member, MembersAnswer } from '../../api/dashboard/wire/members.ts'
import type { UsageGroups } from '../../api/dashboard/wire/usage.ts'
import { monthOf } from '../../shared/base/time.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { errorCode, join, type SignedUp, signUp } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

const minuteMs = 60_000
const from = { 'x-forwarded-for': '203.0.113.7', 'user-agent': 'Engine/1.0' }
let owner: SignedUp
let admin: SignedUp
let member: SignedUp
let nowMs = Date.now()

const gateway = useGateway(test, { TRUSTED_PROXIES: '1' }, { clock: { now: () => nowMs } })
test.before(async () => {
  const people = await Promise.all(['Ada', 'Grace', 'Alan'].map(name => signUp(gateway, { name })))
  ;[owner, admin, member] = people as [SignedUp, SignedUp, SignedUp]
  await join(gateway, admin.userId, owner.organisationId, 'admin')
  await join(gateway, member.userId, owner.organisationId, 'member')
})

const createKey = ({ visitor }: SignedUp, body: object = {}) =>
  visitor.json<KeySecretAnswer>(`${owner.base}/keys`, { body: { environment: 'test', ...body }, headers: from })

async function members({ visitor }: SignedUp): Promise<Record<'owner' | 'admin' | 'member', Member>> {
  const { data } = await visitor.json<MembersAnswer>(`${owner.base}/members`)
  const byUser = new Map(data.map(one => [one.user_id, one]))
  return { owner: byUser.get(owner.userId)!, admin: byUser.get(admin.userId)!, member: byUser.get(member.userId)! }
}

test.serial(
  'members: their usable keys and what all of their keys spent this month, which filter keys and usage',
  async t => {
    const [first, second] = await Promise.all([createKey(member), createKey(member)])
    await createKey(admin)
    await member.visitor.json(`${owner.base}/keys/${second.data.hash}`, { method: 'DELETE' })
    const { db } = gateway.services
    const month = monthOf(nowMs)
    const spent = (keyId: string, of: string, spentNano: bigint) =>
      db.keySpend.create({ data: { keyId, month: of, spentNano, capNano: null, requests: 1n } })
    await spent(first.data.id, month, 1_250_000_000n)
    await spent(second.data.id, month, 250_000_000n)
    await spent(first.data.id, '2020-01', 9_000_000_000n)
    const seen = await members(admin)
    t.like(seen.member, { name: 'Alan', role: 'member', keys: 1, spend_month_usd: 1.5 })
    t.like(seen.admin, { name: 'Grace', role: 'admin', keys: 1, spend_month_usd: 0 })
    t.like(seen.owner, { keys: 0, spend_month_usd: 0 })

    const listed = await owner.visitor.json<KeysAnswer>(`${owner.base}/keys?member=${member.userId}`)
    t.deepEqual(
      listed.data.map(({ id }) => id),
      [first.data.id],
    )
    t.deepEqual((await owner.visitor.json<KeysAnswer>(`${owner.base}/keys?member=nobody`)).data, [])

    for (const { key } of [first, await createKey(admin)]) {
      const body = { model: 'gpt-5-mini', messages: [{ role: 'user', content: 'Hello' }] }
      t.is((await gateway.fetch('/v1/chat/completions', { key, body })).status, 200)
    }
    await gateway.settled()
    const usage = await owner.visitor.json<UsageGroups>(`${owner.base}/usage/groups?by=key&member=${member.userId}`)
    t.deepEqual(
      usage.rows.map(({ groups: [key], requests }) => [key!.id, requests]),
      [[first.data.id, 1]],
    )
    t.is(usage.total.requests, 1)
  },
)

test.serial('last active: noted at most once in five minutes, and with two-factor for administrators only', async t => {
  const activeMs = async () => Date.parse((await members(admin)).member.account!.last_active_at!)
  await member.visitor.json(`${owner.base}/keys`)
  const startMs = nowMs
  const notedMs = await activeMs()
  nowMs = startMs + 4 * minuteMs
  await member.visitor.json(`${owner.base}/keys`)
  t.is(await activeMs(), notedMs)
  nowMs = startMs + 6 * minuteMs
  await Promise.all(['keys', 'jobs', 'members'].map(path => member.visitor.json(`${owner.base}/${path}`)))
  t.is(await activeMs(), nowMs)
  t.false((await members(admin)).member.account!.two_factor)
  await gateway.services.db.user.update({ where: { id: member.userId }, data: { twoFactorEnabled: true } })
  t.true((await members(owner)).member.account!.two_factor)
  t.is((await members(member)).owner.account, null)
})

const audit = async (query: string, { visitor }: SignedUp = admin) =>
  (await visitor.json<AuditAnswer>(`${owner.base}/audit${query}`)).data

test.serial('audit log: a change says how it was made, and from which address and program', async t => {
  const { data } = await createKey(member, { name: 'From a page' })
  const [made] = await audit(`?target=${data.id}`)
  t.like(made, { action: 'key.created', via: 'dashboard', ip_address: '203.0.113.7', user_agent: 'Engine/1.0' })

  const { secret } = await gateway.services.keys.createProvisioning(owner.organisationId, operatorActor)
  const body = { environment: 'test', name: 'From a program' }
  const answer = await gateway.fetch('/api/v1/keys', { key: secret, body, headers: from })
  t.is(answer.status, 201)
  const byKey = await audit('?target=From a program')
  t.like(byKey, [{ via: 'api', ip_address: '203.0.113.7', user_agent: 'Engine/1.0' }])
  t.like(await audit('?action=provisioning_key'), [{ via: 'command_line', ip_address: null, user_agent: null }])

  const change = { memberId: (await members(owner)).member.id, role: 'admin', organizationId: owner.organisationId }
  await owner.visitor.json('/dashboard/api/auth/organization/update-member-role', { body: change, headers: from })
  t.like(await audit('?action=member.role_changed'), [
    { via: 'dashboard', ip_address: '203.0.113.7', user_agent: 'Engine/1.0' },
  ])
})

test.serial('audit log: an operator’s address is shown to operators alone', async t => {
  await gateway.services.db.user.update({ where: { id: owner.userId }, data: { operator: true } })
  const path = `/dashboard/api/operator/organisations/${owner.organisationId}/credits`
  await owner.visitor.json(path, { body: { amount_usd: 5, method: 'grant' }, headers: from })
  t.like(await audit('?action=credit.added'), [{ actor: { kind: 'operator' }, via: 'dashboard', ip_address: null }])
  const { data } = await owner.visitor.json<AuditAnswer>('/dashboard/api/operator/audit?action=credit.added')
  t.like(data, [{ ip_address: '203.0.113.7', organisation: { id: owner.organisationId } }])
})

test.serial('audit log: entries of a time are listed, and exported as they are filtered', async t => {
  const { db } = gateway.services
  const all = await audit('?limit=100')
  const [old] = await audit('?action=organisation.created')
  await db.auditEvent.update({ where: { id: old!.id }, data: { createdAt: new Date('2026-01-05T12:00:00Z') } })
  const query = '?from=2026-01-05T00:00:00Z&to=2026-01-06T00:00:00Z'
  t.deepEqual(
    (await audit(query)).map(({ id }) => id),
    [old!.id],
  )
  t.is((await audit('?limit=100&span=24h')).length, all.length - 1)
  t.is((await audit('?to=2026-01-05T12:00:00Z')).length, 0, 'the end is exclusive')
  const bad = await admin.visitor.fetch(`${owner.base}/audit?from=2026-01-06T00:00:00Z&to=2026-01-05T00:00:00Z`)
  t.deepEqual([bad.status, await errorCode(bad)], [400, 'invalid_request'])

  const file = async (name: string) => {
    const answer = await admin.visitor.fetch(`${owner.base}/${name}`)
    t.regex(
      answer.headers.get('content-disposition')!,
      /^attachment; filename="[a-z0-9-]+-audit-log-(\d{4}-\d\d-\d\d-)?to-\d{4}-\d\d-\d\d\.(csv|jsonl)"$/,
    )
    return answer.text()
  }
  const lines = (await file('audit.jsonl?action=key')).trim().split('\n')
  const keys = await audit('?limit=100&action=key')
  t.deepEqual(
    lines.map(line => (JSON.parse(line) as AuditEvent).id),
    keys.map(({ id }) => id),
  )
  t.like(JSON.parse(lines[0]!), { actor: keys[0]!.actor.name, via: keys[0]!.via, changes: keys[0]!.changes })
  const csv = (await file(`audit.csv${query}`)).split('\r\n')
  t.regex(csv[0]!, /^id,at,actor,actor_id,actor_kind,via,ip_address,user_agent,action,/)
  t.true(csv[1]!.startsWith(`${old!.id},2026-01-05T12:00:00.000Z,`))
  t.deepEqual(csv.slice(2), [''])
  t.is((await member.visitor.fetch(`${owner.base}/audit.csv`)).status, 200, 'an admin by now')
})
