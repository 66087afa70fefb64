import { Anchor, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { LedgerLine } from '../../../wire/billing.ts'
import type { Column } from '../../components/table.tsx'
import { count, day, exactUsd, moment, monthName, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

const methods = { card: 'card', ach: 'ACH', grant: 'grant' }

/** The columns of the ledger. Its days and months are those of UTC, so all its times are. */
export function ledgerColumns(byDay: boolean, hasBalance: boolean): Column<LedgerLine>[] {
  const text = byDay ? usd : exactUsd
  const balance: Column<LedgerLine> = {
    header: 'Balance',
    kind: 'number',
    card: 'labelled',
    cell: ({ balance_usd }) => (balance_usd === null ? '–' : text(balance_usd)),
  }
  return [
    {
      header: 'Time (UTC)',
      nowrap: true,
      card: 'line',
      cell: ({ kind, at }) => (byDay && kind === 'charge' ? day(at, 'utc') : moment(at, 'utc')),
    },
    {
      header: 'Entry',
      kind: 'rowHeader',
      card: 'lead',
      cell: line => (
        <>
          {nameOf(line)}
          <Detail line={line} />
        </>
      ),
    },
    { header: 'API key or reference', maxWidth: 320, card: 'line', cell: line => <About line={line} /> },
    {
      header: 'Amount',
      kind: 'number',
      card: 'aside',
      cell: ({ amount_usd }) => `${amount_usd > 0 ? '+' : ''}${text(amount_usd)}`,
    },
    ...(hasBalance ? [balance] : []),
  ]
}

const kinds: Record<LedgerLine['kind'], string> = {
  deposit: 'Credits added',
  charge: 'Usage',
  excess: 'Usage above its reservation',
  refund: 'Refund for failed work',
  adjustment: 'Adjustment',
}

function nameOf({ kind, event, method }: LedgerLine): string {
  const by = method === null ? '' : ` by ${methods[method]}`
  switch (event) {
    case 'payment':
      return `Payment${by}`
    case 'failed':
      return 'ACH payment failed'
    case 'refund':
      return `Refund of a payment${by}`
    case 'refund_undone':
      return 'Failed refund'
    case 'dispute':
      return 'Disputed payment'
    case 'dispute_undone':
      return 'Dispute won'
    default:
      return kinds[kind]
  }
}

/** Details of an entry; those of a held payment include when it can be spent. */
function Detail({ line: { kind, event, entries, note, available_at, late_from } }: { line: LedgerLine }) {
  const parts = [
    kind === 'charge' && entries > 1 && `${count(entries)} requests`,
    note,
    late_from !== null && `booked after ${monthName(late_from)} had closed`,
    event === null &&
      available_at !== null &&
      Date.parse(available_at) > Date.now() &&
      `held until ${moment(available_at, 'utc')}`,
  ].filter(part => typeof part === 'string')
  if (parts.length === 0) return null
  return (
    <Text size="xs" c="dimmed">
      {parts.join(' · ')}
    </Text>
  )
}

/** The API key of a charge, and the request, job or payment if the entry has exactly one. */
function About({ line: { kind, key, reference } }: { line: LedgerLine }) {
  const { home, has } = usePlace()
  return (
    <>
      {key && <Text size="sm">{key.name}</Text>}
      {reference !== null && (
        <Text size="xs" ff="monospace" c="dimmed" component="div">
          {has('requests') && (kind === 'charge' || kind === 'excess') ? (
            <Anchor component={Link} href={`${home}/requests/${reference}`} inherit>
              {reference}
            </Anchor>
          ) : (
            reference
          )}
        </Text>
      )}
    </>
  )
}
