import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { firstKeyLimits } from '../../../api/auth/confirm-address.ts'
import { commands } from '../../../api/operator/commands.ts'
import { parseCommand, UsageError } from '../../../api/operator/parse.ts'
import { devStackFile } from '../../../shared/base/dev-stack.ts'
import { GatewayError } from '../../../shared/base/errors.ts'
import { newKey } from '../../../shared/keys/key-requests.ts'
import type { KeyRecord } from '../../../shared/keys/keys.ts'
import { hashSecret } from '../../../shared/keys/secret.ts'
import { operatorJson, runOperator, spawnOperator, storesEnv } from '../../support/operator.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { useGateway, useStores } from '../../support/use.ts'

let organisation: string
const unknown = 'a'.repeat(64)

const stores = useStores(test)
const gateway = useGateway(test, {}, { stores })
test.before(async () => {
  organisation = await newOrganisation('Operated')
})

const json = <T>(...args: string[]) => operatorJson<T>(stores, ...args)
const plain = (...args: string[]) => runOperator(storesEnv(stores), ...args)
const spawned = (...args: string[]) => spawnOperator(storesEnv(stores), ...args)

async function newOrganisation(name: string): Promise<string> {
  const { id } = await json<{ id: string }>('org', 'create', '--name', name)
  return id
}

/** Runs a command without --json: exit 0, nothing on stderr, and a text that is no JSON. */
async function said(t: ExecutionContext, ...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await plain(...args)
  t.deepEqual({ exitCode, stderr }, { exitCode: 0, stderr: '' }, args.join(' '))
  t.throws(() => JSON.parse(stdout), { instanceOf: SyntaxError })
  return stdout.trimEnd()
}

type Created = { data: KeyRecord; key: string }
type Wallet = {
  org: string
  balance_usd: number
  available_usd: number
  held_usd: number
  held_release_at: string | null
}

test.serial('exit 0: org create and org list', async t => {
  const id = await said(t, 'org', 'create', '--name', 'Plain & simple')
  t.regex(id, /^org_\w+$/)
  const created = await json<{ id: string; name: string }>('org', 'create', '--name=With = sign')
  t.is(created.name, 'With = sign')
  const { data } = await json<{ data: { id: string; name: string; balance_usd: number }[] }>('org', 'list')
  t.like(
    data.find(row => row.id === id),
    { name: 'Plain & simple', balance_usd: 0 },
  )
  t.true((await said(t, 'org', 'list')).includes('Plain & simple'))
  const noted = await gateway.services.db.auditEvent.findMany({ where: { organisationId: id } })
  t.like(noted, [{ action: 'organisation.created', actorKind: 'operator' }])
})

test.serial('exit 0: credit add by card, by grant, by ACH with its hold', async t => {
  const org = await newOrganisation('Funded')
  t.deepEqual(await json<Wallet>('credit', 'add', '--org', org, '--usd', '25'), {
    org,
    balance_usd: 25,
    available_usd: 25,
    held_usd: 0,
    held_release_at: null,
  })
  t.regex(await said(t, 'credit', 'add', '--org', org, '--usd', '0.000000001'), /balance \$25\.00, available \$25\.00/)
  const methods = await gateway.services.db.ledgerEntry.findMany({ where: { organisationId: org } })
  t.deepEqual([...new Set(methods.map(({ method }) => method))], ['grant'])
  const startedMs = Date.now()
  const held = await json<Wallet>('credit', 'add', '--org', org, '--usd', '10', '--method', 'ach')
  t.like(held, { balance_usd: 35.000000001, available_usd: 25.000000001, held_usd: 10 })
  t.true(Math.abs(Date.parse(held.held_release_at!) - startedMs - 5 * 86_400_000) < 60_000)
  const sooner = await json<Wallet>('credit', 'add', '--org', org, '--usd', '1', '--method', 'ach', '--hold-days', '2')
  t.like(sooner, { balance_usd: 36.000000001, held_usd: 11 })
  t.true(Math.abs(Date.parse(sooner.held_release_at!) - startedMs - 2 * 86_400_000) < 60_000)
  const { available_usd } = await json<Wallet>(
    'credit',
    'add',
    '--org',
    org,
    '--usd',
    '1',
    '--method',
    'ach',
    '--hold-days',
    '0',
  )
  t.is(available_usd, 26.000000001)
})

const policyFlags = [
  ['--name', 'Mine'],
  ['--mode', 'quality'],
  ['--rpm-limit', '60'],
  ['--tpm-limit', '90000'],
  ['--monthly-spend-cap-usd', '5.5'],
  ['--model-allowlist', 'gpt-4o, gpt-4o-mini'],
  ['--scopes', 'chat,embeddings'],
  ['--learning', 'false'],
  ['--denied-service-tiers', 'priority'],
  ['--expires-in-days', '30'],
].flat()

