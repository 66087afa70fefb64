// Realtime sessions through a subject, both ends in this one process: first idle ones, then beside them some that talk.
// Prints one line of JSON. `--keys` is a file with an API key for every session, as a JSON array.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { nowUs } from '../lib/clock.ts'
import { readOptions } from '../lib/options.ts'
import { cpuSeconds, machineCpuSeconds, residentKib } from '../lib/proc.ts'
import { Client, type Direction, frameMs, Voices } from '../lib/voices.ts'

const { values: o } = readOptions({
  port: 0,
  'provider-port': 0,
  path: '',
  keys: '',
  pid: 0,
  idle: 0,
  talking: 0,
  seconds: 0,
})
/** Sessions that talk before the first measurement of the memory, so that what is loaded and compiled once does not count. */
const warmSessions = 20
const warmSeconds = 5
const settleMs = 5_000
const quietWithinMs = 10_000
const openingAtOnce = 32
const keys: string[] = JSON.parse(readFileSync(o.keys, 'utf8'))
const pids = [o.pid]
const voices = new Voices()

/** Opens sessions, some at a time, with the keys from `fromKey` on. */
async function open(count: number, fromKey: number): Promise<Client[]> {
  const clients: Client[] = []
  let next = 0
  const opener = async () => {
    while (next < count) {
      const key = keys[fromKey + next++]!
      const client = new Client(voices, { port: o.port, path: o.path, key })
      clients.push(client)
      await client.ready
    }
  }
  await Promise.all(Array.from({ length: openingAtOnce }, opener))
  return clients
}

/** Begins to talk, spread evenly over the length of a frame. */
function begin(clients: Client[]): void {
  voices.talking = true
  const fromMs = nowUs() / 1e3 + frameMs
  for (const [i, client] of clients.entries()) client.talk(fromMs + (i / clients.length) * frameMs)
}

/** Ends the talk; gives the frames that did not arrive. */
async function hush(): Promise<number> {
  const { up, down } = voices
  const lost = () => up.sent - up.received + (down.sent - down.received)
  voices.talking = false
  for (const deadline = Date.now() + quietWithinMs; lost() > 0 && Date.now() < deadline; ) await sleep(20)
  // Reports of use may be behind the last sound.
  await sleep(200)
  return lost()
}

/** Throws an Error when the subject does not close both of its sides. */
async function close(clients: Client[]): Promise<void> {
  for (const client of clients) client.close()
  const late = sleep(quietWithinMs).then(() => {
    throw new Error('sessions are not closed')
  })
  await Promise.race([Promise.all(clients.map(client => client.closed)), late])
  for (const deadline = Date.now() + quietWithinMs; voices.open > 0; await sleep(20))
    if (Date.now() > deadline) throw new Error(`the provider still has ${voices.open} sessions open`)
}

/** CPU seconds for a while: of the subject, of this process, of everything else on the machine. */
async function during(seconds: number): Promise<{ seconds: number; subject: number; load: number; others: number }> {
  const read = () => ({ subject: cpuSeconds(pids), load: cpuSeconds([process.pid]), machine: machineCpuSeconds() })
  const before = read()
  const startedUs = nowUs()
  await sleep(seconds * 1_000)
  const after = read()
  const subject = after.subject - before.subject
  const load = after.load - before.load
  return {
    seconds: (nowUs() - startedUs) / 1e6,
    subject,
    load,
    others: after.machine - before.machine - subject - load,
  }
}

function delaysMs(name: string, { delaysUs }: Direction): Record<string, number> {
  const { p50, p99, max } = delaysUs.quantiles()
  return { [`${name}P50Ms`]: p50 / 1e3, [`${name}P99Ms`]: p99 / 1e3, [`${name}MostMs`]: max / 1e3 }
}

await voices.provide(o['provider-port'])
const warm = await open(warmSessions, 0)
begin(warm)
await sleep(warmSeconds * 1_000)
let lost = await hush()
await close(warm)
await sleep(settleMs)

const beforeKib = residentKib(pids)
const openedUs = nowUs()
const idle = await open(o.idle, 0)
const openSeconds = (nowUs() - openedUs) / 1e6
await sleep(settleMs)
const idleKib = residentKib(pids)
const silence = await during(o.seconds)

const talking = await open(o.talking, o.idle)
begin(talking)
await sleep(warmSeconds * 1_000)
const { up, down } = voices
const framesBefore = up.received + down.received
voices.measuring = true
const talk = await during(o.seconds)
voices.measuring = false
const frames = up.received + down.received - framesBefore
lost += await hush()
const talkingKib = residentKib(pids)
await close([...idle, ...talking])

const figures = {
  cpuUsPerFrame: (talk.subject * 1e6) / frames,
  subjectCores: talk.subject / talk.seconds,
  loadCores: talk.load / talk.seconds,
  otherCores: talk.others / talk.seconds,
  framesPerSecond: frames / talk.seconds,
  ...delaysMs('up', up),
  ...delaysMs('down', down),
  idleUsPerSecond: (silence.subject * 1e6) / silence.seconds / o.idle,
  idleKib: (idleKib - beforeKib) / o.idle,
  residentMb: talkingKib / 1_024,
  opensPerSecond: o.idle / openSeconds,
  lost,
}
console.log(JSON.stringify({ figures, responses: voices.responses, sessionSeconds: voices.seconds }))
process.exit(0)
