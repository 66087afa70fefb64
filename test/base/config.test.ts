import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { startWarnings } from '../../api/start-warnings.ts'
import { type Config, ConfigError, loadConfig, nodeFault } from '../../shared/base/config.ts'
import { nearMisses } from '../../shared/base/near-misses.ts'
import { variables } from '../../shared/base/variables.ts'
import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'
import { useFolder } from '../support/use.ts'

const stores = { DATABASE_URL: 'postgresql://user:hunter2@127.0.0.1:9/x', REDIS_URL: 'redis://127.0.0.1:9' }
const dataDir = useFolder(test)

function load(env: Record<string, string>): Config {
  return loadConfig({ DATA_DIR: dataDir, ...env })
}

function faults(env: Record<string, string>): string[] {
  try {
    load(env)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.faults
    throw error
  }
}

test('faults: retention periods that end before what depends on them', t => {
  const stores = { DATABASE_URL: 'postgresql://x@h/x', REDIS_URL: 'redis://h' }
  t.deepEqual(faults({ ...stores, USAGE_RETENTION_MONTHS: '12' }), [
    'USAGE_RETENTION_MONTHS: must be at least GENERATION_RETENTION_MONTHS, which is 13',
  ])
  t.deepEqual(faults({ ...stores, JOB_RETENTION_DAYS: '30', RESULT_RETENTION_DAYS: '31' }), [
    'JOB_RETENTION_DAYS: must be at least RESULT_RETENTION_DAYS, which is 31',
  ])
  t.deepEqual(faults({ ...stores, USAGE_RETENTION_MONTHS: '13', JOB_RETENTION_DAYS: '7' }), [])
})

test('a Node that is too old is told so', t => {
  for (const version of ['20.20.2', '22.18.0', '23.11.1'])
    t.regex(nodeFault(version)!, /needs Node 24, and this is 2\d/)
  for (const version of ['24.0.0', '25.1.0', process.versions.node]) t.is(nodeFault(version), null)
})

/** What is set on ordinary machines, none of it for this service. */
const ordinary = {
  shell:
    'PATH HOME USER LOGNAME SHELL TERM LANG LC_ALL TZ PWD OLDPWD SHLVL EDITOR PAGER DISPLAY SSH_AUTH_SOCK XDG_DATA_DIRS XDG_RUNTIME_DIR HOSTNAME HOSTTYPE NODE_ENV NODE_OPTIONS NVM_DIR npm_config_registry INIT_CWD COLORTERM GPG_TTY LS_COLORS MAIL',
  github:
    'CI GITHUB_ACTIONS GITHUB_TOKEN GITHUB_API_URL GITHUB_SERVER_URL GITHUB_GRAPHQL_URL GITHUB_WORKSPACE GITHUB_RUN_ID RUNNER_OS RUNNER_TEMP RUNNER_TOOL_CACHE ACTIONS_CACHE_URL ACTIONS_RUNTIME_TOKEN ACTIONS_ID_TOKEN_REQUEST_URL ImageOS AGENT_TOOLSDIRECTORY JAVA_HOME ANDROID_HOME POSTGRES_URL',
  gitlab:
    'GITLAB_CI CI_API_V4_URL CI_JOB_TOKEN CI_REGISTRY_PASSWORD CI_PROJECT_URL CI_SERVER_HOST CI_SERVER_PORT CI_JOB_URL',
  heroku:
    'DYNO PORT DATABASE_URL REDIS_URL REDIS_TLS_URL HEROKU_APP_NAME HEROKU_SLUG_COMMIT WEB_CONCURRENCY WEB_MEMORY MEMORY_AVAILABLE SCHEDULER_URL PAPERTRAIL_API_TOKEN SENDGRID_API_KEY SENTRY_DSN NEW_RELIC_LICENSE_KEY DATADOG_API_KEY HEROKU_POSTGRESQL_AMBER_URL PGSSLMODE REDISCLOUD_URL',
  kubernetes:
    'KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT KUBERNETES_PORT_443_TCP_ADDR POD_NAME POD_IP REDIS_SERVICE_HOST REDIS_PORT POSTGRES_PASSWORD PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY GOOGLE_APPLICATION_CREDENTIALS HTTP_PROXY HTTPS_PROXY NO_PROXY',
  others:
    'OLLAMA_HOST OLLAMA_MODELS OPENAI_ORG_ID OPENAI_ORGANIZATION OPENAI_PROJECT_ID ANTHROPIC_MODEL ANTHROPIC_AUTH_TOKEN HF_TOKEN HUGGINGFACE_API_KEY COHERE_API_KEY LANGCHAIN_API_KEY GITHUB_API_KEY STRIPE_API_KEY STRIPE_PUBLISHABLE_KEY SYNC_URL LINEAR_API_KEY NOTION_API_KEY GROK_API_KEY SERPER_API_KEY VERCEL_URL NEXT_PUBLIC_URL',
}

