/**
 * Loaded into a gateway process by `--import`: tells the test that started it, over IPC, what the main thread did between
 * `start` and `stop`.
 *
 * - `blockMs`: the longest stretch between two turns of a timer of 4 ms, in CPU time of the main thread. A turn that takes
 *   100 ms keeps the timer, and everything else, waiting for these 100 ms. CPU time, as waiting for a processor is not the
 *   process's doing. Garbage collection on the main thread counts. Even CPU time stretches where virtual processors share a
 *   real one, by two and more, and differs between machines; so it is told in the milliseconds of one idle machine: by how
 *   much a fixed piece of work, done before and after, takes longer than it took there.
 * - `grownMb`: the largest resident memory in the meantime, less that of the start. The kernel's own high-water mark, as no
 *   timer sees what comes and goes inside of one turn.
 */
import { readFileSync, writeFileSync } from 'node:fs'

const everyMs = 4
/** What `work` takes on the machine for which the limits are meant, with nothing else running (AMD EPYC of 2025, one core). */
const usualWorkMs = 1.9
const workRounds = 3
const mib = 1024 * 1024

const bytes = Buffer.alloc(2 * mib, 'abc"')
const text = JSON.stringify(Array.from({ length: 10_000 }, (_, i) => ({ name: `n${i}` })))
let slowness = 1

let timer: NodeJS.Timeout | undefined
let last = 0
let max = 0
let startedMib = 0

function cpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/** By how much this machine is slower at this moment than the usual one: from 1 to 4, lest one bad moment excuses a hole. */
function slownessNow(): number {
  let bestUs = Number.POSITIVE_INFINITY
  for (let round = 0; round < workRounds; round++) {
    const began = cpuUs()
    let quotes = 0
    for (let i = 0; i < bytes.length; i++) if (bytes[i] === 0x22) quotes++
    JSON.parse(text)
    if (quotes > 0) bestUs = Math.min(bestUs, cpuUs() - began)
  }
  return Math.min(4, Math.max(1, bestUs / 1_000 / usualWorkMs))
}

function look(): void {
  const now = cpuUs()
  max = Math.max(max, now - last)
  last = now
}

/** Where the system has no such mark: the largest since the process began, which is never less. */
function peakMib(): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS / 1024
  const [, kib] = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))!
  return Number(kib) / 1024
}

process.on('message', message => {
  if (message === 'start') {
    slowness = slownessNow()
    globalThis.gc?.()
    if (process.platform === 'linux') writeFileSync('/proc/self/clear_refs', '5')
    startedMib = process.memoryUsage.rss() / mib
    max = 0
    last = cpuUs()
    timer ??= setInterval(look, everyMs)
    process.send!('started')
  } else if (message === 'stop') {
    look()
    clearInterval(timer)
    timer = undefined
    const blockMs = (max / 1_000) * (2 / (slowness + slownessNow()))
    process.send!({ blockMs, grownMb: ((peakMib() - startedMib) * mib) / 1e6 })
  }
})
// The channel does not keep the process from ending.
process.channel?.unref()
