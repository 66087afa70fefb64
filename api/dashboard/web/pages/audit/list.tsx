import { Text } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import type { AuditAnswer, AuditEvent } from '../../../wire/audit.ts'
import { call, queryText } from '../../api.ts'
import type { Column } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { programOf } from '../account/browser.ts'
import { sentenceOf } from './actions.ts'
import { ChangeList } from './changes.tsx'
import type { AuditFilters } from './filters.tsx'

const pageSize = 50
const viaTexts: Record<AuditEvent['via'], string> = {
  dashboard: 'in the dashboard',
  api: 'by the API, with a provisioning key',
  command_line: 'on the command line',
  service: 'by the gateway itself',
}

/** The entries of the audit log that match filters, paginated. */
export function useAudit(filters: AuditFilters) {
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
    card: 'line',
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
    width: 200,
    maxWidth: 230,
    card: 'line',
    cell: ({ actor, via }) => (
      <>
        <Text size="sm">{actor.name}</Text>
        <Text size="xs" c="dimmed">
          {actor.kind === 'operator' && via !== 'service' && 'service operator, '}
          {viaTexts[via]}
        </Text>
      </>
    ),
  },
  { header: 'Action', kind: 'rowHeader', maxWidth: 260, card: 'lead', cell: event => <Sentence event={event} /> },
  { header: 'Change', maxWidth: 280, card: 'line', cell: event => <ChangeList {...event} /> },
  { header: 'From', width: 130, maxWidth: 170, card: 'line', cell: event => <Client event={event} /> },
]

/** The address and the program that a change came from, if they are known. */
function Client({ event: { ip_address: address, user_agent: agent } }: { event: AuditEvent }) {
  if (address === null) return null
  return (
    <>
      <Text size="xs" ff="monospace">
        {address}
      </Text>
      {agent !== null && (
        <Text size="xs" c="dimmed" lineClamp={2} title={agent}>
          {programOf(agent)}
        </Text>
      )}
    </>
  )
}

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