test('a variable that nearly is one of ours is asked about, and no ordinary one', t => {
  const known = Object.keys(variables.shape)
  const providers = [...loadCatalog().providers.keys()]
  const meant = (...names: string[]) => nearMisses(names, known, providers)
  const typos: Record<string, string> = {
    OPENAI_APIKEY: 'OPENAI_API_KEY',
    OPENAI_KEY: 'OPENAI_API_KEY',
    ANTHROPIC_API_KEYS: 'ANTHROPIC_API_KEY',
    ANTROPIC_API_KEY: 'ANTHROPIC_API_KEY',
    OPENAPI_API_KEY: 'OPENAI_API_KEY',
    OPENAI_BASEURL: 'OPENAI_BASE_URL',
    OPENAI_API_BASE: 'OPENAI_BASE_URL',
    REPLICATE_API_TOKEN: 'REPLICATE_API_KEY',
    FAL_KEY: 'FAL_API_KEY',
    MAGIC_HOUR_KEY: 'MAGIC_HOUR_API_KEY',
    HEYGEN_WEBHOOKSECRET: 'HEYGEN_WEBHOOK_SECRET',
    DATABSE_URL: 'DATABASE_URL',
    ENCRYPTION_KEYS: 'ENCRYPTION_KEY',
    STORAGEURL: 'STORAGE_URL',
    WORKERS_CONCURRENCY: 'WORKER_CONCURRENCY',
    UPSTREAM_CONNECT_TIMEOUTS_MS: 'UPSTREAM_CONNECT_TIMEOUT_MS',
  }
  const found = Object.fromEntries(meant(...Object.keys(typos)))
  for (const [name, other] of Object.entries(typos)) t.is(found[name], other, name)
  t.deepEqual(meant('OPENAI_KEY', 'OPENAI_API_KEY'), [], 'what was meant is set')
  t.deepEqual(meant(...known), [])
  for (const [machine, names] of Object.entries(ordinary)) t.deepEqual(meant(...names.split(' ')), [], machine)
})

test('a name is near exactly when its letters differ by one, or by two in long names', t => {
  const known = ['LOG_LEVEL', 'DATABASE_URL', 'WEB_CONCURRENCY', 'UPSTREAM_MAX_PAUSE_MS']
  const edit = fc.record({ at: fc.nat(), letter: fc.constantFrom('A', 'E', '_'), how: fc.nat(3) })
  const edited = fc.tuple(fc.constantFrom(...known), fc.array(edit, { maxLength: 4 }))
  fc.assert(
    fc.property(edited, ([name, edits]) => {
      const letters = [...name]
      for (const { at, letter, how } of edits) {
        const i = at % letters.length
        if (how === 0) letters.splice(i, 1)
        else if (how === 1) letters.splice(i, 0, letter)
        else if (how === 2) letters[i] = letter
        else letters.splice(i, 2, ...letters.slice(i, i + 2).reverse())
      }
      const given = letters.join('')
      const meant = known.find(other => difference(given, other) <= (other.length > 12 ? 2 : 1))
      t.deepEqual(nearMisses([given], known, []), meant && meant !== given ? [[given, meant]] : [])
    }),
    { numRuns: fuzzRuns(500) },
  )
})