test.serial(
  'exit 0: key create with every policy flag, list, roll, revoke; the keys work and stop working',
  async t => {
    const list = async (key: string) => (await gateway.fetch('/v1/models', { key })).status
    const { data, key } = await json<Created>('key', 'create', '--org', organisation, '--env', 'test', ...policyFlags)
    t.like(data, {
      hash: hashSecret(key),
      name: 'Mine',
      environment: 'test',
      mode: 'quality',
      rpm_limit: 60,
      tpm_limit: 90_000,
      monthly_spend_cap_usd: 5.5,
      model_allowlist: ['gpt-4o', 'gpt-4o-mini'],
      scopes: 'chat,embeddings',
      learning: false,
      denied_service_tiers: ['priority'],
      status: 'active',
    })
    t.true(Math.abs(Date.parse(data.expires_at!) - Date.now() - 30 * 86_400_000) < 60_000)
    t.is(await list(key), 200)
    const live = await said(t, 'key', 'create', '--org', organisation, '--env', 'live')
    t.regex(live, /^svc_sk_live_[0-9A-Za-z]{32,}$/)
    t.is(await list(live), 200)
    const rolled = await json<Created>('key', 'roll', '--hash', data.hash)
    t.like(rolled.data, { name: 'Mine', rpm_limit: 60, hash: hashSecret(rolled.key) })
    t.deepEqual([await list(key), await list(rolled.key)], [401, 200])
    const again = await said(t, 'key', 'roll', '--hash', rolled.data.hash, '--overlap-hours', '1')
    t.deepEqual([await list(rolled.key), await list(again)], [200, 200])
    t.regex(await said(t, 'key', 'revoke', '--hash', hashSecret(again)), /revoked/)
    const revoked = await json<{ data: KeyRecord }>('key', 'revoke', '--hash', hashSecret(live))
    t.is(revoked.data.status, 'revoked')
    t.deepEqual([await list(rolled.key), await list(again), await list(live)], [401, 401, 401])
    const { data: rows } = await json<{ data: KeyRecord[] }>('key', 'list', '--org', organisation)
    t.deepEqual(
      rows.map(({ hash, status }) => [hash, status]),
      [
        [hashSecret(live), 'revoked'],
        [hashSecret(again), 'revoked'],
      ],
    )
    t.is((await said(t, 'key', 'list', '--org', organisation)).split('\n').length, 2)
  },
)

test.serial('exit 0: provisioning-key create and revoke', async t => {
  const manage = async (key: string) => (await gateway.fetch('/api/v1/keys', { key })).status
  const created = await json<{ data: { id: string }; key: string }>('provisioning-key', 'create', '--org', organisation)
  const other = await said(t, 'provisioning-key', 'create', '--org', organisation)
  for (const key of [created.key, other]) {
    t.regex(key, /^svc_pk_[0-9A-Za-z]{32,}$/)
    t.is(await manage(key), 200)
  }
  const one = ['provisioning-key', 'revoke', '--org', organisation, '--id', created.data.id]
  t.deepEqual(await json(...one), { org: organisation, revoked: 1 })
  t.deepEqual([await manage(created.key), await manage(other)], [401, 200])
  t.is(await said(t, 'provisioning-key', 'revoke', '--org', organisation), '1 revoked')
  t.is(await manage(other), 401)
})

test.serial('exit 0: webhook-secret show and rotate', async t => {
  type Secrets = { secret: string; previous_secret: string | null; previous_valid_until: string | null }
  const first = await json<Secrets>('webhook-secret', 'show', '--org', organisation)
  t.regex(first.secret, /^whsec_[\w+/=]+$/)
  t.like(first, { previous_secret: null, previous_valid_until: null })
  t.is(await said(t, 'webhook-secret', 'show', '--org', organisation), first.secret)
  const rotated = await json<Secrets>('webhook-secret', 'rotate', '--org', organisation)
  t.not(rotated.secret, first.secret)
  t.is(rotated.previous_secret, first.secret)
  t.true(Math.abs(Date.parse(rotated.previous_valid_until!) - Date.now() - 86_400_000) < 60_000)
  t.not(await said(t, 'webhook-secret', 'rotate', '--org', organisation), rotated.secret)
})

