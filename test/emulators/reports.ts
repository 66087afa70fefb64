import type { WorkEmulator } from './slow-work.ts'

/** What a provider sends to a callback address at the end of work; no address: no callback was requested. */
export type Report = { url: string | null; body: Buffer; headers: Record<string, string> }

/** An emulated provider that reports the end of each piece of work; `delivered` gives what the reports were answered with. */
export function reporting(started: WorkEmulator, callback: (id: string, nowMs?: number) => Report) {
  const deliveries: Promise<number>[] = []
  const end = (how: 'finish' | 'fail', id?: string) => {
    const ended = [...started.works.values()].filter(work =>
      id === undefined ? work.status === 'pending' : work.id === id,
    )
    started[how](id)
    for (const work of ended) {
      const report = callback(work.id)
      if (report.url !== null) deliveries.push(deliver(report.url, report))
    }
  }
  return {
    ...started,
    finish: (id?: string) => end('finish', id),
    fail: (id?: string) => end('fail', id),
    /** A signed report on a piece of work as it stands. */
    callback,
    delivered: () => Promise.all(deliveries),
  }
}

async function deliver(url: string, { body, headers }: Report): Promise<number> {
  const all = { ...headers, 'content-type': 'application/json' }
  return fetch(url, { method: 'POST', body: new Uint8Array(body), headers: all }).then(
    answer => answer.status,
    () => 0,
  )
}
