import type { AuditAnswer, AuditEvent } from '../../api/dashboard/wire/audit.ts'
import type { KeyAnswer, KeySecretAnswer, KeysAnswer } from '../../api/dashboard/wire/keys.ts'
import { commands } from '../../api/operator/commands.ts'
import { parseCommand } from '../../api/operator/parse.ts'
import type { ErrorBody } from '../../shared/base/errors.ts'
import { nanoFromUsd } from '../../shared/base/money.ts'
import { type Actor, operatorActor } from '../../shared/io/audit.ts'
import type { KeyRecord } from '../../shared/keys/keys.ts'
import { hashSecret } from '../../shared/keys/secret.ts'
import { rotateWebhookSecret } from '../../shared/webhooks/secrets.ts'
import { join, type SignedUp, signUp, type Visitor } from '../support/dashboard/dashboard.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const gateway = useGateway(test, { FAL_API_KEY: 'unused', FAL_BASE_URL: 'http://127.0.0.1:9' })
const people = use(test, async () => {
  const [owner, member, admin, stranger] = await Promise.all(
    ['Ada', 'Grace', 'Alan', 'Mallory'].map(name => signUp(gateway, { name })),
  )
  return { owner: owner!, member: member!, admin: admin!, stranger: stranger! }
})

const policy = {
  mode: 'quality',
  rpm_limit: 60,
  tpm_limit: 90_000,
  monthly_spend_cap_usd: 12.5,
  model_allowlist: ['gpt-4o', 'gpt-4o-mini'],
  scopes: 'chat,embeddings',
} as const

/** One person's organisations are made one at a time: the route refuses those that wait for long. */
let making: Promise<unknown> = Promise.resolve()

/** A new organisation, as its people see it. */
async function organisation(): Promise<Omit<typeof people, 'stranger'>> {
  const { owner, member, admin } = people
  const body = { name: 'Another', slug: crypto.randomUUID() }
  const made = making.then(() =>
    owner.visitor.json<{ id: string }>('/dashboard/api/auth/organization/create', { body }),
  )
  making = made.catch(() => {})
  const { id } = await made
  await join(gateway, member.userId, id, 'member')
  await join(gateway, admin.userId, id, 'admin')
  const there = { organisationId: id, base: `/dashboard/api/organisations/${id}` }
  return { owner: { ...owner, ...there }, member: { ...member, ...there }, admin: { ...admin, ...there } }
}

const create = ({ visitor, base }: SignedUp, body: object = {}) =>
  visitor.json<KeySecretAnswer>(`${base}/keys`, { body: { environment: 'test', ...body } })

async function refused(visitor: Visitor, path: string, options?: Parameters<Visitor['fetch']>[1]) {
  const response = await visitor.fetch(path, options)
  return { status: response.status, ...((await response.json()) as ErrorBody).error }
}

const changes = (hash: string) =>
  [
    [`/${hash}`, { method: 'PATCH', body: { name: 'Stolen' } }],
    [`/${hash}/roll`, { method: 'POST' }],
    [`/${hash}`, { method: 'DELETE' }],
  ] as const

const serves = async (key: string) => (await gateway.fetch('/v1/models', { key })).status

test('403 until the address is confirmed; then 201 with every field, and the secret this once', async t => {
  const owner = await signUp(gateway, { verified: false })
  const { visitor, base, userId } = owner
  t.like(await refused(visitor, `${base}/keys`, { body: {} }), { status: 403, code: 'email_not_verified' })
  await gateway.services.db.user.update({ where: { id: userId }, data: { emailVerified: true } })
  const { data, key } = await create(owner, { ...policy, name: 'Mine', environment: 'live', expires_in_days: 30 })
  t.regex(key, /^svc_sk_live_[0-9A-Za-z]{32,}$/)
  const row = await gateway.services.db.apiKey.findUniqueOrThrow({ where: { hash: hashSecret(key) } })
  t.like(data, { ...policy, name: 'Mine', environment: 'live', status: 'active', hash: hashSecret(key), id: row.id })
  t.like(data, { created_by: 'Ada', mine: true, may_manage: true, disabled: false, spend_month_usd: 0 })
  t.deepEqual(await visitor.json(`${base}/keys/${data.hash}`), { data })
  t.like(await refused(visitor, `${base}/keys`, { body: { color: 1 } }), { status: 400, param: 'color' })
  const path = `${base}/keys/${data.hash}`
  const patch = { rpm_limit: null, model_allowlist: null, scopes: '*', name: 'Yours', disabled: true }
  const patched = await visitor.json<KeyAnswer>(path, { method: 'PATCH', body: patch })
  t.like(patched.data, { ...policy, ...patch, status: 'revoked' })
})

