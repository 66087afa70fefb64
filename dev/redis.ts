import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { startDaemon } from './daemon.ts'
import { inUrl, loopback, onFreePort } from './ports.ts'
import { stopOrphan } from './processes.ts'
import { findRedis } from './redis-binary.ts'

export type RedisServer = {
  url: string
  exited: Promise<string>
  stop(): Promise<void>
  /** Ends the server at once (SIGKILL). */
  kill(): Promise<void>
}

export type RedisOptions = {
  dataDir: string
  /** Folder of the unpacked server, if none is installed; default `<dataDir>/redis-bin`. */
  binaryDir?: string
  /** Further command line options of redis-server. */
  flags?: string[]
  /** Added to the environment of the server. */
  env?: NodeJS.ProcessEnv
}

const answerWithinMs = 1_000

/**
 * Starts a private Redis on a loopback port, with its data in `<dataDir>/redis`, kept between runs. A server left over
 * from a killed run is stopped first. Throws an Error saying why it cannot be started.
 */
export async function startRedis({ dataDir, binaryDir, flags = [], env = {} }: RedisOptions): Promise<RedisServer> {
  const root = resolve(dataDir)
  const directory = join(root, 'redis')
  const stateFile = join(root, 'redis.json')
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const binary = await findRedis(resolve(binaryDir ?? join(root, 'redis-bin')))
  const earlier = await readState(stateFile)
  if (earlier?.pid)
    await stopOrphan(earlier.pid, 'SIGTERM', line => line.includes(`-server ${loopback()}:${earlier.port}`))
  return onFreePort(earlier?.port, async port => {
    const { pid, exited, stop, kill } = await startDaemon({
      name: 'Redis',
      command: binary.file,
      args: [...serverFlags(port, directory), ...flags],
      spawn: { env: { ...binary.env, ...env } },
      logFile: join(root, 'redis.log'),
      stopSignal: 'SIGTERM',
      isReady: () => answersPing(port),
    })
    await writeFile(stateFile, JSON.stringify({ port, pid }), { mode: 0o600 })
    return { url: `redis://${inUrl(loopback())}:${port}`, exited, stop, kill }
  })
}

function serverFlags(port: number, directory: string): string[] {
  const settings = {
    port: String(port),
    bind: loopback(),
    dir: directory,
    databases: '256',
    appendonly: 'yes',
    appendfsync: 'everysec',
    save: '',
    'maxmemory-policy': 'noeviction', // BullMQ loses jobs under any other policy.
  }
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
}

async function readState(file: string): Promise<{ port: number; pid: number } | null> {
  return readFile(file, 'utf8')
    .then(JSON.parse)
    .catch(() => null) // The first start, or a truncated file.
}

/** True once the server has loaded its data: until then it answers -LOADING. */
async function answersPing(port: number): Promise<boolean> {
  const socket = connect(port, loopback()).setTimeout(answerWithinMs, () => socket.destroy())
  try {
    socket.on('connect', () => socket.write('PING\r\n'))
    const [answer] = await Promise.race([once(socket, 'data'), once(socket, 'close')])
    return String(answer).startsWith('+PONG')
  } catch {
    return false // Not listening yet.
  } finally {
    socket.destroy()
  }
}
