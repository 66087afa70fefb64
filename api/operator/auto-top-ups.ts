import { z } from 'zod'
import { formatCents, nanoFromUsd } from '../../shared/base/money.ts'
import { operatorActor } from '../../shared/io/audit.ts'
import { turnOffAutoTopUp } from '../../shared/payments/auto-top-ups.ts'
import { presentAutoTopUp } from '../dashboard/present/auto-top-up.ts'
import { findOrganisation, org } from './flags.ts'
import { type Command, command } from './parse.ts'

/** The automatic top-ups of organisations: operators see them and can turn them off; their payers set them. */
export const autoTopUps: Command[] = [
  command({
    name: 'auto-top-up show',
    summary:
      'Shows the automatic top-ups of an organisation: settings, saved card, this month’s charges, the last attempt.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const data = await presentAutoTopUp(services, org)
      return { data: { data }, text: textOf(data) }
    },
  }),
  command({
    name: 'auto-top-up off',
    summary: 'Turns the automatic top-ups of an organisation off; its payers can turn them on again.',
    help: '--org ID',
    flags: z.strictObject({ org }),
    async run(services, { org }) {
      await findOrganisation(services, org)
      const wasOn = await turnOffAutoTopUp(services.db, org, services.clock.now(), operatorActor)
      return { data: { data: { org, enabled: false } }, text: wasOn ? 'turned off' : 'already off' }
    },
  }),
]

function textOf(shown: Awaited<ReturnType<typeof presentAutoTopUp>>): string {
  const { enabled, disabled_reason, card, last, retry_at } = shown
  const usd = (amount: number) => formatCents(nanoFromUsd(amount))
  const rule = `below ${usd(shown.threshold_usd)}, ${usd(shown.amount_usd)} are charged`
  const reason = disabled_reason === null ? '' : ` since a payment failed (${disabled_reason})`
  const attempt = last && `${usd(last.amount_usd)} on ${last.created_at}, ${last.status}`
  return [
    enabled ? `on: ${rule}` : `off${reason}`,
    card ? `card: ${card.brand} …${card.last4}, expires ${card.expires}` : 'no card is saved',
    `charged this month: ${usd(shown.spent_month_usd)} of ${usd(shown.monthly_limit_usd)}`,
    ...(attempt ? [`last attempt: ${attempt}${last.failure === null ? '' : ` (${last.failure})`}`] : []),
    ...(retry_at === null ? [] : [`next attempt not before ${retry_at}`]),
  ].join('\n')
}