test('200 with a page of keys, found by what is shown of them; revoked ones when asked for', async t => {
  const { owner } = await organisation()
  const made: string[] = []
  for (const name of ['Payroll', 'Web shop', 'web worker']) made.push((await create(owner, { name })).data.hash)
  const list = (query: string) => owner.visitor.json<KeysAnswer>(`${owner.base}/keys${query}`)
  const names = async (query: string) => (await list(query)).data.map(({ name }) => name)
  t.deepEqual(await names(''), ['web worker', 'Web shop', 'Payroll'])
  t.deepEqual(await names('?search=WEB'), ['web worker', 'Web shop'])
  const [shop] = (await list('?search=shop')).data
  for (const text of [shop!.last4, shop!.id, shop!.hash, shop!.prefix])
    t.true((await names(`?search=${text}`)).includes('Web shop'))
  const first = await list('?limit=2')
  t.like(first, { has_more: true, last_id: made[1] })
  t.deepEqual(await names(`?limit=2&after=${first.last_id}`), ['Payroll'])
  await owner.visitor.json(`${owner.base}/keys/${made[0]}`, { method: 'DELETE' })
  t.deepEqual(await names('?search=pay'), [])
  t.deepEqual(await names('?search=%25'), [], 'no pattern')
  const everything = await names('')
  t.deepEqual(await names('?state=active'), everything)
  t.deepEqual(await names('?state=unused'), [])
  const inBoth = await Promise.all(['live', 'test'].map(one => names(`?environment=${one}`)))
  t.deepEqual(inBoth.flat().sort(), [...everything].sort())
  const { db } = gateway.services
  const shopKey = { where: { organisationId: owner.organisationId, name: 'Web shop' } }
  const past = new Date(Date.now() - 61 * 86_400_000)
  for (const [data, state] of [
    [{ createdAt: past }, 'unused'],
    [{ expiresAt: past }, 'expired'],
    [{ disabled: true }, 'disabled'],
  ] as const) {
    await db.apiKey.updateMany({ ...shopKey, data })
    t.deepEqual(await names(`?state=${state}`), ['Web shop'], state)
    t.is((await names('?state=active')).includes('Web shop'), state === 'unused', state)
  }
  await db.apiKey.updateMany({ ...shopKey, data: { createdAt: new Date(), expiresAt: null, disabled: false } })
  t.deepEqual(await names('?search=pay&include_revoked=true'), ['Payroll'])
})

test.serial(
  '200 by the id, and by the hash of each secret a key ever had: addresses outlive a roll; 404 elsewhere',
  async t => {
    const { owner } = people
    const { data } = await create(owner, { name: 'Linked' })
    const path = `${owner.base}/keys/${data.id}`
    const hashes = [data.hash]
    for (let i = 0; i < 2; i++) {
      const rolled = await owner.visitor.json<KeySecretAnswer>(`${path}/roll`, { method: 'POST' })
      t.is(rolled.data.id, data.id)
      hashes.push(rolled.data.hash)
    }
    for (const name of [data.id, ...hashes]) {
      const read = await owner.visitor.json<KeyAnswer>(`${owner.base}/keys/${name}`)
      t.like(read.data, { id: data.id, hash: hashes[2] })
      t.is((await owner.visitor.fetch(`${owner.base}/requests?key=${name}`)).status, 200)
      t.is((await people.stranger.visitor.fetch(`${people.stranger.base}/keys/${name}`)).status, 404)
    }
    const named = await owner.visitor.json<KeyAnswer>(`${owner.base}/keys/${hashes[0]}`, {
      method: 'PATCH',
      body: { name: 'From an old link' },
    })
    t.like(named.data, { id: data.id, name: 'From an old link' })
    await owner.visitor.json(path, { method: 'DELETE' })
    t.like((await owner.visitor.json<KeyAnswer>(`${owner.base}/keys/${hashes[1]}`)).data, { status: 'revoked' })
  },
)

