import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { freePort } from '../dev/ports.ts'
import { cpuSeconds, tree } from './lib/proc.ts'
import { answersOk, commandOf, listens, type Running, root, start, untilReady } from './lib/processes.ts'
import { type Behaviour, slugOf } from './lib/request.ts'
import type { Launch } from './peers/peer.ts'
import { peers } from './peers/peers.ts'
import { openStores, type Stores } from './stores.ts'

/** A running thing to measure. `headers` are the lines its requests need. */
export type Subject = { name: string; port: number; headers: string[]; pids(): number[]; stop(): Promise<void> }

export type RigOptions = {
  behaviours: Behaviour[]
  /** Processors of the subject; null leaves it unpinned. */
  subjectProcessors: string | null
  /** Where CPU profiles of the gateway go; null for none. */
  profileFolder: string | null
  /** A module that gateways load before their own. */
  preload?: string
}

/** Whether a subject of this name is the gateway, of whatever checkout. */
export function isGateway(name: string): boolean {
  return /^gateway\b/.test(name)
}

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

  /** Starts all but the subjects, once. Throws an Error when something does not start; `close` is due all the same. */
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
    this.stores = await openStores(this.folder, this.#upstreamUrl, this.#options.behaviours)
  }

  /** The subject of this name, started when it is first asked for. */
  async subject(name: string): Promise<Subject> {
    return this.#subjects.get(name) ?? this.start(name)
  }

  /** Starts a subject and waits until it can serve. Throws an Error for an unknown name. */
  async start(name: string): Promise<Subject> {
    await this.open()
    const port = await freePort()
    const { command, env, headers = [], readyPath, prepare } = await this.#launch(name, port)
    const logFile = join(this.folder, `${name.replaceAll(/\W/g, '_')}.log`)
    const running = start(command, { logFile, processors: this.#options.subjectProcessors, ...(env && { env }) })
    await untilReady(running, logFile, () =>
      readyPath ? answersOk(`http://127.0.0.1:${port}${readyPath}`) : listens(port),
    )
    await prepare?.()
    const stop = async () => {
      this.#subjects.delete(name)
      await running.stop()
    }
    const subject = { name, port, headers, pids: () => tree(running.child.pid!), stop }
    this.#subjects.set(name, subject)
    return subject
  }

  /** Every process on the load's side: this one and what it started, but for the subjects. */
  loadPids(): number[] {
    const subjects = new Set([...this.#subjects.values()].flatMap(subject => subject.pids()))
    return tree(process.pid).filter(pid => !subjects.has(pid))
  }

  /** Stops and removes everything, also what is only just starting. */
  async close(): Promise<void> {
    await this.#opening?.catch(() => {}) // Who opened it hears of the failure.
    for (const subject of [...this.#subjects.values()]) await subject.stop()
    await this.#upstream?.stop()
    await this.stores?.stop()
    if (this.folder !== '') await rm(this.folder, { recursive: true, force: true })
  }

  async #launch(name: string, port: number): Promise<Launch> {
    const { env, key } = this.stores!
    const toUpstream = ['--port', String(port), '--upstream', this.#upstreamUrl]
    const [kind = '', ...rest] = name.split(/(?=[@+:])/)
    switch (kind) {
      case 'bare':
        return { command: [process.execPath, 'bench/subjects/bare.ts', ...toUpstream] }
      case 'lean':
        return {
          command: [process.execPath, 'bench/subjects/lean.ts', ...toUpstream, '--redis', env.REDIS_URL!],
          headers: ['authorization: Bearer lean'],
        }
      case 'gateway':
        return {
          command: await this.#gatewayCommand(rest),
          env: {
            ...env,
            ...this.#catalogEnv(name),
            PORT: String(port),
            WEB_CONCURRENCY: /@(\d+)/.exec(name)?.[1] ?? '1',
          },
          headers: [`authorization: Bearer ${key}`],
          readyPath: '/readyz',
        }
      default:
        return this.#launchPeer(name, port)
    }
  }

  /** The catalog with another number of models that `auto` chooses among, as the name of a subject says. */
  #catalogEnv(name: string): NodeJS.ProcessEnv {
    const models = /\+(\d+)/.exec(name)?.[1]
    return models === undefined ? {} : { MODEL_CATALOG: this.stores!.writeCatalog(Number(models)) }
  }

  async #launchPeer(name: string, port: number): Promise<Launch> {
    const peer = peers[name]
    if (!peer) {
      const known = [
        'bare',
        'lean',
        ...Object.keys(peers),
        'gateway[@<web processes>][+<models>][:<checkout>[:<flag of node>…]]',
      ]
      throw new Error(`unknown subject ${name}: ${known.join(', ')}`)
    }
    const { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl } = this.stores!.env
    const models = [...new Set(this.#options.behaviours.map(slugOf))]
    const stores = { databaseUrl: databaseUrl!, redisUrl: redisUrl! }
    return peer.launch({ port, upstreamUrl: this.#upstreamUrl, models, ...stores, folder: this.folder })
  }

  /** As the package.json of the checkout starts it; further flags overrule. */
  async #gatewayCommand(parts: string[]): Promise<string[]> {
    const [folder = root, ...flags] = parts.filter(part => part.startsWith(':')).map(part => part.slice(1))
    const checkout = folder === '' ? root : resolve(folder)
    const { profileFolder, preload } = this.#options
    const command = await commandOf('start', profileFolder, checkout)
    const server = join(checkout, command.pop()!)
    return [...command, ...flags, ...(preload ? ['--import', preload] : []), server]
  }
}

/** CPU seconds a subject has used so far. */
export function subjectCpuSeconds(subject: Subject): number {
  return cpuSeconds(subject.pids())
}
