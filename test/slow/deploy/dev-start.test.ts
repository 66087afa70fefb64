import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addressOf } from '../../../dev/app.ts'
import { commandLine } from '../../../dev/processes.ts'
import { eventually } from '../../support/gateway.ts'
import { inherited } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { useStores } from '../../support/use.ts'

const root = join(import.meta.dirname, '../../..')
let dataDir: string

test.beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'headgate-dev-'))
})
test.afterEach.always(() => rm(dataDir, { recursive: true, force: true }))
const stores = useStores(test)

type Dev = { output(): string; ended: Promise<number | null>; kill(signal: NodeJS.Signals): void }

/** `npm run dev` on the data directory. */
function startDev(env: Record<string, string>): Dev {
  const child = spawn(process.execPath, ['dev/main.ts'], {
    cwd: root,
    env: { ...inherited, DATA_DIR: dataDir, PORT: '0', LOG_LEVEL: 'warn', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', part => {
      output += part
    })
  const ended = once(child, 'close').then(() => child.exitCode)
  return { output: () => output, ended, kill: signal => void child.kill(signal) }
}

/** The command lines of the processes that work in the data directory. */
async function leftBehind(): Promise<string[]> {
  const pids = (await readdir('/proc')).map(Number).filter(pid => pid > 0 && pid !== process.pid)
  return pids.map(pid => commandLine(pid) ?? '').filter(line => line.includes(dataDir))
}

test.serial(
  'one of two that start at the very same time starts, at HOST=::1; the other says so in one line',
  async t => {
    t.timeout(180_000)
    // The file of a killed run whose process id now belongs to another process.
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 60_000)', 'dev/main.ts'], {
      stdio: 'ignore',
    })
    t.teardown(() => stranger.kill())
    await writeFile(join(dataDir, 'dev.json'), JSON.stringify({ port: 1, pid: stranger.pid }))
    const env = { DATABASE_URL: stores.databaseUrl, REDIS_URL: stores.redisUrl, HOST: '::1' }
    const both = [startDev(env), startDev(env)]
    t.teardown(() => both.map(({ kill }) => kill('SIGKILL')))
    const loser = await Promise.race(
      both.map(async dev => ((await dev.ended) === 1 ? dev : Promise.reject(dev.output()))),
    )
    t.regex(loser.output(), /^headgate: already [^\n]+ on [^\n]+\n$/)
    const winner = both.find(dev => dev !== loser)!
    await eventually(() => winner.output().includes('Headgate is ready'), 'the other one starts', 120_000)
    const { port } = JSON.parse(await readFile(join(dataDir, 'dev.json'), 'utf8'))
    t.is((await fetch(`http://${addressOf('::1')}:${port}/readyz`)).status, 200)
    for (const phase of ['migrating the database', 'creating a demo organisation', 'starting the gateway'])
      t.true(winner.output().includes(`headgate: ${phase}`), phase)
    t.false(winner.output().includes('PUBLIC_URL is not set'))

    const third = startDev(env)
    t.is(await third.ended, 1)
    t.regex(
      third.output(),
      new RegExp(`^headgate: already running on [^\\n]+ at http://\\[::1\\]:${port} \\(process \\d+\\)\\n$`),
    )
    winner.kill('SIGINT')
    t.is(await winner.ended, 0)
    t.deepEqual(await leftBehind(), [])
    t.false(existsSync(join(dataDir, 'dev.json')))
  },
)

test.serial('stopped while PostgreSQL is being initialised: at once, and nothing is left running', async t => {
  const dev = startDev({ REDIS_URL: stores.redisUrl })
  t.teardown(() => dev.kill('SIGKILL'))
  await eventually(() => existsSync(join(dataDir, 'postgres.unfinished/PG_VERSION')), 'it is under way')
  dev.kill('SIGINT')
  t.is(await dev.ended, 0)
  t.regex(dev.output(), /^headgate: starting in [^\n]+; the first start takes about a minute\n(headgate: [^\n]+ …\n)+$/)
  t.false(existsSync(join(dataDir, 'postgres')), 'it did not wait for the end')
  await eventually(async () => (await leftBehind()).length === 0, 'what it started has ended')
})

test('127.0.0.1 or [::1] in a printed URL for a host of 0.0.0.0, ::, ::1', t => {
  const hosts = ['0.0.0.0', '::', '::1', '127.0.0.1', 'localhost', '192.0.2.7']
  t.deepEqual(hosts.map(addressOf), ['127.0.0.1', '[::1]', '[::1]', '127.0.0.1', 'localhost', '192.0.2.7'])
})