test.serial(
  '400 for an empty list of what a key may use, at creation and later: nothing becomes everything',
  async t => {
    const { owner } = people
    const { data } = await create(owner, { model_allowlist: ['gpt-4o'], scopes: 'chat' })
    for (const [body, param] of [
      [{ model_allowlist: [] }, 'model_allowlist'],
      [{ scopes: '' }, 'scopes'],
      [{ scopes: ' , ' }, 'scopes'],
    ] as const) {
      const asked = { method: 'PATCH', body }
      t.like(await refused(owner.visitor, `${owner.base}/keys/${data.id}`, asked), { status: 400, param })
      t.like(await refused(owner.visitor, `${owner.base}/keys`, { body }), { status: 400, param })
    }
    const read = await owner.visitor.json<KeyAnswer>(`${owner.base}/keys/${data.id}`)
    t.like(read.data, { model_allowlist: ['gpt-4o'], scopes: 'chat' })
  },
)

test('401 and 200 at once at /v1 after a key was disabled, enabled, rolled and revoked', async t => {
  const { owner } = await organisation()
  const { data, key } = await create(owner)
  t.is(await serves(key), 200)
  const path = `${owner.base}/keys/${data.hash}`
  const disabled = await owner.visitor.json<KeyAnswer>(path, { method: 'PATCH', body: { disabled: true } })
  t.like(disabled.data, { status: 'revoked', disabled: true })
  t.is(await serves(key), 401)
  await owner.visitor.json(path, { method: 'PATCH', body: { disabled: false } })
  t.is(await serves(key), 200)
  const rolled = await owner.visitor.json<KeySecretAnswer>(`${path}/roll`, { method: 'POST' })
  t.is(rolled.data.id, data.id)
  t.deepEqual([await serves(key), await serves(rolled.key)], [401, 200])
  const revoked = await owner.visitor.json<KeyAnswer>(`${owner.base}/keys/${rolled.data.hash}`, { method: 'DELETE' })
  t.like(revoked.data, { status: 'revoked', disabled: false })
  t.is(await serves(rolled.key), 401)
})

test('403 for a member at a colleague’s key, which they see; 200 at their own and for an admin', async t => {
  const { owner, member, admin } = await organisation()
  const [theirs, own] = [await create(owner), await create(member)]
  const ofOperator = await gateway.key(owner.organisationId, 'test')
  for (const hash of [theirs.data.hash, hashSecret(ofOperator)]) {
    for (const [path, options] of changes(hash))
      t.like(await refused(member.visitor, `${owner.base}/keys${path}`, options), {
        status: 403,
        code: 'insufficient_role',
      })
    const { data } = await member.visitor.json<KeyAnswer>(`${owner.base}/keys/${hash}`)
    t.like(data, { mine: false, may_manage: false, status: 'active' })
  }
  for (const person of [member, admin]) {
    const path = `${owner.base}/keys/${own.data.hash}`
    const { data } = await person.visitor.json<KeyAnswer>(path, { method: 'PATCH', body: { name: person.userId } })
    t.like(data, { name: person.userId, created_by: 'Grace', mine: person === member, may_manage: true })
  }
})