/** How many letters must be added, dropped, replaced or swapped with their neighbour, by trying everything. */
function difference(a: string, b: string, max = 4): number {
  if (a[0] !== undefined && a[0] === b[0]) return difference(a.slice(1), b.slice(1), max)
  if (a === '' || b === '' || max === 0) return a.length + b.length
  const isSwapped = a[0] === b[1] && a[1] === b[0]
  const ways: [string, string][] = [
    [a.slice(1), b],
    [a, b.slice(1)],
    [a.slice(1), b.slice(1)],
    ...(isSwapped ? [[a.slice(2), b.slice(2)] satisfies [string, string]] : []),
  ]
  return 1 + Math.min(...ways.map(([one, other]) => difference(one, other, max - 1)))
}

test('defaults and every variable by its documented name', t => {
  const plain = load(stores)
  t.like(plain, {
    port: 3000,
    publicUrl: 'http://localhost:3000',
    reachable: false,
    allowPrivateUrls: false,
    modelCatalog: null,
    marginPpm: 50_000n,
  })
  t.is(plain.embeddingsSurchargePpm, 25_000n)
  t.is(plain.providers.size, 0)
  const set = load({
    ...stores,
    PORT: '8080',
    PUBLIC_URL: 'https://gateway.example.com',
    WEB_CONCURRENCY: '4',
    WORKER_CONCURRENCY: '7',
    LOG_LEVEL: 'debug',
    ALLOW_PRIVATE_URLS: 'true',
    SERVICE_MARGIN_PERCENT: '0',
  })
  t.like(set, {
    port: 8080,
    publicUrl: 'https://gateway.example.com',
    reachable: true,
    webConcurrency: 4,
    workerConcurrency: 7,
  })
  t.like(set, { logLevel: 'debug', allowPrivateUrls: true, marginPpm: 0n })
})

test('the memory for bodies is a sixth of the heap, 20 to 512 MiB', async t => {
  const config = JSON.stringify(join(import.meta.dirname, '../../shared/base/config.ts'))
  const script = `const { loadConfig } = await import(${config})
    console.log(loadConfig(process.env).maxBodyBytes / 2 ** 20)`
  const defaultMib = async (heapMib: number) => {
    const size = [`--max-old-space-size=${heapMib}`, '--max-semi-space-size=1']
    const flags = [...size, '--input-type=module', '--eval', script]
    const { stdout } = await promisify(execFile)(process.execPath, flags, { env: { ...stores, DATA_DIR: dataDir } })
    return Number(stdout)
  }
  const [small, usual, large] = await Promise.all([60, 1_200, 8_000].map(defaultMib))
  t.deepEqual([small, large], [20, 512])
  t.true(usual! >= 200 && usual! < 220)
})

test('an empty variable is as good as none', t => {
  t.is(load({ ...stores, PORT: '', PUBLIC_URL: '', OPENAI_API_KEY: '' }).port, 3000)
  t.deepEqual(faults({ DATABASE_URL: '', REDIS_URL: '' }).length, 2)
})

test('providers: several keys are a list, a base URL has no trailing slash', t => {
  const { providers } = load({
    ...stores,
    OPENAI_API_KEY: ' a , b,',
    OLLAMA_BASE_URL: 'http://localhost:11434/v1//',
    HEYGEN_WEBHOOK_SECRET: 'signed with',
  })
  t.like(providers.get('openai'), { apiKeys: ['a', 'b'], baseUrl: null, webhookSecret: null })
  t.like(providers.get('ollama'), { apiKeys: [], baseUrl: 'http://localhost:11434/v1', webhookSecret: null })
  t.like(providers.get('heygen'), { apiKeys: [], baseUrl: null, webhookSecret: 'signed with' })
  for (const key of ['ключ', 'a b', 'a\tb']) t.is(faults({ ...stores, GROQ_API_KEY: key }).length, 1, key)
})

