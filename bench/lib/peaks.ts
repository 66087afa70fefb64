import { setTimeout as sleep } from 'node:timers/promises'

/** Samples figures periodically until stopped; `stop` returns the maximum of each. */
export function followPeaks<Name extends string>(
  figures: Record<Name, () => number | Promise<number>>,
  everyMs = 100,
): { stop(): Promise<Record<Name, number>> } {
  const names = Object.keys(figures) as Name[]
  const peaks = Object.fromEntries(names.map(name => [name, 0])) as Record<Name, number>
  let stopped = false
  const sample = async () => {
    for (const name of names) peaks[name] = Math.max(peaks[name], await figures[name]())
  }
  const following = (async () => {
    for (; !stopped; await sleep(everyMs)) await sample()
  })()
  return {
    async stop() {
      stopped = true
      await following
      await sample()
      return peaks
    },
  }
}