test('404 for a key of another organisation on every route, by both organisations’ addresses', async t => {
  const { owner } = await organisation()
  const { stranger } = people
  const { data } = await create(owner)
  for (const { base } of [stranger, owner])
    for (const [path, options] of [[`/${data.hash}`, {}], [`?after=${data.hash}`, {}], ...changes(data.hash)] as const)
      t.like(await refused(stranger.visitor, `${base}/keys${path}`, options), { status: 404, code: 'not_found' }, path)
  t.like(await refused(stranger.visitor, `${owner.base}/keys`, { body: {} }), { status: 404 })
  t.deepEqual((await owner.visitor.json<KeyAnswer>(`${owner.base}/keys/${data.hash}`)).data, data)
  t.deepEqual((await stranger.visitor.json<KeysAnswer>(`${stranger.base}/keys?search=${data.hash}`)).data, [])
})

/** What may be done to a key, through one door. */
type Door = {
  actor: Actor
  create(): Promise<{ data: KeyRecord; key: string }>
  patch?(hash: string, fields: object): Promise<unknown>
  roll(hash: string): Promise<{ data: KeyRecord; key: string }>
  revoke(hash: string): Promise<unknown>
}

async function operator<T>(...argv: string[]): Promise<T> {
  const { command, flags } = parseCommand(argv, commands)
  return (await command.run(gateway.services, flags)).data as T
}

async function doors(owner: SignedUp): Promise<Record<string, Door>> {
  const { organisationId: org, visitor, base, userId } = owner
  const { id, prefix, secret } = await gateway.services.keys.createProvisioning(org, operatorActor)
  const byHttp = (call: <T>(path: string, method: string, body?: object) => Promise<T>): Omit<Door, 'actor'> => ({
    create: () => call('/keys', 'POST', { name: 'Noted', rpm_limit: 5 }),
    patch: (hash, fields) => call(`/keys/${hash}`, 'PATCH', fields),
    roll: hash => call(`/keys/${hash}/roll`, 'POST'),
    revoke: hash => call(`/keys/${hash}`, 'DELETE'),
  })
  return {
    dashboard: {
      actor: { kind: 'user', id: userId, name: visitor.email },
      ...byHttp((path, method, body) => visitor.json(base + path, { method, body })),
    },
    provisioning: {
      actor: { kind: 'provisioning_key', id, name: prefix },
      ...byHttp(async <T>(path: string, method: string, body?: object) => {
        const response = await gateway.fetch(`/api/v1${path}`, { key: secret, method, body })
        return (await response.json()) as T
      }),
    },
    operator: {
      actor: operatorActor,
      create: () => operator('key', 'create', '--org', org, '--env', 'live', '--name', 'Noted', '--rpm-limit', '5'),
      roll: hash => operator('key', 'roll', '--hash', hash),
      revoke: hash => operator('key', 'revoke', '--hash', hash),
    },
  }
}

test('each change of a key is noted once, by who made it through which door, without a secret', async t => {
  const { owner } = await organisation()
  const { organisationId, userId } = owner
  for (const [name, { actor, ...door }] of Object.entries(await doors(owner))) {
    const { data, key } = await door.create()
    const fields = { mode: 'cost', rpm_limit: null, monthly_spend_cap_usd: 2.5, scopes: '*', disabled: true }
    for (let i = 0; i < 2; i++) await door.patch?.(data.hash, fields) // The second one changes nothing.
    const rolled = await door.roll(data.hash)
    for (let i = 0; i < 2; i++) await door.revoke(rolled.data.hash)
    const { id, createdById } = await gateway.services.db.apiKey.findUniqueOrThrow({
      where: { hash: rolled.data.hash },
    })
    t.is(createdById, name === 'dashboard' ? userId : null)
    const { data: events } = await owner.visitor.json<AuditAnswer>(`${owner.base}/audit?order=asc&target=${id}`)
    const { environment, mode, scopes, learning, own_keys } = data
    const created = { name: 'Noted', environment, mode, rpm_limit: 5, scopes, learning, own_keys }
    const expected: [string, AuditEvent['changes']][] = [
      ['key.created', Object.fromEntries(Object.entries(created).map(([field, value]) => [field, [null, value]]))],
      [
        'key.updated',
        {
          mode: ['balanced', 'cost'],
          rpm_limit: [5, null],
          monthly_spend_cap_usd: [null, 2.5],
          disabled: [false, true],
        },
      ],
      ['key.rolled', { last4: [data.last4, rolled.data.last4] }],
      ['key.revoked', {}],
    ]
    t.deepEqual(
      events.map(event => [event.action, event.changes]),
      expected.filter(([action]) => door.patch || action !== 'key.updated'),
      name,
    )
    for (const event of events) t.like(event, { actor, target: { id, name: 'Noted' } })
    const written = JSON.stringify(await gateway.services.db.auditEvent.findMany({ where: { organisationId } }))
    for (const secret of [key, rolled.key, data.hash, rolled.data.hash]) t.false(written.includes(secret))
  }
})