test('a variable is read from the file that its name with _FILE names', async t => {
  const file = join(dataDir, 'secret')
  await writeFile(file, 'sk-first,sk-second\n')
  const [url, empty, large] = ['url', 'empty', 'large'].map(name => join(dataDir, name)) as [string, string, string]
  await writeFile(url, `${stores.DATABASE_URL}\r\n`)
  await writeFile(empty, '\n')
  await writeFile(large, 'x'.repeat(64 * 1024 + 1))

  const config = load({ REDIS_URL: stores.REDIS_URL, DATABASE_URL_FILE: url, OPENAI_API_KEY_FILE: file })
  t.is(config.databaseUrl, stores.DATABASE_URL)
  t.deepEqual(config.providers.get('openai')?.apiKeys, ['sk-first', 'sk-second'])

  const absent = join(dataDir, 'absent')
  const given = {
    SIGNING_SECRET_FILE: absent,
    SMTP_URL_FILE: empty,
    ENCRYPTION_KEY_FILE: large,
    GROQ_API_KEY_FILE: dataDir,
  }
  const found = faults({ ...stores, ...given, PORT: '80', PORT_FILE: file })
  t.deepEqual(found.sort(), [
    `ENCRYPTION_KEY_FILE: the file ${large} is larger than 64 kB`,
    `GROQ_API_KEY_FILE: ${dataDir} is not a file`,
    'PORT_FILE: PORT is set, too; set one of them',
    `SIGNING_SECRET_FILE: ENOENT: no such file or directory, stat '${absent}'`,
    `SMTP_URL_FILE: the file ${empty} is empty`,
  ])
  t.deepEqual(faults({ ...stores, SSL_CERT_FILE: absent, NODE_FILE: absent }), [])
  t.true(load({ ...stores, PORT: '8000', PORT_FILE: '' }).port === 8000)
})

test('invalid: one fault for each wrong value', t => {
  const wrong: [string, string[]][] = [
    ['PORT', ['-1', '65536', 'http', '1.5']],
    ['WEB_CONCURRENCY', ['0', '65', 'x']],
    ['WORKER_CONCURRENCY', ['0', '1001']],
    ['STORAGE_URL', ['bucket', 'http://x']],
    ['SIGNING_SECRET', ['short']],
    ['RESULT_RETENTION_DAYS', ['0', '366']],
    ['JOB_DEADLINE_MINUTES', ['0', '1441']],
    ['PUBLIC_URL', ['gateway.example.com', 'ftp://x']],
    ['DATABASE_URL', ['localhost', 'mysql://x']],
    ['REDIS_URL', ['localhost:6379', 'http://x']],
    ['REDIS_KEY_PREFIX', ["it's", 'a b', 'a*', '{}:', '{a', 'a}', '{a}{b}', 'ключ:', 'a\n', 'a'.repeat(65)]],
    ['LOG_LEVEL', ['verbose']],
    ['ALLOW_PRIVATE_URLS', ['yes', 'TRUE']],
    ['SERVICE_MARGIN_PERCENT', ['five', '-1', '1000', '1.23456', '5%']],
    ['UPSTREAM_CONNECT_TIMEOUT_MS', ['0', '600001']],
    ['SHUTDOWN_DRAIN_MS', ['-1', '600001']],
    ['SHUTDOWN_GRACE_MS', ['0', 'soon']],
    ['KEEP_ALIVE_TIMEOUT_MS', ['0']],
  ]
  for (const [variable, values] of wrong) {
    for (const value of values) {
      const found = faults({ ...stores, [variable]: value })
      t.is(found.length, 1, `${variable}=${value}`)
      t.true(found[0]!.startsWith(`${variable}: `), found[0])
    }
  }
})

const strong = 'b3lUuJ0qWv2m1Hq5cZ8xRk7TtYpNs4Ea'
const open = { ...stores, PUBLIC_URL: 'https://gateway.example.com' }

