import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { takeLease } from '../../../api/operator/apply/lease.ts'
import { settings } from '../../../shared/keys/keys.ts'
import { newSecret } from '../../../shared/keys/secret.ts'
import { Emulator } from '../../emulators/emulator.ts'
import { runOperator, storesEnv } from '../../support/operator.ts'
import { test } from '../../support/test.ts'
import { use, useFolder, useGateway } from '../../support/use.ts'

const labKey = 'sk-lab-key-of-the-file-7731'
const orgHeader = 'organisation-secret-9911'
const ciSecret = newSecret('svc_sk_live_').secret

const upstream = use(test, () =>
  Emulator.start((request, response) => {
    const isAccepted = !request.headers.authorization?.includes('wrong')
    response.writeHead(isAccepted ? 200 : 401, { 'content-type': 'application/json' })
    if (!isAccepted) return void response.end(JSON.stringify({ error: { message: 'Incorrect API key provided.' } }))
    if (request.method === 'GET') return void response.end(JSON.stringify({ data: [] }))
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
    const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
    response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, usage }))
  }),
)
const env = { ENCRYPTION_KEY: 'a key for the tests of apply files 6f2c' }
const gateway = useGateway(test, env)
const folder = useFolder(test)
const output = join(folder, 'secrets.json')

const variables = () => ({
  ...storesEnv({ databaseUrl: gateway.services.config.databaseUrl, redisUrl: gateway.services.config.redisUrl }),
  ...env,
  LAB_KEY: labKey,
  LAB_ORGANISATION: orgHeader,
  CI_SECRET: ciSecret,
  OPENAI_BASE_URL: `${upstream.url}/v1`,
})

/** Applies a text as a file. */
function apply(text: string, ...args: string[]) {
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, text)
  return runOperator(variables(), 'apply', '-f', file, ...args)
}

const whole = () => `
owner: production
providers:
  lab:
    base_url: ${upstream.url}/v1
provider_keys:
  lab: ["\${LAB_KEY}"]
models:
  lab-chat:
    supported_parameters: [tools]
    providers:
      - provider: lab
        upstream_model: served-model
        price: {unit: token, input: 0.25, output: 1}
        headers: {X-Organisation: "\${LAB_ORGANISATION}", x-team: search}
        parameters:
          set: {top_k: 20}
          default: {temperature: 0.2}
          remove: [user]
  gpt-4o:
    prices:
      openai: {unit: token, input: 3, output: 12.5, cached_input: 1.5}
aliases:
  lab-fast: lab-chat
organisations:
  acme:
    name: Acme
    keys:
      ci: {monthly_spend_cap_usd: 20, rpm_limit: 60, model_allowlist: [lab-chat], secret: "\${CI_SECRET}"}
      web: {environment: test, scopes: chat}
    presets:
      support: {model: lab-chat, temperature: 0.3, system: "You are kind."}
`

/** Everything that an apply may change. */
async function contents() {
  // Requests note when a key was last used.
  await gateway.settled()
  const { db } = gateway.services
  return {
    overrides: await db.catalogOverride.findMany({ orderBy: [{ kind: 'asc' }, { name: 'asc' }] }),
    settings: await db.setting.findMany({ where: { name: { not: 'store_generation:0' } }, orderBy: { name: 'asc' } }),
    organisations: await db.organisation.findMany({ orderBy: { id: 'asc' } }),
    keys: await db.apiKey.findMany({ orderBy: { id: 'asc' } }),
    presets: await db.preset.findMany({ include: { versions: true } }),
    applied: await db.appliedObject.findMany({ orderBy: { address: 'asc' } }),
    events: await db.auditEvent.findMany({ orderBy: { id: 'asc' } }),
  }
}

test.serial('exit 2 for a plan, which changes nothing and shows no secret', async t => {
  const before = await contents()
  for (const args of [['--dry-run'], []]) {
    const { exitCode, stdout } = await apply(whole(), ...args)
    t.is(exitCode, 2)
    t.regex(stdout, /\+ create {2}models\.lab-chat/)
    t.regex(stdout, /9 to create, 0 to change, 0 to delete, 0 unchanged/)
    for (const secret of [labKey, orgHeader, ciSecret]) t.false(stdout.includes(secret))
  }
  t.deepEqual(await contents(), before)
})