test('credits, provisioning keys and webhook secrets of the operator are noted, each once', async t => {
  const { owner } = await organisation()
  const org = owner.organisationId
  await operator('credit', 'add', '--org', org, '--usd', '2.5', '--method', 'grant')
  const { data } = await operator<{ data: { id: string; prefix: string } }>('provisioning-key', 'create', '--org', org)
  for (let i = 0; i < 2; i++) await operator('provisioning-key', 'revoke', '--org', org)
  await operator('webhook-secret', 'rotate', '--org', org)
  const { data: events } = await owner.visitor.json<AuditAnswer>(`${owner.base}/audit?order=asc&actor=OPERATOR`)
  const target = { id: data.id, name: data.prefix }
  t.deepEqual(
    events.map(({ action, target, changes }) => ({ action, target, changes })),
    [
      { action: 'credit.added', target: null, changes: { amount_usd: [null, 2.5], method: [null, 'grant'] } },
      { action: 'provisioning_key.created', target, changes: {} },
      { action: 'provisioning_key.revoked', target, changes: {} },
      { action: 'webhook_secret.rotated', target: null, changes: {} },
    ],
  )
  t.deepEqual(await gateway.settled(), [])
})

test('nothing is changed that cannot be noted, and nothing is noted that was not changed', async t => {
  const { db, keys, wallets, clock } = gateway.services
  await db.$executeRaw`ALTER TABLE audit_events ADD CONSTRAINT known_actors CHECK (actor_name <> 'nobody')`
  const nobody: Actor = { kind: 'operator', id: null, name: 'nobody' }
  const { owner } = await organisation()
  const { organisationId } = owner
  const { hash } = (await create(owner)).data
  await keys.createProvisioning(organisationId, operatorActor)
  const state = async () => ({
    keys: await db.apiKey.findMany({ where: { organisationId } }),
    provisioning: await db.provisioningKey.findMany({ where: { organisationId } }),
    retired: await db.retiredSecret.findMany({ where: { key: { organisationId } } }),
    organisation: await db.organisation.findUnique({ where: { id: organisationId }, include: { wallet: true } }),
    noted: await db.auditEvent.findMany({ where: { organisationId } }),
  })
  await rotateWebhookSecret(gateway.services, organisationId, operatorActor, clock.now())
  const before = await state()
  for (const attempt of [
    () => keys.create(organisationId, { environment: 'test' }, nobody),
    () => keys.patch(organisationId, hash, { name: 'Other' }, nobody),
    () => keys.roll(organisationId, hash, nobody),
    () => keys.revoke(organisationId, hash, nobody),
    () => keys.createProvisioning(organisationId, nobody),
    () => keys.revokeProvisioning(organisationId, nobody),
    () => rotateWebhookSecret(gateway.services, organisationId, nobody, clock.now()),
    () =>
      wallets.deposit({ organisationId, amountNano: 1n, method: 'grant' }, async tx => {
        await tx.auditEvent.create({
          data: { id: 'aud_1', organisationId, actorKind: 'operator', actorName: 'nobody', action: 'credit.added' },
        })
      }),
  ])
    await t.throwsAsync(attempt, { message: /known_actors/ }, String(attempt))
  t.deepEqual(await state(), before)
  const rolls = await Promise.allSettled([1, 2, 3].map(() => keys.roll(organisationId, hash, operatorActor)))
  t.is(rolls.filter(({ status }) => status === 'fulfilled').length, 1)
  t.is((await state()).noted.filter(({ action }) => action === 'key.rolled').length, 1)
})