test('a fault for the outbox of development where others reach the gateway, and none on this machine', t => {
  const outbox = { DEV_OUTBOX: 'true', SIGNING_SECRET: 'a'.repeat(32) }
  for (const url of ['https://gateway.example.com', 'http://192.168.1.5:3000', 'http://localhost.example.com']) {
    const [first, second] = faults({ ...stores, ...outbox, PUBLIC_URL: url }).sort()
    t.regex(first!, /^DEV_OUTBOX: shows everyone the links of emails/)
    t.regex(second!, /^SIGNING_SECRET: is easy to guess/)
  }
  for (const url of ['http://localhost:3000', 'http://127.0.0.1:3000', 'http://[::1]:3000', 'https://gw.localhost', ''])
    t.deepEqual(faults({ ...stores, ...outbox, PUBLIC_URL: url }), [], url)
})

test('a fault for a secret that is easy to guess where others reach the gateway; never with the secret in it', t => {
  const weak = [
    'a'.repeat(32),
    'ab'.repeat(20),
    'changeme'.repeat(4),
    '0123456789abcdef'.repeat(2),
    'z'.repeat(31) + strong[0],
  ]
  weak.push(
    'abcdefghijklmnopqrstuvwxyz012345',
    'your-secret-key-here-your-secret-key',
    'please-change-this-secret-in-production',
  )
  for (const name of ['ENCRYPTION_KEY', 'SIGNING_SECRET'])
    for (const value of weak) {
      const [fault, ...more] = faults({ ...open, [name]: value })
      t.true(fault?.startsWith(`${name}: is easy to guess`), value)
      t.false(fault!.includes(value))
      t.deepEqual(more, [])
    }
  for (const encoding of ['hex', 'base64', 'base64url'] as const)
    for (let n = 0; n < 200; n++)
      t.deepEqual(faults({ ...open, ENCRYPTION_KEY: randomBytes(24).toString(encoding) }), [])
  t.deepEqual(faults({ ...open, ENCRYPTION_KEY: `${strong},${'a'.repeat(32)}` }), [], 'one that is being replaced')
})

test('a warning for what is unsafe where others reach the gateway, and none on this machine', t => {
  const catalog = loadCatalog()
  const settings = {
    ENCRYPTION_KEY: strong,
    SMTP_URL: 'smtp://mail.example.com',
    ALLOW_PRIVATE_URLS: 'true',
    DYNO: 'web.1',
    STRIPE_SECRET_KEY: 'sk_test_x',
    STRIPE_WEBHOOK_SECRET: 'whsec_x',
  }
  const warnings = (more: Record<string, string>) =>
    startWarnings(load({ ...stores, ...settings, ...more }), catalog).map(line => line.split(' ')[0])
  const { PUBLIC_URL } = open
  const unsafe = ['ALLOW_PRIVATE_URLS', 'TRUSTED_PROXIES', 'STRIPE_SECRET_KEY', 'STORAGE_URL']
  t.deepEqual(warnings({ PUBLIC_URL }), unsafe)
  t.deepEqual(warnings({ PUBLIC_URL: 'http://192.168.1.5' }), unsafe.with(1, 'PUBLIC_URL'))
  t.deepEqual(warnings({ PUBLIC_URL: 'http://localhost:3000' }), [])
  const safe = {
    ALLOW_PRIVATE_URLS: 'false',
    TRUSTED_PROXIES: '1',
    STRIPE_SECRET_KEY: 'sk_live_x',
    STORAGE_URL: 's3://x',
  }
  t.deepEqual(warnings({ PUBLIC_URL, ...safe }), [])
})

test('a development stack on the same DATA_DIR fills in the stores', async t => {
  const folder = await mkdtemp(join(dataDir, 'stack-'))
  await writeFile(
    join(folder, 'dev.json'),
    JSON.stringify({ databaseUrl: stores.DATABASE_URL, redisUrl: stores.REDIS_URL, redisKeyPrefix: 'dev:' }),
  )
  t.is(loadConfig({ DATA_DIR: folder }).redisKeyPrefix, 'dev:')
  t.is(loadConfig({ DATA_DIR: folder }).redisUrl, stores.REDIS_URL)
  t.is(loadConfig({ DATA_DIR: folder, REDIS_URL: 'redis://other' }).redisUrl, 'redis://other')
})
