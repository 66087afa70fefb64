import { ActionIcon, Button, Group, Tooltip } from '@mantine/core'
import { IconChevronLeft, IconChevronRight } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link, useLocation } from 'wouter'
import type { RequestDetail, RequestNeighbours } from '../../../wire/requests.ts'
import { call, queryText } from '../../api.ts'
import { listAddress } from '../../components/list-address.ts'
import { usePlace } from '../../session.tsx'
import { fieldsOf } from '../playground/opened-request.ts'
import { setPrefill } from '../playground/prefill.ts'
import { namedModel, outlineOf } from './body.ts'
import { tabs } from './paths.ts'
import { filterNames } from './queries.ts'
import { Replay } from './replay.tsx'

const spanNames = ['span', 'from', 'to']

/** What can be done with a request. `body`: its logged input, if it is at hand. */
export function Actions({ request, body }: { request: RequestDetail; body: object | null }) {
  return (
    <Group gap="xs">
      <Neighbours id={request.id} />
      <OpenInPlayground request={request} body={body} />
      {body && <Replay request={request} body={body} />}
    </Group>
  )
}

function OpenInPlayground({ request, body }: { request: RequestDetail; body: object | null }) {
  const { home, has } = usePlace()
  const [, go] = useLocation()
  const { type, model } = request
  const tab = tabs[type]
  if (tab === undefined || model === '' || !has('playground')) return null
  const open = () => {
    // Without its input, only the settings are known.
    const { messages: _, input: __, prompt: ___, ...settings } = outlineOf(request) as Record<string, unknown>
    setPrefill(fieldsOf(type, body ?? settings))
    go(`${home}/playground/${tab}?model=${encodeURIComponent(namedModel(request))}`)
  }
  return (
    <Button variant="default" onClick={open}>
      Open in playground
    </Button>
  )
}

/** Links to the next newer and older request of the list that was open, with its filters. */
function Neighbours({ id }: { id: string }) {
  const { id: organisation, base, home } = usePlace()
  const [, search = ''] = listAddress(`${home}/requests`).split('?')
  const all = new URLSearchParams(search)
  const filters = Object.fromEntries([...filterNames, ...spanNames].map(name => [name, all.get(name) ?? '']))
  const { data } = useQuery({
    queryKey: [organisation, 'requests', 'neighbours', id, filters],
    queryFn: ({ signal }) =>
      call<RequestNeighbours>(`${base}/requests/${encodeURIComponent(id)}/neighbours${queryText(filters)}`, { signal }),
  })
  return (
    <ActionIcon.Group>
      <Neighbour id={data?.newer ?? null} label="Newer request" icon={<IconChevronLeft size={18} aria-hidden />} />
      <Neighbour id={data?.older ?? null} label="Older request" icon={<IconChevronRight size={18} aria-hidden />} />
    </ActionIcon.Group>
  )
}

function Neighbour({ id, label, icon }: { id: string | null; label: string; icon: React.ReactNode }) {
  const { home } = usePlace()
  if (id === null)
    return (
      <ActionIcon variant="default" size={36} disabled aria-label={label}>
        {icon}
      </ActionIcon>
    )
  return (
    <Tooltip label={`${label}, with the filters of the list`}>
      <ActionIcon component={Link} href={`${home}/requests/${id}`} variant="default" size={36} aria-label={label}>
        {icon}
      </ActionIcon>
    </Tooltip>
  )
}
