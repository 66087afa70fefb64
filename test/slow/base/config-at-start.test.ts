import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { startRedis } from '../../../dev/redis.ts'
import { inherited, redisBinaryDir, shortLived } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { useFolder } from '../../support/use.ts'

const root = join(import.meta.dirname, '../../..')
const stores = { DATABASE_URL: 'postgresql://user:hunter2@127.0.0.1:9/x', REDIS_URL: 'redis://127.0.0.1:9' }
const dataDir = useFolder(test)

type Ended = { code: number | null; stdout: string; stderr: string }

/** Runs a process to its end, which comes with SIGINT once its output has `last`. */
async function startAndEnd(args: string[], env: Record<string, string>, last?: string): Promise<Ended> {
  const child: ChildProcess = spawn(process.execPath, [...shortLived, ...args], {
    cwd: root,
    env: { ...inherited, DATA_DIR: dataDir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 100_000,
    killSignal: 'SIGKILL',
  })
  const ended = { code: null as number | null, stdout: '', stderr: '' }
  child.stdout!.on('data', part => {
    ended.stdout += part
  })
  child.stderr!.on('data', part => {
    ended.stderr += part
  })
  if (last !== undefined) {
    const look = () => void (`${ended.stdout}${ended.stderr}`.includes(last) && child.kill('SIGINT'))
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', look)
  }
  await once(child, 'close')
  ended.code = child.exitCode
  return ended
}

const entries: Record<string, string[]> = {
  web: ['api/server.ts'],
  worker: ['workers/main.ts'],
  operator: ['api/operator.ts', 'org', 'list', '--json'],
}

for (const [name, args] of Object.entries(entries)) {
  test(`exit 1 of ${name} with one line per fault`, async t => {
    const { code, stdout, stderr } = await startAndEnd(args, {
      PORT: '70000',
      LOG_LEVEL: 'loud',
      DATABASE_URL: 'mysql://user:hunter2@localhost/x',
      WEB_CONCURRENCY: 'many',
      SERVICE_MARGIN_PERCENT: '-5',
      OPENAI_BASE_URL: 'ftp://user:hunter2@localhost',
      OPENAI_API_KEY: 'sk-hunter2\nsecond line',
    })
    t.is(code, 1)
    t.is(stdout, '')
    const lines = stderr.trimEnd().split('\n')
    const variables = ['DATABASE_URL', 'LOG_LEVEL', 'OPENAI_API_KEY', 'OPENAI_BASE_URL', 'PORT', 'REDIS_URL']
    for (const line of lines) t.regex(line, /^configuration: (?:[A-Z_]+: |REDIS_URL is not set )/)
    t.deepEqual(lines.map(line => /[A-Z_]{2,}/.exec(line)![0]).sort(), [
      ...variables,
      'SERVICE_MARGIN_PERCENT',
      'WEB_CONCURRENCY',
    ])
    t.false(stderr.includes('hunter2'))
  })

  test(`exit 1 of ${name} with one line per fault of the model catalog`, async t => {
    const file = join(dataDir, `${name}.json`)
    const models = [{ id: 'mine', providers: [{ provider: 'nobody' }] }, { id: 'auto' }]
    await writeFile(file, JSON.stringify({ models }))
    const { code, stderr } = await startAndEnd(args, { ...stores, MODEL_CATALOG: file })
    t.is(code, 1)
    const lines = stderr.trimEnd().split('\n')
    t.true(lines.length > 5, stderr)
    for (const line of lines) t.regex(line, /^configuration: MODEL_CATALOG: \w+\.json: models\[(mine|auto)\]: /)
  })
}

test('exit 1 for a catalog that is not there', async t => {
  const { code, stderr } = await startAndEnd(entries.web!, { ...stores, MODEL_CATALOG: join(dataDir, 'absent.json') })
  t.is(code, 1)
  t.regex(stderr, /^configuration: MODEL_CATALOG: absent.json: cannot be read as JSON: [^\n]+\n$/)
})

for (const [name, args] of Object.entries(entries)) {
  test(`exit 1 of ${name} when the stores are away at the start, without their password`, async t => {
    const { code, stdout, stderr } = await startAndEnd(args, stores)
    t.is(code, 1)
    t.true(stdout.length + stderr.length > 0)
    t.false(`${stdout}${stderr}`.includes('hunter2'))
  })
}

test.serial('exit 1 at once when Redis refuses the password, and a warning where it evicts', async t => {
  const flags = ['--maxmemory-policy', 'allkeys-lru', '--appendonly', 'no']
  const folder = join(dataDir, 'redis-with-password')
  const redis = await startRedis({ dataDir: folder, binaryDir: redisBinaryDir, flags })
  t.teardown(redis.stop)
  const operator = new Redis(redis.url)
  await operator.config('SET', 'requirepass', 'right')
  operator.disconnect()
  const at = (user: string) => ({ ...stores, REDIS_URL: redis.url.replace('//', `//${user}`) })
  for (const [user, reason] of [
    [':hunter2@', 'WRONGPASS'],
    ['', 'NOAUTH'],
  ] as const) {
    const { code, stdout, stderr } = await startAndEnd(entries.web!, at(user))
    t.is(code, 1)
    t.regex(
      stderr,
      new RegExp(`^configuration: REDIS_URL: Redis refuses the user or the password: ${reason} [^\\n]+\\n$`),
    )
    t.true(stdout.split('Redis connection').length <= 2, 'it does not wait for Redis to change its mind')
    t.false(`${stdout}${stderr}`.includes('hunter2'))
  }
  const { stdout } = await startAndEnd(entries.web!, { ...at(':right@'), PORT: '0', LOG_LEVEL: 'warn' }, 'Redis evicts')
  t.regex(stdout, /Redis evicts keys \(maxmemory-policy allkeys-lru\)/)
})

test.serial('exit 1 with one line where the database client was not generated', async t => {
  const copy = join(dataDir, 'copy')
  const isGenerated = (path: string) => path.startsWith(join(root, 'shared/generated'))
  for (const part of ['api', 'workers', 'shared', 'package.json'])
    await cp(join(root, part), join(copy, part), { recursive: true, filter: path => !isGenerated(path) })
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
  for (const entry of ['api/server.ts', 'workers/main.ts', 'api/operator.ts']) {
    // What is compiled of a copy is of no use to a later start.
    const env = { ...stores, NODE_DISABLE_COMPILE_CACHE: '1' }
    const { code, stdout, stderr } = await startAndEnd([join(copy, entry)], env)
    t.deepEqual([code, stdout], [1, ''])
    t.is(stderr, 'headgate: the database client is missing: run `npx prisma generate`\n')
  }
})
