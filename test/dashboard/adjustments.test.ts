import type { AuditAnswer } from '../../api/dashboard/wire/audit.ts'
import type { Billing, LedgerPage } from '../../api/dashboard/wire/billing.ts'
import type { OrganisationDetail } from '../../api/dashboard/wire/operator.ts'
import { commands } from '../../api/operator/commands.ts'
import { parseCommand, UsageError } from '../../api/operator/parse.ts'
import { newId } from '../../shared/base/ids.ts'
import { errorCode, signUp } from '../support/dashboard/dashboard.ts'
import { type ExecutionContext, test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

const gateway = useGateway(test)
const operator = use(test, () => signUp(gateway, { name: 'Op' }))
test.before(async () => {
  await run('user', 'promote', '--email', operator.visitor.email)
})

/** A command of the operator's command line, in this process. */
async function run(...argv: string[]): Promise<{ data: unknown; text: string }> {
  const { command, flags } = parseCommand(argv, commands)
  return command.run(gateway.services, flags)
}

type Body = { id?: string; amount_usd: number; reason?: unknown; allow_negative?: boolean }

const post = (organisationId: string, { id = newId('adj'), reason = 'goodwill', ...body }: Body) =>
  operator.visitor.fetch(`/dashboard/api/operator/organisations/${organisationId}/adjustments`, {
    body: { id, reason, ...body },
  })

async function adjusted(t: ExecutionContext, organisationId: string, body: Body): Promise<OrganisationDetail> {
  const response = await post(organisationId, body)
  t.is(response.status, 200)
  return (await response.json()) as OrganisationDetail
}

test('200 for credits and debits with their reason: in the ledger, the wallet and the audit log', async t => {
  const { visitor, base, organisationId } = await signUp(gateway)
  t.like(await adjusted(t, organisationId, { amount_usd: 12.5, reason: ' a refund for the outage ' }), {
    available_usd: 12.5,
    balance_usd: 12.5,
  })
  const shown = await adjusted(t, organisationId, { amount_usd: -2.25, reason: 'charged twice' })
  t.like(shown, { available_usd: 10.25, balance_usd: 10.25 })
  t.deepEqual(
    shown.credits.map(({ kind, amount_usd, note }) => [kind, amount_usd, note]),
    [
      ['adjustment', -2.25, 'charged twice'],
      ['adjustment', 12.5, 'a refund for the outage'],
    ],
  )
  t.like(await visitor.json<Billing>(`${base}/billing`), { wallet: { available_usd: 10.25 } })
  const { data: lines } = await visitor.json<LedgerPage>(`${base}/billing/ledger?kind=adjustment`)
  t.deepEqual(
    lines.map(({ amount_usd, note }) => [amount_usd, note]),
    [
      [-2.25, 'charged twice'],
      [12.5, 'a refund for the outage'],
    ],
  )
  const { data: events } = await visitor.json<AuditAnswer>(`${base}/audit?action=balance`)
  t.like(events[0], {
    actor: { kind: 'operator', name: operator.visitor.email },
    action: 'balance.adjusted',
    changes: { amount_usd: [null, -2.25], reason: [null, 'charged twice'] },
  })
  t.is(events.length, 2)
  t.deepEqual(await gateway.settled(), [])
})

test('402 for a debit that the available balance does not cover, unless the operator confirms it', async t => {
  const { organisationId } = await gateway.account({ usd: '3' })
  const refused = await post(organisationId, { amount_usd: -3.5 })
  t.is(refused.status, 402)
  const { error } = (await refused.json()) as { error: { code: string; param: string; message: string } }
  t.like(error, { code: 'insufficient_credits', param: 'amount_usd' })
  t.regex(error.message, /\$3\.5 .* \$3 below zero/)
  t.like(await adjusted(t, organisationId, { amount_usd: -3 }), { available_usd: 0, reserved_usd: 0 })
  t.like(await adjusted(t, organisationId, { amount_usd: -1, allow_negative: true }), { available_usd: -1 })
  t.deepEqual(await gateway.settled(), [])
})

test('concurrent debits never take more than there is, and repetitions book nothing', async t => {
  const { organisationId } = await gateway.account({ usd: '10' })
  const different = await Promise.all(Array.from({ length: 8 }, () => post(organisationId, { amount_usd: -3 })))
  t.deepEqual(different.map(({ status }) => status).sort(), [200, 200, 200, 402, 402, 402, 402, 402])
  const id = newId('adj')
  const same = await Promise.all(Array.from({ length: 4 }, () => post(organisationId, { id, amount_usd: 2 })))
  t.true(same.every(({ status }) => status === 200))
  t.like(await adjusted(t, organisationId, { id, amount_usd: 2 }), { available_usd: 3, reserved_usd: 0 })
  t.is(await gateway.services.db.auditEvent.count({ where: { organisationId, action: 'balance.adjusted' } }), 4)
  for (const other of [{ amount_usd: 3 }, { amount_usd: 2, reason: 'another' }])
    t.is(await errorCode(await post(organisationId, { id, ...other })), 'idempotency_key_reused')
  const elsewhere = await gateway.account()
  t.is(await errorCode(await post(elsewhere.organisationId, { id, amount_usd: 2 })), 'idempotency_key_reused')
  t.deepEqual(await gateway.settled(), [])
})

test('400 without a reason, for an amount of nothing, and for an id that is none; 404 for an unknown organisation', async t => {
  const { organisationId } = await gateway.account()
  for (const [body, param] of [
    [{ amount_usd: 1, reason: '  ' }, 'reason'],
    [{ amount_usd: 1, reason: 'x'.repeat(501) }, 'reason'],
    [{ amount_usd: 0 }, 'amount_usd'],
    [{ amount_usd: 1e-10 }, 'amount_usd'],
    [{ amount_usd: -2_000_000 }, 'amount_usd'],
    [{ amount_usd: 1e308 }, 'amount_usd'],
    [{ amount_usd: 1, id: 'a:b:c:d:e' }, 'id'],
  ] as const) {
    const response = await post(organisationId, body)
    const { error } = (await response.json()) as { error: { param: string } }
    t.deepEqual([response.status, error.param], [400, param], JSON.stringify(body))
  }
  t.is((await post('org_unknown', { amount_usd: 1 })).status, 404)
})

test('by command: booked once, with its reason, refused below zero', async t => {
  const { organisationId: org } = await gateway.account({ usd: '5' })
  const id = newId('adj')
  const once = ['adjustment', 'add', '--org', org, '--usd', '-1.5', '--reason', 'a fee', '--id', id]
  t.is((await run(...once)).text, 'booked: balance $3.50, available $3.50')
  t.is((await run(...once)).text, 'was booked before: balance $3.50, available $3.50')
  const over = ['adjustment', 'add', '--org', org, '--usd', '-4', '--reason', 'a fee']
  await t.throwsAsync(run(...over), { message: /below zero/ })
  t.like((await run(...over, '--allow-negative')).data, { available_usd: -0.5 })
  for (const wrong of [
    ['--usd', '0', '--reason', 'x'],
    ['--usd', '1'],
    ['--usd', '1', '--reason', ' '],
  ])
    await t.throwsAsync(run('adjustment', 'add', '--org', org, ...wrong), { instanceOf: UsageError })
  t.deepEqual(await gateway.settled(), [])
})