test.serial('exit 0: models list and check', async t => {
  type Row = { id: string; type: string; providers: { provider: string; configured: boolean }[] }
  const env = { ...storesEnv(stores), OPENAI_API_KEY: 'sk-upstream' }
  const { stdout } = await runOperator(env, 'models', 'list', '--json')
  const { data } = JSON.parse(stdout) as { data: Row[] }
  const configured = (id: string) => data.find(row => row.id === id)!.providers[0]!.configured
  t.deepEqual([configured('gpt-4o'), configured('claude-opus-5')], [true, false])
  t.is((await said(t, 'models', 'list')).split('\n').length, data.length)
  type Check = { models: number; expired: string[]; unserved: string[] }
  const { exitCode, stdout: checked } = await runOperator(env, 'models', 'check', '--json')
  const check = JSON.parse(checked) as Check
  t.is(exitCode, check.expired.length > 0 ? 1 : 0)
  t.true(check.models >= 80 && check.unserved.includes('claude-opus-5') && !check.unserved.includes('gpt-4o'))
})

test.serial('exit 0 from ledger check while the books are right, 1 with the breach once they are not', async t => {
  const org = await newOrganisation('Audited')
  await json('credit', 'add', '--org', org, '--usd', '3')
  t.regex(await said(t, 'ledger', 'check'), /^ok /)
  t.true((await json<{ ok: boolean }>('ledger', 'check')).ok)
  await gateway.services.db
    .$executeRaw`UPDATE wallets SET balance_nano = balance_nano + 1 WHERE organisation_id = ${org}`
  const [text, document] = await Promise.all([spawned('ledger', 'check'), plain('ledger', 'check', '--json')])
  t.is(text.exitCode, 1)
  t.regex(text.stdout, /BREACH/)
  t.is(document.exitCode, 1)
  const report = JSON.parse(document.stdout) as { ok: boolean; invariants: { breaches: string[] }[] }
  t.false(report.ok)
  t.true(report.invariants.some(({ breaches }) => breaches.some(breach => breach.includes(org))))
  await gateway.services.db
    .$executeRaw`UPDATE wallets SET balance_nano = balance_nano - 1 WHERE organisation_id = ${org}`
})

const create = (...flags: string[]) => ['key', 'create', '--org', 'any', '--env', 'test', ...flags]
const mistakes: [string[], RegExp][] = [
  [[], /Missing command/],
  [['key'], /Unknown command: key/],
  [['key', 'destroy', '--hash', 'a'], /Unknown command: key destroy/],
  [['org', 'create'], /--name is required/],
  [['org', 'create', '--name'], /--name needs a value/],
  [['org', 'create', '--name', '--json'], /--name needs a value/],
  [['org', 'create', '--name', 'a', '--name', 'b'], /--name is given twice/],
  [['org', 'create', '--name', 'a', '--color', 'red'], /org create has no --color/],
  [['credit', 'add', '--org', 'any', '--usd', '-5'], /--usd: /],
  [['credit', 'add', '--org', 'any', '--usd', '0'], /--usd: /],
  [['credit', 'add', '--org', 'any', '--usd', '5', '--method', 'cash'], /--method: /],
  [['credit', 'add', '--org', 'any', '--usd', '5', '--hold-days', '9999999999'], /--hold-days: /],
  [['key', 'create', '--org', 'any', '--env', 'dev'], /--env: /],
  [create('--rpm-limit', '1.5'), /--rpm-limit: /],
  [create('--tpm-limit', 'many'), /--tpm-limit: /],
  [create('--monthly-spend-cap-usd', '1e3'), /--monthly-spend-cap-usd: /],
  [create('--scopes', 'chat,root'), /--scopes: must be a comma-separated list/],
  [create('--mode', 'fast'), /--mode: /],
  [create('--expires-in-days', '0'), /--expires-in-days: /],
  [['key', 'revoke', '--hash', 'abc'], /--hash: must be the key’s hash/],
]

for (const [args, fault] of mistakes) {
  test(`exit 1 for a usage fault: ${args.join(' ') || 'nothing'}`, t => {
    t.throws(() => parseCommand(args, commands), { instanceOf: UsageError, message: fault })
  })
}

test.serial('exit 1 with the fault in a line on stderr and nothing on stdout; help is no fault', async t => {
  for (const args of [mistakes[1]![0], [...create('--rpm-limit', '1.5'), '--json']]) {
    const { exitCode, stdout, stderr } = await spawned(...args)
    t.deepEqual({ exitCode, stdout }, { exitCode: 1, stdout: '' })
    t.regex(stderr, /^(Unknown command|--rpm-limit: ).* See: npm run -s operator -- help.*\n$/)
  }
  const help = await spawned('--help')
  t.like(help, { exitCode: 0, stderr: '' })
  t.regex(help.stdout, /ledger check +Checks that/)
})

test('exit 0 with a sentence for each command, and the flags of one that is asked for', async t => {
  const list = await said(t, 'help')
  for (const { name, summary } of commands) {
    t.true(list.includes(`${name} `) && list.includes(summary), name)
    t.regex(summary, /^[A-Z].*\.$/, name)
    for (const args of [
      ['help', ...name.split(' ')],
      [...name.split(' '), '--help'],
      [...name.split(' '), '-h'],
    ])
      t.true((await said(t, ...args)).startsWith(`${summary}\n`), args.join(' '))
  }
  t.regex(await said(t, 'key', 'create', '--org', 'org_1', '--help'), /--env live\|test/)
  t.regex(await said(t, 'help', 'key'), /^ +key create .*\n +key list .*\n/)
  t.is((await plain('help', 'nothing')).exitCode, 1)
})

