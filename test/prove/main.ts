// What the service survives: mixed load of every kind of work on two web and two worker processes while processes, stores,
// networks, clocks, disks and providers fail in an order drawn from a seed. Afterwards everything must come to rest, and the
// books must say what the clients were told. `npm run prove -- --minutes 60 --seed 1`; a single run is repeated by its seed.
import { parseArgs } from 'node:util'
import { fuzz } from './fuzz.ts'
import { mutations, openMutant } from './mutations.ts'
import { runNamed } from './named.ts'
import { publish, publishFuzz, publishNamed } from './report.ts'
import { runSeed, type SeedResult } from './run-seed.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string' },
    'load-seconds': { type: 'string', default: '100' },
    faults: { type: 'string', default: '' },
    mutations: { type: 'boolean', default: false },
    named: { type: 'boolean', default: false },
    fuzz: { type: 'string' },
    publish: { type: 'boolean', default: false },
  },
})
const loadMs = Number(values['load-seconds']) * 1_000
const untilMs = Date.now() + Number(values.minutes) * 60_000

process.exitCode = await prove()
process.exit()

function prove(): Promise<number> {
  if (values.named) return proveNamed()
  if (values.fuzz !== undefined) return proveFuzz(Number(values.fuzz))
  return values.mutations ? proveMutations() : proveSeeds()
}

/** Runs the named tests of faults and complaints. */
async function proveNamed(): Promise<number> {
  const results = await runNamed()
  const all = [...results.scenarios, ...results.complaints]
  for (const { name, verdict, ran } of all) console.log(`  ${verdict}  ${name} (${ran} tests)`)
  for (const failure of all.flatMap(({ failed }) => failed)) console.log(`failed or not run: ${failure}`)
  if (values.publish) await publishNamed(results)
  return all.some(({ verdict }) => verdict === 'fail') ? 1 : 0
}

/** Sends so many random requests, as the OpenAPI document describes them. */
async function proveFuzz(requests: number): Promise<number> {
  const result = await fuzz({ requests, seed: Number(values.seed), log: console.log })
  for (const fault of result.faults) console.log(`fault: ${fault}`)
  console.log(JSON.stringify({ valid: result.valid, ...result.classes }))
  console.log(`${result.requests} requests to ${result.operations} operations, ${result.faults.length} faults`)
  if (values.publish) await publishFuzz(result)
  return Math.min(1, result.faults.length)
}

async function proveSeeds(): Promise<number> {
  const results: SeedResult[] = []
  const given = values.seeds?.split(',').map(Number)
  let longestMs = 0
  for (let seed = Number(values.seed); ; seed++) {
    const next = given ? given[results.length] : seed
    const isLast = given ? next === undefined : results.length > 0 && Date.now() + longestMs > untilMs
    if (isLast) break
    const startedMs = Date.now()
    results.push(await proveSeed(next!))
    longestMs = Math.max(longestMs, Date.now() - startedMs)
  }
  const breaches = results.flatMap(result => result.breaches)
  console.log(`${results.length} seeds, ${breaches.length} breaches`)
  if (values.publish) await publish(results)
  return Math.min(1, breaches.length)
}

async function proveSeed(seed: number, codeFolder?: string): Promise<SeedResult> {
  const startedMs = Date.now()
  const log = (line: string) => console.log(`  ${((Date.now() - startedMs) / 1_000).toFixed(1)} s  ${line}`)
  console.log(`seed ${seed}`)
  const result = await runSeed(seed, {
    loadMs,
    only: values.faults,
    log,
    ...(codeFolder !== undefined && { codeFolder }),
  })
  for (const [name, count] of Object.entries(result.requests)) console.log(`  ${name}: ${count}`)
  const { breaches, seconds, payments, charges } = result
  console.log(`  top-ups: ${payments}, charges of the saved card: ${charges}`)
  const end = breaches.length === 0 ? 'passed' : `failed with ${breaches.length} breaches`
  console.log(`seed ${seed} ${end} after ${seconds} s`)
  return result
}

/** Runs builds that are broken on purpose: each must be caught. */
async function proveMutations(): Promise<number> {
  let missed = 0
  for (const mutation of mutations) {
    console.log(`mutation: ${mutation.name}`)
    const mutant = await openMutant(mutation)
    try {
      const { breaches } = await proveSeed(Number(values.seed), mutant.folder)
      console.log(breaches.length > 0 ? `caught: ${mutation.name}` : `MISSED: ${mutation.name}`)
      if (breaches.length === 0) missed++
    } finally {
      await mutant.remove()
    }
  }
  return Math.min(1, missed)
}
