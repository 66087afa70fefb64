import { Anchor, Table, Text } from '@mantine/core'
import type { Delivery } from '../../../wire/webhooks.ts'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'

export function DeliveryTable({ deliveries, onOpen }: { deliveries: Delivery[]; onOpen: (delivery: string) => void }) {
  return (
    <Table.ScrollContainer minWidth={720}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Event</Table.Th>
            <Table.Th>Status</Table.Th>
            <Table.Th>URL</Table.Th>
            <Table.Th ta="right">Attempts</Table.Th>
            <Table.Th>Created</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {deliveries.map(delivery => (
            <Table.Tr key={delivery.id}>
              <Table.Td>
                <Anchor
                  component="button"
                  type="button"
                  size="sm"
                  fw={500}
                  ta="left"
                  aria-label={`Show the delivery of ${delivery.type} to ${delivery.url}`}
                  onClick={() => onOpen(delivery.id)}
                >
                  {delivery.type}
                </Anchor>
                <Text size="xs" c="dimmed" ff="monospace" style={{ whiteSpace: 'nowrap' }}>
                  {delivery.job_id ?? delivery.batch_id ?? delivery.id}
                </Text>
              </Table.Td>
              <Table.Td>
                <Status value={delivery.status} />
                <Next delivery={delivery} />
              </Table.Td>
              <Table.Td maw={320} style={{ overflowWrap: 'anywhere' }}>
                <Text size="sm" lineClamp={2} title={delivery.url}>
                  {delivery.url}
                </Text>
              </Table.Td>
              <Table.Td ta="right" className="numeric">
                {delivery.attempts}
              </Table.Td>
              <Table.Td style={{ whiteSpace: 'nowrap' }}>
                <Time at={delivery.created_at} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  )
}

/** When a pending delivery is tried next. */
export function Next({ delivery: { next_attempt_at: next } }: { delivery: Pick<Delivery, 'next_attempt_at'> }) {
  if (next === null) return null
  return (
    <Text size="xs" c="dimmed" component="div" style={{ whiteSpace: 'nowrap' }}>
      {Date.parse(next) <= Date.now() ? (
        'on its way'
      ) : (
        <>
          next attempt <Time at={next} />
        </>
      )}
    </Text>
  )
}