test.serial('exit 1 where a new key has no place for its secret, and nothing is changed', async t => {
  const before = await contents()
  const { exitCode, stderr } = await apply(whole(), '--yes')
  t.is(exitCode, 1)
  t.regex(stderr, /organisations\.acme\.keys\.web gets a new secret: name the file for it with --output/)
  t.deepEqual(await contents(), before)
})

test.serial('exit 0: all of a file is made, and the models, keys and headers work', async t => {
  const { exitCode, stdout, stderr } = await apply(whole(), '--yes', '--output', output)
  t.is(exitCode, 0, stderr)
  t.regex(stdout, /Applied\. The secrets of new keys are in/)
  for (const secret of [labKey, orgHeader, ciSecret]) t.false(stdout.includes(secret))
  t.is((await stat(output)).mode & 0o777, 0o600)
  const secrets = JSON.parse(readFileSync(output, 'utf8'))
  t.deepEqual(Object.keys(secrets), ['organisations.acme.keys.web'])
  t.false(stdout.includes(secrets['organisations.acme.keys.web']))

  const [acme] = await gateway.services.db.organisation.findMany({ where: { name: 'Acme' } })
  await runOperator(variables(), 'credit', 'add', '--org', acme!.id, '--usd', '5')
  await gateway.services.catalogOverrides.refresh()
  const body = { model: 'lab-fast', user: 'u1', messages: [{ role: 'user', content: 'Hi' }] }
  const answer = await gateway.fetch('/v1/chat/completions', { key: ciSecret, body })
  t.is(answer.status, 200)
  const sent = upstream.requests.at(-1)!
  t.like(sent.headers, { authorization: `Bearer ${labKey}`, 'x-organisation': orgHeader, 'x-team': 'search' })
  t.like(sent.body, { model: 'served-model', top_k: 20, temperature: 0.2, user: undefined })
  await gateway.fetch('/v1/chat/completions', { key: ciSecret, body: { ...body, temperature: 1, top_k: 3 } })
  t.like(upstream.requests.at(-1)!.body, { temperature: 1, top_k: 20 })
  const refused = await gateway.fetch('/v1/chat/completions', { key: ciSecret, body: { ...body, model: 'gpt-4o' } })
  t.is(refused.status, 403)
  const web = await gateway.fetch('/v1/chat/completions', { key: secrets['organisations.acme.keys.web'], body })
  t.is(web.status, 200)
  const stored = inspect(await contents(), { depth: null })
  for (const secret of [labKey, orgHeader, ciSecret])
    t.false(stored.includes(secret), 'sealed, hashed, and not in the audit log')
})

test.serial('exit 0 a second time, without changes: no row and no version differs', async t => {
  const before = await contents()
  const { exitCode, stdout } = await apply(whole(), '--yes')
  t.is(exitCode, 0)
  t.regex(stdout, /0 to create, 0 to change, 0 to delete, 9 unchanged\nNo changes\./)
  t.deepEqual(await contents(), before)
})

test.serial('what differs alone is changed, also what somebody changed by hand', async t => {
  const { db, keys } = gateway.services
  const [ci] = await db.apiKey.findMany({ where: { name: 'ci' } })
  const byHand = {
    rpm_limit: 5,
    tpm_limit: 7,
    denied_service_tiers: ['flex' as const],
    provider: { only: ['lab'] },
    own_keys: 'own' as const,
    cache: { ttl_s: 60 },
    guardrails: {
      detectors: [{ type: 'card' as const, action: 'block' as const, on: 'both' as const }],
      webhook: null,
      other_kinds: 'refuse' as const,
    },
    learning: false,
    expires_at: '2099-01-01T00:00:00.000Z',
  }
  await keys.patch(null, ci!.hash, byHand, { kind: 'operator', id: null, name: 'by hand' })
  const before = await contents()
  const changed = whole().replace('input: 3,', 'input: 3.5,').replace('0.3, system', '0.5, system')
  const { exitCode, stdout } = await apply(changed, '--yes')
  t.is(exitCode, 0)
  t.regex(stdout, /prices\.openai\.input: 3 → 3\.5/)
  t.regex(stdout, /rpm_limit: 5 → 60/)
  t.regex(stdout, /temperature: 0\.3 → 0\.5/)
  t.regex(stdout, /3 to change, 0 to delete, 6 unchanged/)
  const after = await contents()
  const kinds = (rows: typeof after.overrides) => rows.filter(({ kind }) => kind !== 'model')
  t.deepEqual(kinds(after.overrides), kinds(before.overrides))
  t.is(after.presets[0]!.current, 2)
  t.is(after.presets[0]!.versions.length, 2)
  const again = await db.apiKey.findUniqueOrThrow({ where: { id: ci!.id } })
  t.deepEqual(settings(again), settings(ci!), 'what the file does not say is its default')
  await apply(whole(), '--yes')
})

