import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../dev/ports.ts'
import { cpuSeconds, tree } from './lib/proc.ts'
import { answersOk, listens, output, type Running, root, start, untilReady } from './lib/processes.ts'
import type { Behaviour } from './lib/request.ts'
import { openStores, type Stores } from './stores.ts'

/** A running thing to measure. `headers` are the lines its requests need. */
export type Subject = { name: string; port: number; headers: string[]; pids(): number[]; stop(): Promise<void> }

export type RigOptions = {
  behaviours: Behaviour[]
  /** Whether the gateway is among the subjects: the stores are started only then. */
  gateway: boolean
  /** Processors of the subject; null leaves it unpinned. */
  subjectProcessors: string | null
  /** Where CPU profiles of the gateway go; null for none. */
  profileFolder: string | null
}

type Launch = {
  command: string[]
  env?: NodeJS.ProcessEnv
  headers?: string[]
  readyPath?: string
}

const portkeyFolder = join(root, 'bench/peers/portkey')
const portkeyServer = join(portkeyFolder, 'node_modules/@portkey-ai/gateway/build/start-server.js')

/** The emulated upstream, the stores, and the subjects; everything but the subjects runs where this process is pinned. */
export class Rig {
  folder = ''
  stores: Stores | null = null
  readonly #options: RigOptions
  readonly #subjects = new Map<string, Subject>()
  #upstreamUrl = ''
  #upstream: Running | null = null
  #opening: Promise<void> | null = null

  constructor(options: RigOptions) {
    this.#options = options
  }

  /** Starts all but the subjects. Throws an Error when something does not start; `close` is due all the same. */
  open(): Promise<void> {
    this.#opening ??= this.#open()
    return this.#opening
  }

  async #open(): Promise<void> {
    this.folder = await mkdtemp(join(tmpdir(), 'headgate-bench-'))
    const port = await freePort()
    const logFile = join(this.folder, 'upstream.log')
    const command = [process.execPath, 'bench/upstream.ts', '--port', String(port)]
    this.#upstream = start(command, { logFile, processors: null })
    await untilReady(this.#upstream, logFile, () => listens(port))
    this.#upstreamUrl = `http://127.0.0.1:${port}`
    const { gateway, behaviours } = this.#options
    if (gateway) this.stores = await openStores(this.folder, this.#upstreamUrl, behaviours)
  }

  /** The subject of this name, started when it is first asked for. */
  async subject(name: string): Promise<Subject> {
    return this.#subjects.get(name) ?? this.start(name)
  }

  /** Starts a subject and waits until it can serve. Throws an Error for an unknown name. */
  async start(name: string): Promise<Subject> {
    const port = await freePort()
    const { command, env, headers = [], readyPath } = await this.#launch(name, port)
    const logFile = join(this.folder, `${name}.log`)
    const running = start(command, { logFile, processors: this.#options.subjectProcessors, ...(env && { env }) })
    await untilReady(running, logFile, () =>
      readyPath ? answersOk(`http://127.0.0.1:${port}${readyPath}`) : listens(port),
    )
    const stop = async () => {
      this.#subjects.delete(name)
      await running.stop()
    }
    const subject = { name, port, headers, pids: () => tree(running.child.pid!), stop }
    this.#subjects.set(name, subject)
    return subject
  }

  /** Stops and removes everything, also what is only just starting. */
  async close(): Promise<void> {
    await this.#opening?.catch(() => {}) // Who opened it hears of the failure.
    for (const subject of [...this.#subjects.values()]) await subject.stop()
    await this.#upstream?.stop()
    await this.stores?.stop()
    await rm(this.folder, { recursive: true, force: true })
  }

  async #launch(name: string, port: number): Promise<Launch> {
    const [kind, processes = '1'] = name.split('@')
    switch (kind) {
      case 'bare':
        return {
          command: [
            process.execPath,
            'bench/subjects/bare.ts',
            '--port',
            String(port),
            '--upstream',
            this.#upstreamUrl,
          ],
        }
      case 'gateway': {
        const { env, key } = this.stores!
        return {
          command: [process.execPath, '--max-semi-space-size=32', ...this.#profileFlags(), 'api/server.ts'],
          env: { ...env, PORT: String(port), WEB_CONCURRENCY: processes },
          headers: [`authorization: Bearer ${key}`],
          readyPath: '/readyz',
        }
      }
      case 'portkey':
        await installPortkey()
        return {
          command: [process.execPath, portkeyServer, '--headless', `--port=${port}`],
          env: { ...process.env, NODE_ENV: 'production' },
          headers: [
            'authorization: Bearer upstream',
            'x-portkey-provider: openai',
            `x-portkey-custom-host: ${this.#upstreamUrl}/v1`,
          ],
        }
      default:
        throw new Error(`unknown subject ${name}: bare, gateway, gateway@<web processes>, portkey`)
    }
  }

  #profileFlags(): string[] {
    const { profileFolder } = this.#options
    return profileFolder ? ['--cpu-prof', `--cpu-prof-dir=${profileFolder}`] : []
  }
}

async function installPortkey(): Promise<void> {
  if (existsSync(portkeyServer)) return
  console.error('installing the portkey peer into bench/peers/portkey')
  await output(['npm', 'install', '--prefix', portkeyFolder, '--no-package-lock', '--no-audit', '--no-fund'])
}

/** CPU seconds a subject has used so far. */
export function subjectCpuSeconds(subject: Subject): number {
  return cpuSeconds(subject.pids())
}
