import { z } from 'zod'
import { newId } from '../../shared/base/ids.ts'
import { formatCents, nanoFromUsd, usdFromNano } from '../../shared/base/money.ts'
import { oneLine } from '../../shared/base/one-line.ts'
import { audit, operatorActor } from '../../shared/io/audit.ts'
import { updateResponseSettings } from '../../shared/responses/response-settings.ts'
import { findOrganisation, number, org } from './flags.ts'
import { type Command, command } from './parse.ts'

export const organisations: Command[] = [
  command({
    name: 'org create',
    summary: 'Creates an organisation and prints its ID.',
    help: '--name N',
    flags: z.strictObject({ name: oneLine(z.string().min(1).max(200)) }),
    async run({ db }, { name }) {
      const row = await db.$transaction(async tx => {
        const created = await tx.organisation.create({ data: { id: newId('org'), name, wallet: { create: {} } } })
        await audit(tx, { organisationId: created.id, actor: operatorActor, action: 'organisation.created' })
        return created
      })
      return { data: { id: row.id, name, created_at: row.createdAt.toISOString() }, text: row.id }
    },
  }),
  command({
    name: 'org list',
    summary: 'Lists all organisations with their balances.',
    help: '',
    flags: z.strictObject({}),
    async run(services) {
      const rows = await services.db.organisation.findMany({ orderBy: { createdAt: 'asc' } })
      const data = []
      for (const { id, name, createdAt } of rows) {
        const { balanceNano, availableNano } = await services.wallets.view(id)
        data.push({
          id,
          name,
          created_at: createdAt.toISOString(),
          balance_usd: usdFromNano(balanceNano),
          available_usd: usdFromNano(availableNano),
        })
      }
      return {
        data: { data },
        text:
          data.map(row => `${row.id}  ${formatCents(nanoFromUsd(row.balance_usd))}  ${row.name}`).join('\n') ||
          'No organisations yet.',
      }
    },
  }),
  command({
    name: 'org responses',
    summary: 'Shows or sets whether the responses of an organisation are stored, and for how long.',
    help: '--org ID [--keep on|off] [--retention-days 30]',
    flags: z.strictObject({
      org,
      keep: z.enum(['on', 'off']).optional(),
      retention_days: number.pipe(z.int().min(1).max(365)).optional(),
    }),
    async run(services, { org, keep, retention_days }) {
      await findOrganisation(services, org)
      const fields = await updateResponseSettings(
        services,
        org,
        { keep_responses: keep && keep === 'on', response_retention_days: retention_days },
        operatorActor,
      )
      const days = fields.response_retention_days ?? services.config.responseRetentionDays
      const text = `responses are ${fields.keep_responses ? `kept for ${days} days` : 'not kept'}`
      return { data: { org, ...fields }, text }
    },
  }),
]
