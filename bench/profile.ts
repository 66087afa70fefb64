// Where the time of CPU profiles goes: `node bench/profile.ts <file or folder> [--rows 40] [--skip 0.5]`. Idle time is left
// out, and the first part of each profile where `--skip` says so: start and warm-up.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { readOptions } from './lib/options.ts'
import { add, type CallFrame, labelOf, ownerOf, printLargest } from './lib/profile-names.ts'

type ProfileNode = { id: number; callFrame: CallFrame; children?: number[] }
type Profile = { nodes: ProfileNode[]; samples: number[]; timeDeltas: number[] }

const packageRows = 30

const { values: options, positionals } = readOptions({ rows: 40, skip: 0 })
const [target] = positionals
if (!target) {
  console.error('name a .cpuprofile file or a folder of them')
  process.exit(2)
}
const files = statSync(target).isDirectory()
  ? readdirSync(target)
      .filter(name => name.endsWith('.cpuprofile'))
      .map(name => join(target, name))
  : [target]
for (const file of files) summarise(file)

function summarise(file: string): void {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8')) as Profile
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const callers = new Map(nodes.flatMap(({ id, children = [] }) => children.map(child => [child, id] as const)))
  const packages = new Map<string, number>()
  const functions = new Map<string, number>()
  const whole = new Map<string, number>()
  const skippedUs = options.skip * timeDeltas.reduce((sum, us) => sum + us, 0)
  let passedUs = 0
  let busyUs = 0
  for (const [i, id] of samples.entries()) {
    const frame = frames.get(id)!
    const us = timeDeltas[i]!
    passedUs += us
    if (frame.functionName === '(idle)' || passedUs < skippedUs) continue
    busyUs += us
    const stack: CallFrame[] = []
    for (let at: number | undefined = id; at !== undefined; at = callers.get(at)) stack.push(frames.get(at)!)
    add(packages, ownerOf(stack), us)
    add(functions, labelOf(frame), us)
    for (const label of new Set(stack.map(labelOf))) add(whole, label, us)
  }
  console.log(`${basename(file)}: ${(busyUs / 1e6).toFixed(1)} s busy`)
  const share = (us: number) => `${((us / busyUs) * 100).toFixed(1).padStart(5)} %`
  printLargest('by package or file, with what Node does for it', packages, packageRows, share)
  printLargest('by function, self time', functions, options.rows, share)
  printLargest('by function, with what it calls', whole, options.rows, share)
}
