// What attacks do to a web process with a heap of 400 MB: `node bench/hostile.ts [--attack <name>]`, see README.md. Linux only.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Services } from '../shared/open-services.ts'
import { observe } from '../test/support/chaos.ts'
import { createAccount, type Stores } from '../test/support/gateway.ts'
import { type MeasuredProcess, startMeasured } from '../test/support/io/measured.ts'
import { arrivalAttacks } from './attacks/arrival.ts'
import { type Attack, type Call, jsonCall, send, type World } from './attacks/attack.ts'
import { measuringAttacks } from './attacks/measuring.ts'
import { memoryAttacks } from './attacks/memory.ts'
import { readOptions } from './lib/options.ts'
import { keepResults, withOwnStores } from './lib/own-stores.ts'
import { followPeaks } from './lib/peaks.ts'
import { residentKib } from './lib/proc.ts'
import { root } from './lib/processes.ts'
import { quantile } from './lib/statistics.ts'

/** `turnMs`: null if the process died. */
type Row = {
  attack: string
  what: string
  peakMb: number
  turnMs: number | null
  victim: { requests: number; failures: number; p50Ms: number; p99Ms: number; maxMs: number }
  isAlive: boolean
}

const { values: options } = readOptions({ attack: '', 'heap-mb': 400, cpus: '0,1' })
const victimEveryMs = 100
const victimTimeoutMs = 10_000
const peakEveryMs = 20
const chat = jsonCall('/v1/chat/completions', { model: 'gpt-4.1', messages: [{ role: 'user', content: 'Hello!' }] })
const attacks: Attack[] = [...arrivalAttacks, ...memoryAttacks, ...measuringAttacks]
const environment = {
  // Attacks would only need more keys.
  TEST_KEY_RPM: '0',
  TEST_KEY_TPM: '0',
  LOG_LEVEL: 'error',
  NODE_OPTIONS: `--import=${join(root, 'test/support/io/measure-preload.ts')} --expose-gc --max-old-space-size=${options['heap-mb']}`,
}

async function newKey(services: Services): Promise<string> {
  const { organisationId, test } = await createAccount(services)
  await services.db.organisation.update({ where: { id: organisationId }, data: { keepResponses: true } })
  return test
}

/** A client that asks for the same thing ten times a second, each time over a new connection. */
function startVictim(port: number, key: string, call: Call) {
  const latenciesMs: number[] = []
  let failures = 0
  let isOver = false
  const open = new Set<Promise<void>>()
  const ask = async () => {
    const startedMs = performance.now()
    const answer = await send(port, key, call, AbortSignal.timeout(victimTimeoutMs)).catch(() => null)
    if (isOver && !answer) return
    if (answer?.status === 200) latenciesMs.push(performance.now() - startedMs)
    else failures++
  }
  const timer = setInterval(() => {
    const asked = ask().finally(() => open.delete(asked))
    open.add(asked)
  }, victimEveryMs)
  return async () => {
    clearInterval(timer)
    await Promise.race([Promise.all(open), sleep(victimTimeoutMs)])
    isOver = true
    const sorted = latenciesMs.sort((a, b) => a - b)
    const [p50Ms, p99Ms, maxMs] = [0.5, 0.99, 1].map(q => quantile(sorted, q)) as [number, number, number]
    return { requests: sorted.length + failures, failures, p50Ms, p99Ms, maxMs }
  }
}

async function measure(attack: Attack, web: MeasuredProcess, services: Services): Promise<Row> {
  const port = Number(new URL(web.url).port)
  const world: World = { port, newKey: () => newKey(services) }
  const key = await world.newKey()
  // What is loaded at a first request is not the attack's doing.
  for (let i = 0; i < 20; i++) await send(port, key, attack.victim ?? chat, AbortSignal.timeout(victimTimeoutMs))
  const peaks = followPeaks({ kib: () => residentKib([web.child.pid!]) }, peakEveryMs)
  let victim: Row['victim'] | undefined
  const turnMs = await web
    .measure(async () => {
      const stopVictim = startVictim(port, key, attack.victim ?? chat)
      const controller = new AbortController()
      const ended = attack.run(world, controller.signal).catch(error => {
        if (!controller.signal.aborted) console.error(`${attack.name}: ${error.message}`)
      })
      await Promise.race([ended, sleep(attack.seconds * 1_000)])
      victim = await stopVictim()
      controller.abort()
      await ended
    })
    .then(
      ({ blockMs }) => blockMs,
      () => null,
    )
  const { kib } = await peaks.stop()
  const isAlive = web.child.exitCode === null && web.child.signalCode === null
  const { name, what } = attack
  return { attack: name, what, peakMb: (kib * 1024) / 1e6, turnMs, victim: victim!, isAlive }
}

function print(rows: readonly Row[]): void {
  const ms = (value: number | null) =>
    value === null || Number.isNaN(value) ? '–' : Math.round(value).toLocaleString('en-US')
  console.log('| attack | | peak MB | longest turn, CPU ms | another client: p99 ms | max ms | failed | process |')
  console.log('|---|---|---|---|---|---|---|---|')
  for (const { attack, what, peakMb, turnMs, victim, isAlive } of rows) {
    const cells = [attack, what, ms(peakMb), ms(turnMs), ms(victim.p99Ms), ms(victim.maxMs)]
    console.log(`| ${[...cells, `${victim.failures} of ${victim.requests}`, isAlive ? 'alive' : 'dead'].join(' | ')} |`)
  }
}

async function run(stores: Stores): Promise<Row[]> {
  const services = await observe(stores)
  const rows: Row[] = []
  try {
    for (const attack of attacks.filter(({ name }) => name.includes(options.attack))) {
      // A process of its own: what one attack leaves behind is not the next one's.
      const web = await startMeasured(stores, environment)
      try {
        rows.push(await measure(attack, web, services))
        console.error(JSON.stringify(rows.at(-1)))
      } finally {
        await web.kill()
      }
    }
  } finally {
    await services.close()
  }
  return rows
}

await withOwnStores(options.cpus, async ({ databaseUrl, redisUrl }) => {
  const rows = await run({ databaseUrl, redisUrl, drop: async () => {} })
  print(rows)
  keepResults('hostile', { options, rows })
  if (rows.some(({ isAlive }) => !isAlive)) process.exitCode = 1
})
