import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../dev/ports.ts'
import { loadConfig } from '../../shared/base/config.ts'
import { newId } from '../../shared/base/ids.ts'
import { nanoFromUsd } from '../../shared/base/money.ts'
import type { Price } from '../../shared/catalog/schema.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { createLog } from '../../shared/io/log.ts'
import { openServices, type Services } from '../../shared/open-services.ts'
import { booked } from '../stores.ts'
import type { OwnStores } from './own-stores.ts'
import { answersOk, commandOf, listens, output, root, start, untilReady } from './processes.ts'
import { usage } from './voices.ts'

export type RealtimeOptions = {
  model: string
  idle: number
  talking: number
  seconds: number
  subjectProcessors: string
  /** Where CPU profiles of the subjects go; null for none. */
  profileFolder: string | null
}

/** What one run of the load gives: its figures, and what the provider reported and saw. */
type Run = { figures: Record<string, number>; responses: number; sessionSeconds: number }

const sessionsPerOrganisation = 20
const creditUsd = 900_000
const maxPerMinute = 2_000_000_000
const settledWithinMs = 15_000
/** Of sessions paid by the minute, what the two ends of a connection may differ in their length. */
const maxLengthDrift = 0.01

/** Subjects between the two ends of realtime sessions, and the books of the gateway among them. */
export class RealtimeRig {
  readonly #options: RealtimeOptions
  readonly #folder: string
  readonly #env: NodeJS.ProcessEnv
  readonly #services: Services
  readonly #providerPort: number
  readonly #organisations: string[] = []
  /** What the gateway's sessions used, as the provider has it. */
  readonly #used = { responses: 0, seconds: 0 }

  private constructor(
    options: RealtimeOptions,
    {
      folder,
      env,
      services,
      providerPort,
    }: { folder: string; env: NodeJS.ProcessEnv; services: Services; providerPort: number },
  ) {
    this.#options = options
    this.#folder = folder
    this.#env = env
    this.#services = services
    this.#providerPort = providerPort
  }

  /** Prepares as many organisations as the sessions take, each with a live key that has every kind of limit. */
  static async open({ folder, databaseUrl, redisUrl }: OwnStores, options: RealtimeOptions): Promise<RealtimeRig> {
    const providerPort = await freePort()
    const given = { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, DATA_DIR: folder }
    const services = await openServices(loadConfig(given), createLog('silent'))
    const provider = services.catalog.find(options.model)?.providers[0]?.provider.toUpperCase()
    const env = {
      ...given,
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      [`${provider}_API_KEY`]: 'upstream',
      [`${provider}_BASE_URL`]: `http://127.0.0.1:${providerPort}/v1`,
    }
    const rig = new RealtimeRig(options, { folder, env, services, providerPort })
    await rig.#makeKeys()
    return rig
  }