test.serial('a secret that changes rolls the key, whose history stays', async t => {
  const other = newSecret('svc_sk_live_').secret
  const file = join(folder, 'ci-secret')
  writeFileSync(file, `${other}\n`)
  const text = whole().replace(`"\${CI_SECRET}"`, '{file: ci-secret}')
  const { exitCode, stdout, stderr } = await apply(text, '--yes')
  t.is(exitCode, 0, stderr)
  t.regex(stdout, new RegExp(`secret: …${ciSecret.slice(-4)} → …${other.slice(-4)}`))
  const asked = (key: string) => gateway.fetch('/v1/models', { key })
  t.deepEqual([(await asked(ciSecret)).status, (await asked(other)).status], [401, 200])
  t.regex((await apply(text, '--yes')).stdout, /No changes/)
  await apply(whole(), '--yes')
})

test.serial('exit 1 for what the file did not make, which stays as it is', async t => {
  await runOperator(variables(), 'model', 'disable', '--model', 'gpt-4o-mini')
  const before = await contents()
  const text = `${whole()}\n`.replace('aliases:', '  gpt-4o-mini: {disabled: false}\naliases:')
  const byHand = await apply(text, '--yes')
  t.is(byHand.exitCode, 1)
  t.regex(byHand.stderr, /models\.gpt-4o-mini: it is already changed at run time, and not by a file/)
  const theirs = await apply('owner: staging\naliases: {lab-fast: gpt-4o}\n', '--yes')
  t.is(theirs.exitCode, 1)
  t.regex(theirs.stderr, /aliases\.lab-fast: it belongs to the file of the owner "production"/)
  t.deepEqual(await contents(), before)
})

test.serial('exit 1 for a key that its provider does not accept, and nothing is changed', async t => {
  const before = await contents()
  const text = whole().replace(`"\${LAB_KEY}"`, `"wrong-\${LAB_KEY}"`)
  const { exitCode, stderr } = await apply(text, '--yes')
  t.is(exitCode, 1)
  t.regex(stderr, /lab does not accept the API key: HTTP 401/)
  t.false(stderr.includes(labKey))
  t.deepEqual(await contents(), before)
})

test.serial('a run that was killed in between is continued by the next one', async t => {
  const { db } = gateway.services
  // As after a kill between the secret's file and the key: the secret is there, the key is not.
  const given = newSecret('svc_sk_test_').secret
  const secrets = { ...JSON.parse(readFileSync(output, 'utf8')), 'organisations.beta.keys.app': given }
  writeFileSync(output, JSON.stringify(secrets))
  // And its lease is not ended: it ends by itself.
  await db.setting.create({ data: { name: 'apply_lease', value: JSON.stringify({ holder: 'killed', until: 1 }) } })
  const text = 'owner: other\norganisations: {beta: {name: Beta, keys: {app: {environment: test}}}}\n'
  const { exitCode, stderr } = await apply(text, '--yes', '--output', output)
  t.is(exitCode, 0, stderr)
  t.is((await gateway.fetch('/v1/models', { key: given })).status, 200)
  // As after a kill between the note of an organisation and its key.
  await db.appliedObject.delete({
    where: { owner_address: { owner: 'other', address: 'organisations.beta.keys.app' } },
  })
  t.is(await db.organisation.count({ where: { name: 'Beta' } }), 1)
})

test.serial('applies at the same time run one after the other: the second one has nothing to do', async t => {
  const text = 'owner: together\norganisations: {gamma: {name: Gamma, keys: {app: {environment: test}}}}\n'
  writeFileSync(join(folder, 'together.yaml'), text)
  const run = () => runOperator(variables(), 'apply', join(folder, 'together.yaml'), '--yes', '--output', output)
  const both = await Promise.all([run(), run()])
  t.deepEqual(
    both.map(({ exitCode }) => exitCode),
    [0, 0],
    both.map(({ stderr }) => stderr).join(),
  )
  t.is(await gateway.services.db.organisation.count({ where: { name: 'Gamma' } }), 1)
  t.is(await gateway.services.db.setting.count({ where: { name: 'apply_lease' } }), 0)
  const lease = await takeLease(gateway.services, 1_000)
  await t.throwsAsync(takeLease(gateway.services, 0), { message: /Another process is applying a file/ })
  await gateway.services.db.setting.delete({ where: { name: 'apply_lease' } })
  await t.throwsAsync(lease.confirm(gateway.services.db), { message: /another one applies a file now/ })
  await lease.end()
})

