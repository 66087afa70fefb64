import { Redis } from 'ioredis'
import { migrate } from '../../../dev/migrate.ts'
import { freePort } from '../../../dev/ports.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { breaches, observe, quiet, shoot } from '../../support/chaos.ts'
import { createAccount, startProcess } from '../../support/gateway.ts'
import { type Authority, type Certificate, createAuthority } from '../../support/io/certificates.ts'
import { runOperator } from '../../support/operator.ts'
import { clusterFlags, type PrivateServer, privatePostgres, privateRedis, serveAllSlots } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'
import { moneyEnvironment } from '../../support/wallet/money.ts'

const user = 'gateway'
const password = 'a password: of/redis@headgate'
/** As docs/deployment.md recommends. */
const rights = ['on', `>${password}`, '~gate:*', '&gate:*', '+@all', '-@dangerous', '+info', '+client|list']

let authority: Authority
let client: Certificate
let redis: PrivateServer
let postgres: PrivateServer
let url: string

let server: Certificate

/** A server that asks its clients for certificates, and its address over TLS. */
async function startTlsRedis(furtherFlags: readonly string[] = []): Promise<{ redis: PrivateServer; address: string }> {
  const port = await freePort()
  const flags = {
    'tls-port': String(port),
    'tls-cert-file': server.certFile,
    'tls-key-file': server.keyFile,
    'tls-ca-cert-file': authority.certFile,
    'tls-auth-clients': 'yes',
  }
  const redis = await privateRedis([
    ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]),
    ...furtherFlags,
  ])
  return { redis, address: `127.0.0.1:${port}` }
}

test.before(async () => {
  authority = await createAuthority()
  server = await authority.issue('server')
  client = await authority.issue('client')
  const [started, database] = await Promise.all([startTlsRedis(), privatePostgres()])
  redis = started.redis
  postgres = database
  await migrate(postgres.url)
  const admin = new Redis(redis.url)
  await admin.call('ACL', 'SETUSER', user, ...rights)
  admin.disconnect()
  url = `rediss://${user}:${encodeURIComponent(password)}@${started.address}`
})
test.after.always(async () => {
  await Promise.all([redis?.stop(), postgres?.stop()])
  await authority?.remove()
})

const settings = () => ({
  REDIS_KEY_PREFIX: 'gate:',
  REDIS_TLS_CA_FILE: authority.certFile,
  REDIS_TLS_CERT_FILE: client.certFile,
  REDIS_TLS_KEY: client.key,
})

/** Runs a web and a worker process, and asserts that requests are answered, booked and charged. */
async function assertServes(t: ExecutionContext, redisUrl: string, furtherEnv: Record<string, string>): Promise<void> {
  const upstream = await startOpenAiEmulator()
  t.teardown(() => upstream.close())
  const env = { ...(await moneyEnvironment(upstream.url)), ...furtherEnv }
  const stores = { databaseUrl: postgres.url, redisUrl }
  const services = await observe(stores, env)
  t.teardown(() => services.close())
  const processes = await Promise.all([startProcess('web', stores, env), startProcess('worker', stores, env)])
  t.teardown(() => Promise.all(processes.map(process => process.kill())))
  const { live } = await createAccount(services)
  const shots = await Promise.all([false, true].map(streamed => shoot(processes[0]!.url, live, streamed)))
  t.deepEqual(
    shots.map(({ status, whole }) => [status, whole]),
    [
      [200, true],
      [200, true],
    ],
  )
  await quiet(services)
  t.deepEqual(await breaches(services), [])
}

test.serial('requests are served and booked over TLS with a client certificate, as a user with its own keys', t =>
  assertServes(t, url, settings()),
)

test.serial('so are they by a cluster over TLS', async t => {
  const { redis, address } = await startTlsRedis(['--tls-cluster', 'yes', ...(await clusterFlags())])
  t.teardown(() => redis.stop())
  await serveAllSlots(redis)
  const { REDIS_KEY_PREFIX: _, ...tls } = settings()
  await assertServes(t, `rediss+cluster://${address}`, tls)
})

test.serial('doctor names what is wrong with a certificate, a user or a password', async t => {
  const findings = async (env: Record<string, string>) => {
    const { stdout, stderr } = await runOperator({ DATABASE_URL: postgres.url, REDIS_URL: url, ...env }, 'doctor')
    t.false(`${stdout}${stderr}`.includes('hunter2'))
    return stdout
  }
  t.regex(await findings(settings()), /^ok +redis +version/m)
  t.regex(await findings({}), /^failed +redis .*self-signed certificate/m)
  const { REDIS_TLS_CA_FILE } = settings()
  t.regex(await findings({ REDIS_TLS_CA_FILE }), /^failed +redis .*(?:certificate required|ECONNRESET|not ready)/m)
  const wrong = url.replace(encodeURIComponent(password), 'hunter2')
  t.regex(await findings({ ...settings(), REDIS_URL: wrong }), /^failed +redis +REDIS_URL: .*WRONGPASS/m)
  const half = await findings({ REDIS_TLS_CA_FILE, REDIS_TLS_KEY: client.key })
  t.regex(half, /^failed +configuration +REDIS_TLS_CERT is not set, but REDIS_TLS_KEY is/m)
})
