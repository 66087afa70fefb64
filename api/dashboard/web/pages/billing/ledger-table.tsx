import { Anchor, Box, Table, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { LedgerLine } from '../../../wire/billing.ts'
import { count, moment, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'

const days = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' })
const methods = { card: 'card', ach: 'ACH', grant: 'grant' }

export function LedgerTable({ rows, byDay }: { rows: LedgerLine[]; byDay: boolean }) {
  return (
    <Table.ScrollContainer minWidth={320}>
      <Table aria-labelledby="ledger-title">
        <Table.Thead>
          <Table.Tr>
            <Table.Th w={{ base: 110, sm: 190 }}>When</Table.Th>
            <Table.Th>What</Table.Th>
            <Table.Th visibleFrom="sm">Key or reference</Table.Th>
            <Table.Th ta="right">Amount</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map(row => (
            <Table.Tr key={row.id}>
              <Table.Td>{byDay && row.kind === 'charge' ? days.format(new Date(row.at)) : moment(row.at)}</Table.Td>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>
                {nameOf(row)}
                <Detail line={row} />
                <Box hiddenFrom="sm">
                  <About line={row} />
                </Box>
              </Table.Td>
              <Table.Td style={{ overflowWrap: 'anywhere' }} visibleFrom="sm">
                <About line={row} />
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {row.amount_usd > 0 && '+'}
                {usd(row.amount_usd)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

const kinds: Record<LedgerLine['kind'], string> = {
  deposit: 'Credits added',
  charge: 'Usage',
  excess: 'Usage beyond its reservation',
  refund: 'Refund of failed work',
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
      return 'Refund that did not go through'
    case 'dispute':
      return 'Disputed payment'
    case 'dispute_undone':
      return 'Dispute won'
    default:
      return kinds[kind]
  }
}

/** When a top-up's money can be spent stands beside its payment: the line of one that failed holds nothing. */
function Detail({ line: { kind, event, entries, note, available_at } }: { line: LedgerLine }) {
  const parts = [
    kind === 'charge' && entries > 1 && `${count(entries)} requests`,
    note,
    event === null &&
      available_at !== null &&
      Date.parse(available_at) > Date.now() &&
      `held until ${moment(available_at)}`,
  ].filter(part => typeof part === 'string')
  if (parts.length === 0) return null
  return (
    <Text size="xs" c="dimmed">
      {parts.join(' · ')}
    </Text>
  )
}

/** The key of a charge, and the one request, job or payment where the line is about one. */
function About({ line: { kind, key, reference } }: { line: LedgerLine }) {
  const { home } = usePlace()
  return (
    <>
      {key && <Text size="sm">{key.name}</Text>}
      {reference !== null && (
        <Text size="xs" ff="monospace" c="dimmed" component="div">
          {kind === 'charge' || kind === 'excess' ? (
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