const meanings: [string[], RegExp][] = [
  [['org', 'creat'], /Did you mean “org create”\?/],
  [['orgs', 'list'], /Did you mean “org list”\?/],
  [['key', 'rolll', '--hash', unknown], /Did you mean “key roll”\?/],
  [['docter'], /Did you mean “doctor”\?/],
  [['key'], /There is: key create, key list, key revoke, key roll\./],
  [['org', 'create', '--nmae', 'a'], /org create has no --nmae\. Did you mean --name\?/],
  [['key', 'roll', '--hash', unknown, '--overlap', '4'], /Did you mean --overlap-hours\?/],
]

for (const [args, meaning] of meanings)
  test(`exit 1 with what is meant: ${args.join(' ')}`, async t => {
    const { exitCode, stderr } = await plain(...args)
    t.is(exitCode, 1)
    t.regex(stderr, meaning)
    t.is(stderr.trimEnd().split('\n').length, 1)
  })

test('exit 0: user verify confirms an address as its link does', async t => {
  const { db } = gateway.services
  const user = await db.user.create({ data: { id: 'user_unconfirmed', email: 'new@example.com', name: 'New' } })
  const first = await gateway.services.keys.create(
    organisation,
    newKey.parse({ environment: 'test', ...firstKeyLimits }),
    { kind: 'user', id: user.id, name: user.email },
  )
  const { data } = await json<{ data: object }>('user', 'verify', '--email', 'New@example.com')
  t.like(data, { id: user.id, email_verified: true })
  t.like(await db.apiKey.findUniqueOrThrow({ where: { id: first.row.id } }), { rpmLimit: null, tpmLimit: null })
  const noted = await db.auditEvent.findMany({ where: { targetId: user.id } })
  t.like(noted, [{ action: 'user.verified', actorKind: 'operator' }])
  t.is((await plain('user', 'verify', '--email', 'nobody@example.com')).stderr, 'No such user.\n')
})

for (const args of [
  ['credit', 'add', '--org', 'org_none', '--usd', '5'],
  ['key', 'create', '--org', 'org_none', '--env', 'live'],
  ['key', 'list', '--org', 'org_none'],
  ['key', 'revoke', '--hash', unknown],
  ['key', 'roll', '--hash', unknown],
  ['provisioning-key', 'create', '--org', 'org_none'],
  ['provisioning-key', 'revoke', '--org', 'org_none'],
  ['webhook-secret', 'show', '--org', 'org_none'],
  ['webhook-secret', 'rotate', '--org', 'org_none'],
]) {
  test(`exit 1 for what is not there: ${args.slice(0, 2).join(' ')}`, async t => {
    const { command, flags } = parseCommand(args, commands)
    await t.throwsAsync(command.run(gateway.services, flags), { instanceOf: GatewayError, code: 'not_found' })
  })
}

test.serial('exit 1 with one line on stderr for what is not there', async t => {
  const { exitCode, stdout, stderr } = await spawned('key', 'revoke', '--hash', unknown, '--json')
  t.deepEqual({ exitCode, stdout, stderr }, { exitCode: 1, stdout: '', stderr: 'No such key.\n' })
})

test.serial('exit 1 within a moment, and not later, when a store is away', async t => {
  const away = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }
  const { exitCode, stdout, stderr } = await spawnOperator({ ...storesEnv(stores), ...away }, 'org', 'list')
  t.deepEqual({ exitCode, stdout }, { exitCode: 1, stdout: '' })
  t.not(stderr.trim(), '')
})

test.serial('exit 0 beside a development stack on the same DATA_DIR, 1 where there is none', async t => {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-operator-'))
  const alone = await runOperator({ DATA_DIR: dataDir }, 'org', 'list', '--json')
  t.like(alone, { exitCode: 1, stdout: '' })
  t.regex(alone.stderr, /^configuration: DATABASE_URL is not set.*\nconfiguration: REDIS_URL is not set.*\n$/)
  const { databaseUrl, redisUrl } = stores
  await writeFile(join(dataDir, devStackFile), JSON.stringify({ databaseUrl, redisUrl, port: 1, pid: 1 }))
  const beside = await spawnOperator({ DATA_DIR: dataDir }, 'org', 'list', '--json')
  t.like(beside, { exitCode: 0, stderr: '' })
  t.true(JSON.parse(beside.stdout).data.some(({ id }: { id: string }) => id === organisation))
})
