import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { freePort } from '../../../dev/ports.ts'
import { Emulator } from '../../emulators/emulator.ts'
import { plainChatReply } from '../../support/api/edge.ts'
import { call, eventually } from '../../support/gateway.ts'
import { freshRedis, inherited, privatePostgres } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'

/** The commands of docs/deployment.md, in its order, on stores that have nothing yet. `restore.test.ts` has backup and restore. */

const root = join(import.meta.dirname, '../../..')
const page = readFileSync(join(root, 'docs/deployment.md'), 'utf8')
const startWithinMs = 120_000

type Installation = { env: NodeJS.ProcessEnv; url: string; metricsUrl: string; workerMetricsPort: number }

function spawnCommand(env: NodeJS.ProcessEnv, command: string): ChildProcess {
  // Nothing but a shell knows what `npm` is there; a group of its own, so that all of it can be stopped.
  return spawn('sh', ['-c', command], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
}

/** Runs a command that the page has, with further arguments, and gives what it printed. */
async function run(t: ExecutionContext, { env }: Installation, command: string, args = ''): Promise<string> {
  t.true(page.includes(command), `docs/deployment.md does not have: ${command}`)
  const child = spawnCommand(env, `${command} ${args}`)
  const [[code], stdout, stderr] = await Promise.all([once(child, 'close'), text(child.stdout!), text(child.stderr!)])
  t.is(code, 0, `${command}: ${stdout}${stderr}`)
  return stdout.trim()
}

/** Starts a process by a command of the page; gives its output and the function that stops it with SIGTERM. */
async function start(t: ExecutionContext, { env }: Installation, command: string, checks: (() => Promise<boolean>)[]) {
  t.true(page.includes(command))
  const answering = async () => (await Promise.all(checks.map(check => check()))).filter(Boolean).length
  const child = spawnCommand(env, command)
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', part => (output += part))
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      process.kill(-child.pid!, 'SIGTERM')
      await ended
    }
    // npm may end before the process that it started.
    await eventually(async () => (await answering()) === 0, `${command} has ended`, startWithinMs)
  }
  t.teardown(stop)
  await eventually(
    async () => child.exitCode !== null || (await answering()) === checks.length,
    `${command} is up`,
    startWithinMs,
  )
  t.is(child.exitCode, null, output)
  return { stop, output: () => output }
}

const answers = (url: string, expected: RegExp) => () =>
  fetch(url).then(
    async response => response.ok && expected.test(await response.text()),
    () => false,
  )

async function install(t: ExecutionContext): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-path-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [postgres, redis, upstream] = await Promise.all([
    privatePostgres(),
    freshRedis(),
    Emulator.start(plainChatReply),
  ])
  t.teardown(async () => {
    await Promise.all([postgres.stop(), redis.release(), upstream.close()])
  })
  const [port, metricsPort, workerMetricsPort] = [await freePort(), await freePort(), await freePort()]
  const url = `http://127.0.0.1:${port}`
  const env = {
    ...inherited,
    PATH: `${dirname(process.execPath)}:${inherited.PATH}`,
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    STORAGE_URL: `file:${folder}`,
    PORT: String(port),
    HOST: '127.0.0.1',
    PUBLIC_URL: url,
    LOG_LEVEL: 'debug',
    SIGNING_SECRET: 'a signing secret of the operator’s path',
    ENCRYPTION_KEY: 'an encryption key of the operator’s path',
    OPENAI_API_KEY: 'sk-upstream',
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    METRICS_PORT: String(metricsPort),
  }
  return { env, url, metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`, workerMetricsPort }
}

test('from an empty database to the first call, metrics, a restart, prune and the ledger check', async t => {
  t.timeout(600_000)
  const installation = await install(t)
  const { env, url, metricsUrl, workerMetricsPort: port } = installation
  const operator = (args: string) => run(t, installation, 'npm run -s operator --', args)

  await run(t, installation, 'npm run migrate')
  const workerInstallation = { ...installation, env: { ...env, METRICS_PORT: String(port) } }
  const startWeb = () =>
    start(t, installation, 'npm start', [answers(`${url}/readyz`, /./), answers(metricsUrl, /headgate_/)])
  const startWorker = () =>
    start(t, workerInstallation, 'npm run start:worker', [answers(`http://127.0.0.1:${port}/metrics`, /headgate_/)])
  const web = await startWeb()
  const worker = await startWorker()

  const person = { name: 'Ada', email: 'ada@example.com', password: 'a long enough password' }
  const signedUp = await fetch(`${url}/dashboard/api/auth/sign-up/email`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: url },
    body: JSON.stringify(person),
  })
  t.is(signedUp.status, 200, await signedUp.text())
  // Without a mail server the link is in the log, as the page says.
  const link = () => /"link":"([^"]+)"/.exec(web.output())?.[1]
  await eventually(() => link() !== undefined, 'the link of the email is logged')
  // The page behind the link calls this.
  const token = /token=([^&]+)/.exec(link()!)![1]
  t.is((await fetch(`${url}/dashboard/api/auth/verify-email?token=${token}`)).status, 200)
  await run(t, installation, 'npm run -s operator -- user promote --email', person.email)
  const doctor = await run(t, installation, 'npm run -s operator -- doctor')
  t.notRegex(doctor, /^failed/m)

  const org = await operator('org create --name Example')
  await operator(`credit add --org ${org} --usd 25`)
  const key = await operator(`key create --org ${org} --env live`)
  const ask = async () => {
    const messages = [{ role: 'user', content: 'Hello' }]
    const body = { model: 'gpt-4o-mini', max_tokens: 10, messages }
    const response = await call(url, '/v1/chat/completions', { key, body })
    t.is(response.status, 200, await response.text())
  }
  await ask()
  t.is((await fetch(`${url}/dashboard`)).status, 200)
  t.true(await answers(metricsUrl, /^headgate_requests_total\{[^}]*\} 1$/m)())

  // An upgrade, as the page has it: migrations, workers, webs.
  await run(t, installation, 'npm run migrate')
  await worker.stop()
  await startWorker()
  await web.stop()
  await startWeb()
  await ask()
  t.regex(await operator('prune --dry-run'), /^rows +size +table +what$/m)
  t.notRegex(await operator('ledger check'), /BREACH/)
})