test('200 with the audit log in pages without gaps, filtered; 403 for a member, 404 for others', async t => {
  const { owner, member, admin } = await organisation()
  const { stranger } = people
  const many = Array.from({ length: 60 }, (_, i) => `model-${i}`)
  const { data } = await create(owner, { name: 'Web shop', model_allowlist: many })
  for (let i = 0; i < 4; i++) await create(member, { name: `Payroll ${i}` })
  await admin.visitor.json(`${owner.base}/keys/${data.hash}`, { method: 'DELETE' })
  const read = (query: string) => admin.visitor.json<AuditAnswer>(`${owner.base}/audit${query}`)
  const all = (await read('')).data
  t.deepEqual(
    all.map(({ action }) => action),
    ['key.revoked', ...Array(5).fill('key.created'), 'organisation.created'],
  )
  const paged: AuditEvent[] = []
  for (let after = '', more = true; more; ) {
    const page = await read(`?limit=2${after && `&after=${after}`}`)
    paged.push(...page.data)
    more = page.has_more
    after = page.last_id!
  }
  t.deepEqual(paged, all)
  for (const [query, found] of [
    ['action=key', 6],
    ['action=key.created', 5],
    ['action=key.creat', 0],
    [`actor=${member.visitor.email.toUpperCase()}`, 4],
    [`actor=${owner.userId}`, 2],
    ['actor=%25', 0],
    ['target=_', 0],
    ['target=payroll', 4],
    [`target=${data.id}&action=key.revoked`, 1],
  ] as const)
    t.is((await read(`?${query}`)).data.length, found, query)
  const [, shown] = (await read(`?target=${data.id}&action=key.created`)).data[0]!.changes.model_allowlist!
  t.deepEqual(shown, [...many.slice(0, 50), 'and 10 more'])
  t.like(await refused(member.visitor, `${owner.base}/audit`), { status: 403, code: 'insufficient_role' })
  t.is((await refused(stranger.visitor, `${owner.base}/audit`)).status, 404)
  t.is((await refused(stranger.visitor, `${stranger.base}/audit?after=${all[0]!.id}`)).status, 404)
})

test('a key shows when its cap refused a request, until the cap is raised', async t => {
  const { owner } = await organisation()
  const { visitor, base, organisationId } = owner
  const { wallets, refusalLog } = gateway.services
  await wallets.deposit({ organisationId, amountNano: nanoFromUsd('25'), method: 'grant' })
  const { data, key } = await create(owner, { environment: 'live', monthly_spend_cap_usd: 1 })
  const submit = async () =>
    (await gateway.fetch('/v1/videos', { key, body: { model: 'kling-v3-pro', prompt: 'A lock' } })).status
  const shown = async () => (await visitor.json<KeyAnswer>(`${base}/keys/${data.hash}`)).data
  t.is(await submit(), 202)
  t.is((await shown()).cap_refused_at, null)
  t.is(await submit(), 402)
  await refusalLog.flush()
  const near = await shown()
  t.true(near.spend_month_usd > 0.5 && near.spend_month_usd < 1, String(near.spend_month_usd))
  t.true(Math.abs(Date.parse(near.cap_refused_at!) - Date.now()) < 60_000)
  const [listed] = (await visitor.json<KeysAnswer>(`${base}/keys`)).data
  t.is(listed!.cap_refused_at, near.cap_refused_at)
  await visitor.json(`${base}/keys/${data.hash}`, { method: 'PATCH', body: { monthly_spend_cap_usd: 1.5 } })
  t.is((await shown()).cap_refused_at, null, 'nobody knows yet what the new cap refuses')
})
