import { Anchor, Text } from '@mantine/core'
import type { Delivery } from '../../../wire/webhooks.ts'
import { Status } from '../../components/status.tsx'
import type { Column } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'

export function deliveryColumns(onOpen: (delivery: string) => void): Column<Delivery>[] {
  return [
    {
      header: 'Event',
      kind: 'rowHeader',
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
      cell: delivery => (
        <>
          <Status value={delivery.status} />
          <Next delivery={delivery} />
        </>
      ),
    },
    {
      header: 'URL',
      maxWidth: 320,
      cell: ({ url }) => (
        <Text size="sm" lineClamp={2} title={url}>
          {url}
        </Text>
      ),
    },
    { header: 'Attempts', kind: 'number', cell: ({ attempts }) => attempts },
    { header: 'Created', nowrap: true, cell: ({ created_at }) => <Time at={created_at} /> },
  ]
}

/** When the next attempt of a pending delivery is due. */
export function Next({ delivery: { next_attempt_at: next } }: { delivery: Pick<Delivery, 'next_attempt_at'> }) {
  if (next === null) return null
  return (
    <Text size="xs" c="dimmed" component="div" style={{ whiteSpace: 'nowrap' }}>
      {Date.parse(next) <= Date.now() ? (
        'sending'
      ) : (
        <>
          next attempt <Time at={next} />
        </>
      )}
    </Text>
  )
}
