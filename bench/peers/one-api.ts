import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { output, root } from '../lib/processes.ts'
import { litellmPackage } from './litellm.ts'
import type { Peer } from './peer.ts'

const version = 'v0.6.10'
const build = join(root, 'bench/peers/one-api/build')
const program = join(build, 'one-api')
const database = 'one_api'
/** Redis' database of its own. */
const redisDatabase = 9
const accessToken = 'a'.repeat(32)
const token = 'b'.repeat(48)
const quota = 100_000_000_000
const openAiChannel = 1
/** After so long it uses a channel that was added. */
const syncS = 10
const servesWithinMs = 60_000

/**
 * One API, from Go's module proxy, built here without its pages. It is governed: a key with a quota, whose charge and log row it
 * writes into PostgreSQL; no limits per minute, no monthly cap. It counts prompts by tiktoken, whose tables it fetches at its start
 * unless LiteLLM, which has them, is installed.
 */
export const oneApi: Peer = {
  async install() {
    if (existsSync(program)) return
    console.error('building the peer one-api')
    mkdirSync(build, { recursive: true })
    const module = ['go', '-C', build, 'mod', 'download', '-json', `github.com/songquanpeng/one-api@${version}`]
    const { Dir } = JSON.parse(await output(module)) as { Dir: string }
    const source = join(build, 'source')
    cpSync(Dir, source, { recursive: true })
    await output(['chmod', '-R', 'u+w', source])
    for (const theme of ['default', 'berry', 'air']) {
      mkdirSync(join(source, 'web/build', theme), { recursive: true })
      writeFileSync(join(source, 'web/build', theme, 'index.html'), '<!doctype html>')
    }
    await output(['go', '-C', source, 'build', '-o', program, '.'])
  },
  async launch({ port, upstreamUrl, models, databaseUrl, redisUrl, folder }) {
    await createDatabase(databaseUrl)
    const dsn = new URL(databaseUrl)
    dsn.pathname = `/${database}`
    const tables = await litellmPackage()
    const call = async (path: string, method: string, body: object) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        method,
        headers: { authorization: accessToken, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const { success, message } = (await response.json()) as { success: boolean; message: string }
      if (!success) throw new Error(`One API: ${method} ${path}: ${message}`)
    }
    return {
      command: [program, '--port', String(port), '--log-dir', folder],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        GIN_MODE: 'release',
        SQL_DSN: dsn.href.replace('postgresql:', 'postgres:'),
        SQL_MAX_OPEN_CONNS: '50',
        REDIS_CONN_STRING: `${redisUrl}/${redisDatabase}`,
        SYNC_FREQUENCY: String(syncS),
        MEMORY_CACHE_ENABLED: 'true',
        BATCH_UPDATE_ENABLED: 'true',
        GLOBAL_API_RATE_LIMIT: '1000000000',
        INITIAL_ROOT_ACCESS_TOKEN: accessToken,
        INITIAL_ROOT_TOKEN: token,
        ...(tables !== null && { TIKTOKEN_CACHE_DIR: join(tables, 'litellm_core_utils/tokenizers') }),
      },
      headers: [`authorization: Bearer sk-${token}`],
      readyPath: '/api/status',
      async prepare() {
        const ratios = JSON.stringify(Object.fromEntries(models.map(model => [model, 0.075])))
        await call('/api/option/', 'PUT', { key: 'ModelRatio', value: ratios })
        await call('/api/token/', 'PUT', {
          id: 1,
          name: 'bench',
          status: 1,
          expired_time: -1,
          remain_quota: quota,
          unlimited_quota: false,
        })
        const channel = { type: openAiChannel, key: 'upstream', name: 'bench', base_url: upstreamUrl, group: 'default' }
        await call('/api/channel/', 'POST', { ...channel, models: models.join(',') })
        await untilServed(`http://127.0.0.1:${port}/v1/chat/completions`, models[0]!)
      },
    }
  },
}

async function untilServed(url: string, model: string): Promise<void> {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] })
  const headers = { authorization: `Bearer sk-${token}`, 'content-type': 'application/json' }
  for (const deadline = Date.now() + servesWithinMs; ; await sleep(500)) {
    const response = await fetch(url, { method: 'POST', headers, body })
    const text = await response.text()
    if (response.ok) return
    if (Date.now() > deadline) throw new Error(`One API does not serve: ${text.slice(0, 300)}`)
  }
}

async function createDatabase(url: string): Promise<void> {
  const db = new pg.Client({ connectionString: url })
  await db.connect()
  try {
    const { rowCount } = await db.query('SELECT 1 FROM pg_database WHERE datname = $1', [database])
    if (rowCount === 0) await db.query(`CREATE DATABASE ${database}`)
  } finally {
    await db.end()
  }
}
