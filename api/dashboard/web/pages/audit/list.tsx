import { Text } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import type { AuditAnswer, AuditEvent } from '../../../wire/audit.ts'
import { call, queryText } from '../../api.ts'
import type { Column } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { sentenceOf } from './actions.ts'
import { ChangeList } from './changes.tsx'

const pageSize = 50
const actorNotes: Record<AuditEvent['actor']['kind'], string | null> = {
  user: null,
  provisioning_key: 'by provisioning key',
  operator: 'service operator',
}

/** The entries of the audit log that match filters, paginated. */
export function useAudit(filters: { actor?: string; action?: string; target?: string }) {
  const { id, base } = usePlace()
  return useInfiniteQuery({
    queryKey: [id, 'audit', filters],
    queryFn: ({ pageParam, signal }) =>
      call<AuditAnswer>(`${base}/audit${queryText({ ...filters, limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
  })
}

export const auditColumns: Column<AuditEvent>[] = [
  {
    header: 'Time',
    nowrap: true,
    cell: ({ at }) => (
      <>
        <Text size="sm">{moment(at)}</Text>
        <Text size="xs" c="dimmed" component="div">
          <Time at={at} />
        </Text>
      </>
    ),
  },
  {
    header: 'Actor',
    maxWidth: 220,
    cell: ({ actor }) => (
      <>
        <Text size="sm">{actor.name}</Text>
        {actorNotes[actor.kind] && (
          <Text size="xs" c="dimmed">
            {actorNotes[actor.kind]}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Action', kind: 'rowHeader', maxWidth: 260, cell: event => <Sentence event={event} /> },
  { header: 'Change', maxWidth: 320, cell: event => <ChangeList {...event} /> },
]

function Sentence({ event }: { event: AuditEvent }) {
  const { text, object } = sentenceOf(event)
  return (
    <Text size="sm">
      {text}
      {object !== null && (
        <Text span inherit fw={500}>
          {' '}
          {object}
        </Text>
      )}
    </Text>
  )
}
