import { cp, mkdtemp, readFile, rm, symlink, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A fault put into the product on purpose, which the proof must find. */
export type Mutation = { name: string; file: string; from: string; to: string }

export const mutations: readonly Mutation[] = [
  {
    name: 'one settlement in fifty is lost',
    file: 'shared/wallet/admission.ts',
    from: '    this.#pending.push(settlement)\n',
    to: '    if (Math.random() > 0.02) this.#pending.push(settlement)\n',
  },
  {
    name: 'one charge in fifty is booked twice',
    file: 'shared/wallet/admission.ts',
    from: '    this.#pending.push(settlement)\n',
    to: `    this.#pending.push(settlement)
    const { event } = settlement
    if (event && Math.random() < 0.02) this.#pending.push({ ...settlement, event: { ...event, id: \`\${event.id}2\` } })
`,
  },
  {
    name: 'one webhook in ten is never delivered',
    file: 'shared/webhooks/webhooks.ts',
    from: '    await tx.webhookDelivery.createMany({ data: rows })\n',
    to: '    if (Math.random() > 0.1) await tx.webhookDelivery.createMany({ data: rows })\n',
  },
  {
    name: 'a reservation that is settled alone is not released',
    file: 'shared/wallet/scripts/settle.lua',
    from: 'if #members > 0 then\n',
    to: 'if #members > 1 then\n',
  },
  {
    name: 'rate limits admit one request more',
    file: 'shared/wallet/scripts/window.lua',
    from: '  local over = log[1] + amount - window.limit\n',
    to: '  local over = log[1] + amount - window.limit - 1\n',
  },
  {
    name: 'a saved card is charged once more than the limit of its month allows',
    file: 'shared/payments/due-top-ups.ts',
    from: 'l.spent + l.amount <= l.bound',
    to: 'l.spent < l.bound + l.amount',
  },
]

const repository = join(import.meta.dirname, '../..')
/** What the processes of the product need. */
const parts = ['api', 'shared', 'workers', 'prisma', 'dev', 'docs', 'package.json', 'tsconfig.json', 'prisma.config.ts']

/** A copy of the product with a mutation. Throws if its place is not there, or there twice. */
export async function openMutant(mutation: Mutation): Promise<{ folder: string; remove(): Promise<void> }> {
  const text = await mutated(mutation)
  const folder = await mkdtemp(join(tmpdir(), 'headgate-mutant-'))
  for (const part of parts) await cp(join(repository, part), join(folder, part), { recursive: true, force: true })
  await symlink(join(repository, 'node_modules'), join(folder, 'node_modules'))
  const file = join(folder, mutation.file)
  await unlink(file)
  await writeFile(file, text)
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) }
}

/** The text of the file with its mutation. */
export async function mutated({ name, file, from, to }: Mutation): Promise<string> {
  const pieces = (await readFile(join(repository, file), 'utf8')).split(from)
  if (pieces.length !== 2) throw new Error(`${name}: ${file} has its place ${pieces.length - 1} times`)
  return pieces.join(to)
}
