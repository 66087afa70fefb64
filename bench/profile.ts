// Where the time of CPU profiles goes: `node bench/profile.ts <file or folder> [rows]`. Idle time is left out.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

type CallFrame = { functionName: string; url: string; lineNumber: number }
type ProfileNode = { id: number; callFrame: CallFrame; children?: number[] }
type Profile = { nodes: ProfileNode[]; samples: number[]; timeDeltas: number[] }

const root = join(import.meta.dirname, '..')
const packageRows = 30

const [target, rows = '40'] = process.argv.slice(2)
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
  let busyUs = 0
  for (const [i, id] of samples.entries()) {
    const frame = frames.get(id)!
    const us = timeDeltas[i]!
    if (frame.functionName === '(idle)') continue
    busyUs += us
    const stack: CallFrame[] = []
    for (let at: number | undefined = id; at !== undefined; at = callers.get(at)) stack.push(frames.get(at)!)
    add(packages, ownerOf(stack), us)
    add(functions, labelOf(frame), us)
    for (const label of new Set(stack.map(labelOf))) add(whole, label, us)
  }
  console.log(`${basename(file)}: ${(busyUs / 1e6).toFixed(1)} s busy`)
  print('by package or file, with what Node does for it', packages, busyUs, packageRows)
  print('by function, self time', functions, busyUs, Number(rows))
  print('by function, with what it calls', whole, busyUs, Number(rows))
}

function add(sums: Map<string, number>, key: string, us: number): void {
  sums.set(key, (sums.get(key) ?? 0) + us)
}

/** A file of ours relative to the project, anything else without the way to its package. */
function nameOf(url: string): string {
  const [, inPackage] = /.*node_modules\/(.*)/.exec(url) ?? []
  return inPackage ?? (url.startsWith('file:') ? relative(root, fileURLToPath(url)) : url)
}

function labelOf({ functionName, url, lineNumber }: CallFrame): string {
  const place = url === '' ? '' : ` ${nameOf(url)}:${lineNumber + 1}`
  return `${functionName || '(anonymous)'}${place}`
}

/** The npm package or own file that the time of a stack (innermost frame first) was spent for. */
function ownerOf(stack: CallFrame[]): string {
  const frame = stack.find(({ url }) => url.startsWith('file:'))
  if (!frame) return stack[0]!.functionName.startsWith('(') ? stack[0]!.functionName : 'Node by itself'
  if (!frame.url.includes('node_modules')) return nameOf(frame.url)
  const parts = nameOf(frame.url).split('/')
  return parts.slice(0, parts[0]!.startsWith('@') ? 2 : 1).join('/')
}

function print(title: string, sums: Map<string, number>, busyUs: number, most: number): void {
  console.log(`\n  ${title}`)
  for (const [key, us] of [...sums].sort((a, b) => b[1] - a[1]).slice(0, most))
    console.log(`  ${((us / busyUs) * 100).toFixed(1).padStart(5)} %  ${key}`)
}
