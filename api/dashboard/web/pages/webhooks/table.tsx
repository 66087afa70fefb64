import { Anchor, Text } from '@mantine/core'
import type { Delivery } from '../../../wire/webhooks.ts'
import { Status } from '../../components/status.tsx'
import type { Column } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { timeOfDay } from '../../format.ts'

export function deliveryColumns(onOpen: (delivery: string) => void): Column<Delivery>[] {
  return [
    {
      header: 'Event',
      kind: 'rowHeader',
      card: 'lead',
      cell: ({ id, type, url, job_id, batch_id }) => (
        <>
          <Anchor
            component="button"
            type="button"
            size="sm"
            fw={500}
            ta="left"
            aria-label={`Show the delivery of ${type} to ${url}`}
            onClick={() => onOpen(id)}
          >
            {type}
          </Anchor>
          <Text size="xs" c="dimmed" ff="monospace">
            {job_id ?? batch_id ?? id}
          </Text>
        </>
      ),
    },
    {
      header: 'Status',
      card: 'aside',
      cell: delivery => (
        <>
          <Status value={stateOf(delivery)} />
          <Next delivery={delivery} />
        </>
      ),
    },
    {
      header: 'URL',
      maxWidth: 320,
      card: 'line',
      cell: ({ url }) => (
        <Text size="sm" lineClamp={2} title={url}>
          {url}
        </Text>
      ),
    },
    { header: 'Attempts', kind: 'number', card: 'labelled', cell: ({ attempts }) => attempts },
    { header: 'Created', nowrap: true, card: 'line', cell: ({ created_at }) => <Time at={created_at} /> },
  ]
}

/** A pending delivery is failing after its first attempt. */
export function stateOf({ status, attempts }: Delivery): string {
  return status === 'pending' && attempts > 0 ? 'failing' : status
}

/** The attempts of a pending delivery, and when the next one is due. */
export function Next({ delivery }: { delivery: Delivery }) {
  const { attempts, max_attempts: max, next_attempt_at: next } = delivery
  if (next === null) return null
  return (
    <Text size="xs" c="dimmed" component="div" style={{ whiteSpace: 'nowrap' }}>
      {attempts > 0 && `${attempts} of ${max} attempts, `}
      {Date.parse(next) <= Date.now() ? 'sending' : `next ${timeOfDay(next)}`}
    </Text>
  )
}
