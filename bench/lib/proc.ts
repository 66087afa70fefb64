import { readdirSync, readFileSync } from 'node:fs'

// What Linux tells in /proc. A process that ended meanwhile counts as zero.

const ticksPerSecond = 100

type Stat = { parent: number; cpuSeconds: number; reapedSeconds: number }

function stat(pid: number): Stat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const seconds = (at: number) => (Number(fields[at]) + Number(fields[at + 1])) / ticksPerSecond
    return { parent: Number(fields[1]), cpuSeconds: seconds(11), reapedSeconds: seconds(13) }
  } catch {
    return null
  }
}

/** A process and its living descendants. */
export function tree(root: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    const parent = pid > 0 ? stat(pid)?.parent : undefined
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), pid])
  }
  const pids = [root]
  for (const pid of pids) pids.push(...(children.get(pid) ?? []))
  return pids
}

/** CPU seconds used so far by processes, all threads. */
export function cpuSeconds(pids: number[]): number {
  return pids.reduce((sum, pid) => sum + (stat(pid)?.cpuSeconds ?? 0), 0)
}

export type CpuUse = { seconds: number; helperSeconds: number }

/**
 * CPU seconds used so far by all living threads of processes, to the nanosecond, and what of it V8's helper threads used
 * (garbage collection, compilation). A thread that ends takes its time with it: Node keeps its threads.
 */
export function cpuUse(pids: number[]): CpuUse {
  const use = { seconds: 0, helperSeconds: 0 }
  for (const pid of pids) for (const thread of threadsOf(pid)) addThread(use, `/proc/${pid}/task/${thread}`)
  return use
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

function addThread(use: CpuUse, folder: string): void {
  try {
    const seconds = Number.parseInt(readFileSync(`${folder}/schedstat`, 'latin1'), 10) / 1e9
    use.seconds += seconds
    if (readFileSync(`${folder}/comm`, 'latin1').startsWith('V8Worker')) use.helperSeconds += seconds
  } catch {
    // It ended meanwhile.
  }
}

/** CPU seconds used so far by a process and all it ever started. */
export function treeCpuSeconds(root: number): number {
  return tree(root)
    .map(stat)
    .reduce((sum, own) => sum + (own ? own.cpuSeconds + own.reapedSeconds : 0), 0)
}

/** CPU seconds used so far by this process and all it ever started. */
export function ownCpuSeconds(): number {
  return treeCpuSeconds(process.pid)
}

/** CPU seconds the whole machine has been busy since it started. */
export function machineCpuSeconds(): number {
  const [, user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'latin1').split(/\s+/).map(Number)
  return (user! + nice! + system! + irq! + softirq! + steal!) / ticksPerSecond
}

/** Resident memory of processes in KiB. */
export function residentKib(pids: number[]): number {
  return pids.reduce((sum, pid) => {
    try {
      return sum + Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0)
    } catch {
      return sum
    }
  }, 0)
}