  /** Starts a subject, runs the load through it and stops it. Throws an Error when anything is lost or left behind. */
  async run(subject: string): Promise<Record<string, number>> {
    const port = await freePort()
    const logFile = join(this.#folder, `${subject}.log`)
    const { command, isReady } = await this.#launch(subject, port)
    const env = { ...this.#env, PORT: String(port) }
    const running = start(command, { logFile, env, processors: this.#options.subjectProcessors })
    try {
      await untilReady(running, logFile, isReady)
      const { figures, responses, sessionSeconds } = await this.#load(port, running.child.pid!)
      if (figures.lost !== 0) throw new Error(`${figures.lost} frames were lost`)
      if (subject === 'gateway') {
        await this.#settled()
        this.#used.responses += responses
        this.#used.seconds += sessionSeconds
      }
      return figures
    } finally {
      await running.stop()
    }
  }

  /** Books everything and checks that what was charged is what the provider reported. Throws an Error when it is not. */
  async check(): Promise<{ events: number; chargedUsd: number; reportedUsd: number }> {
    const logFile = join(this.#folder, 'worker.log')
    const worker = start([process.execPath, 'workers/main.ts'], { logFile, env: this.#env, processors: null })
    const events = await booked(this.#env).finally(() => worker.stop())
    const { _sum: sum } = await this.#services.db.generation.aggregate({
      where: { kind: 'realtime' },
      _sum: { costNano: true, promptTokens: true, completionTokens: true },
    })
    const expectedTokens = [usage.input_tokens, usage.output_tokens].map(tokens => tokens * this.#used.responses)
    const tokens = [sum.promptTokens, sum.completionTokens]
    if (String(tokens) !== String(expectedTokens))
      throw new Error(`${tokens} tokens counted, ${expectedTokens} reported`)
    const { price } = this.#services.catalog.find(this.#options.model)!.providers[0]!
    const chargedUsd = Number(sum.costNano) / 1e9
    const reportedUsd = usdOf(price, this.#used) * (1 + Number(this.#services.config.marginPpm) / 1e6)
    const tolerance = price.unit === 'token' ? 1e-9 : maxLengthDrift
    if (!(Math.abs(chargedUsd / reportedUsd - 1) <= tolerance))
      throw new Error(`$${chargedUsd} charged, $${reportedUsd} reported`)
    return { events, chargedUsd, reportedUsd }
  }

  close(): Promise<void> {
    return this.#services.close()
  }

  async #makeKeys(): Promise<void> {
    const { db, wallets, keys } = this.#services
    const secrets: string[] = []
    const limits = { rpm_limit: maxPerMinute, tpm_limit: maxPerMinute, monthly_spend_cap_usd: creditUsd }
    while (secrets.length < this.#options.idle + this.#options.talking) {
      const id = newId('org')
      await db.organisation.create({ data: { id, name: 'Benchmark', wallet: { create: {} } } })
      await wallets.deposit({ organisationId: id, amountNano: nanoFromUsd(creditUsd), method: 'grant' })
      const { secret } = await keys.create(id, { environment: 'live', ...limits }, operatorActor)
      this.#organisations.push(id)
      for (let i = 0; i < sessionsPerOrganisation; i++) secrets.push(secret)
    }
    writeFileSync(join(this.#folder, 'keys.json'), JSON.stringify(secrets))
  }

  async #launch(subject: string, port: number): Promise<{ command: string[]; isReady: () => Promise<boolean> }> {
    const { profileFolder } = this.#options
    const gateway = await commandOf('start', profileFolder)
    if (subject === 'gateway') return { command: gateway, isReady: () => answersOk(`http://127.0.0.1:${port}/readyz`) }
    // Node runs with the same flags.
    const upstream = `http://127.0.0.1:${this.#providerPort}`
    const bare = ['bench/subjects/bare-relay.ts', '--port', String(port), '--upstream', upstream]
    return { command: [...gateway.slice(0, -1), ...bare], isReady: () => listens(port) }
  }

  async #load(port: number, pid: number): Promise<Run> {
    const { model, idle, talking, seconds } = this.#options
    const given = {
      port,
      'provider-port': this.#providerPort,
      path: `/v1/realtime?model=${model}`,
      keys: join(this.#folder, 'keys.json'),
      pid,
      idle,
      talking,
      seconds,
    }
    const args = Object.entries(given).flatMap(([name, value]) => [`--${name}`, String(value)])
    return JSON.parse(await output([process.execPath, join(root, 'bench/load/voices.ts'), ...args]))
  }

  /** Waits until nothing is reserved and no session slot is taken. Throws an Error after 15 s. */
  async #settled(): Promise<void> {
    const { wallets, redis } = this.#services
    for (const deadline = Date.now() + settledWithinMs; ; await sleep(100)) {
      const views = await Promise.all(this.#organisations.map(id => wallets.view(id)))
      const slots = await Promise.all(this.#organisations.map(id => redis.zcard(`realtime:${id}`)))
      const open = slots.reduce((sum, taken) => sum + taken, 0)
      const reserved = views.reduce((sum, { reservedNano }) => sum + reservedNano, 0n)
      if (open === 0 && reserved === 0n) return
      if (Date.now() > deadline) throw new Error(`${open} slots are taken and ${reserved} nano-dollars reserved`)
    }
  }
}

/** What use costs at the provider. */
function usdOf(price: Price, { responses, seconds }: { responses: number; seconds: number }): number {
  if (price.unit === 'minute') return (Number(price.usd) * seconds) / 60
  if (price.unit !== 'token') throw new Error(`sessions at a price by the ${price.unit} are not measured`)
  const { text_tokens: textIn, audio_tokens: audioIn } = usage.input_token_details
  const { text_tokens: textOut, audio_tokens: audioOut } = usage.output_token_details
  const { input, output: out, audio_input: soundIn = input, audio_output: soundOut = out } = price
  const rates = [textIn * Number(input), audioIn * Number(soundIn), textOut * Number(out), audioOut * Number(soundOut)]
  return (responses * rates.reduce((sum, rate) => sum + rate, 0)) / 1e6
}
