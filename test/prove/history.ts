import type { World } from './world.ts'

const idPattern = /\b[a-z]{2,8}[_-][0-9a-z]{20,}\b/g
const maxIds = 3
const maxLogLines = 40
const maxLineChars = 2_000

/** What the stores and the logs of the processes say of the things that a breach names, one line each. */
export async function historyOf({ services: { db }, webs, workers }: World, breach: string): Promise<string[]> {
  const ids = [...new Set(breach.match(idPattern))].slice(0, maxIds)
  const lines: string[] = []
  for (const id of ids) {
    const [generations, entries, jobs, batches, deliveries, files] = await Promise.all([
      db.generation.findMany({ where: { OR: [{ id }, { requestId: id }] } }),
      db.ledgerEntry.findMany({ where: { cause: { contains: id } } }),
      db.job.findMany({ where: { id } }),
      db.batch.findMany({ where: { id } }),
      db.webhookDelivery.findMany({ where: { OR: [{ jobId: id }, { batchId: id }] } }),
      db.file.findMany({ where: { id } }),
    ])
    for (const [what, rows] of Object.entries({ generations, entries, jobs, batches, deliveries, files }))
      for (const row of rows) lines.push(`${what}: ${shown(row)}`)
    for (const [i, { process, outputs }] of [...webs, ...workers].entries()) {
      const output = [...outputs, process?.output() ?? ''].join('\n').split('\n')
      const own = output.filter(line => line.includes(id)).slice(-maxLogLines)
      lines.push(...own.map(line => `log of process ${i}: ${line.slice(0, maxLineChars)}`))
    }
  }
  return lines
}

function shown(row: object): string {
  const text = JSON.stringify(row, (_name, value) => (typeof value === 'bigint' ? String(value) : value))
  return text.slice(0, maxLineChars)
}