test.serial('what is no longer in the file is kept, and deleted with --prune; an organisation stays', async t => {
  const { db } = gateway.services
  const less = `owner: production\nproviders: {lab: {base_url: "${upstream.url}/v1"}}\n`
  const kept = await apply(less, '--yes')
  t.is(kept.exitCode, 0)
  t.regex(kept.stdout, /= keep {4}models\.lab-chat/)
  t.regex(kept.stdout, /8 no longer in the file, kept: --prune deletes them\./)
  t.is(await db.catalogOverride.count({ where: { kind: 'row' } }), 1)
  const planned = await apply(less, '--prune')
  t.is(planned.exitCode, 2)
  t.regex(planned.stdout, /8 to delete, 1 unchanged/)
  const { exitCode, stderr } = await apply(less, '--prune', '--yes')
  t.is(exitCode, 0, stderr)
  t.deepEqual(
    (await db.catalogOverride.findMany({ orderBy: { kind: 'asc' } })).map(({ kind, name }) => `${kind} ${name}`),
    ['model gpt-4o-mini', 'provider lab'],
  )
  t.is((await gateway.fetch('/v1/models', { key: ciSecret })).status, 401)
  t.is(await db.preset.count(), 0)
  t.is(await db.organisation.count({ where: { name: 'Acme' } }), 1)
  t.deepEqual(
    (await db.appliedObject.findMany({ where: { owner: 'production' } })).map(({ address }) => address),
    ['providers.lab'],
  )
  t.regex((await apply(less, '--prune', '--yes')).stdout, /No changes/)
})

const faults: [text: string, message: RegExp][] = [
  ['aliases:\n  a: b\nprovders: {}\n', /line 3: provders: there is no such member; did you mean "providers"\?/],
  [
    'models:\n  gpt-4o:\n    disabld: true\n',
    /line 3: models\.gpt-4o\.disabld: there is no such member; did you mean "disabled"\?/,
  ],
  [
    'models: {gpt-4o: {prices: {openai: {unit: token, input: -1, output: 2}}}}\n',
    /line 1: models\.gpt-4o\.prices\.openai\.input/,
  ],
  ['provider_keys: {openai: ["sk-in-the-file"]}\n', /provider_keys\.openai\.0: must be a reference/],
  [`provider_keys: {openai: ["\${NOT_SET_HERE}"]}\n`, /NOT_SET_HERE is not set/],
  ['provider_keys: {openai: [{file: nowhere}]}\n', /nowhere cannot be read/],
  ['models: {gpt-4o: {requests: {openai: {headers: {Authorization: x}}}}}\n', /authorization.*credentials/i],
  [
    'models: {gpt-4o: {requests: {openai: {headers: {Connection: close}}}}}\n',
    /connection.*a header of the connection/i,
  ],
  ['models: {gpt-4o: {requests: {openai: {parameters: {set: {service_tier: priority}}}}}}\n', /service_tier/],
  ['organisations: {acme: {keys: {}}}\n', /organisations\.acme\.name: is required/],
  ['organisations: {acme: {id: org_none, keys: {}}}\n', /there is no organisation org_none/],
  [
    'organisations: {acme: {name: A, keys: {x: {rpm_limt: 3}}}}\n',
    /rpm_limt: there is no such member; did you mean "rpm_limit"\?/,
  ],
  ['a: [\n', /line 2|2:/],
  ['aliases: {fast: no-such-model}\n', /There is no model "no-such-model"/],
  [
    'models: {m: {providers: [{provider: nobody, upstream_model: m, price: {unit: token, input: 1, output: 1}}]}}\n',
    /There is no provider "nobody"/,
  ],
]

test.serial('exit 1 for a file with faults, with the place and what is meant; nothing is changed', async t => {
  const before = await contents()
  for (const [text, message] of faults) {
    const { exitCode, stderr } = await apply(text, '--yes')
    t.is(exitCode, 1, text)
    t.regex(stderr, message, text)
    t.false(stderr.includes('sk-in-the-file'))
  }
  t.deepEqual(await contents(), before)
  t.false(existsSync(join(folder, 'nothing')))
})
