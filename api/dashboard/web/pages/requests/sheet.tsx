import { Anchor, Group, Text } from '@mantine/core'
import { useHotkeys } from '@mantine/hooks'
import { Fragment } from 'react'
import { Link, useLocation } from 'wouter'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Show } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { Verdict } from './detail.tsx'
import { hasCode } from './paths.ts'
import { useRequest } from './queries.ts'
import { Request } from './request.tsx'
import { typeName } from './types.ts'

/**
 * One request beside the list. The arrow keys go to its neighbours, Enter opens its page.
 */
export function RequestSheet({
  id,
  neighbours: [previous, next],
  onOpen,
  onClose,
}: {
  id: string
  neighbours: [previous: string | null, next: string | null]
  onOpen: (id: string) => void
  onClose: () => void
}) {
  const { home, isOperatorView } = usePlace()
  const [, go] = useLocation()
  const request = useRequest(id)
  const page = `${home}/requests/${id}`
  const parts = [
    { label: 'page', hash: '' },
    ...(isOperatorView ? [] : [{ label: 'input and output', hash: '#content' }]),
    ...(request.data && hasCode(request.data) ? [{ label: 'code', hash: '#code' }] : []),
  ]
  useHotkeys([
    ['ArrowUp', () => previous !== null && onOpen(previous)],
    ['ArrowDown', () => next !== null && onOpen(next)],
    ['Enter', () => go(page)],
  ])
  return (
    <OpenDrawer onClose={onClose} size="xl" title={request.data ? `${typeName(request.data.type)} request` : 'Request'}>
      <Group justify="space-between" mb="md">
        {request.data ? <Verdict request={request.data} /> : <span />}
        <Text size="xs" c="dimmed">
          ↑ ↓ for its neighbours; open{' '}
          {parts.map(({ label, hash }, i) => (
            <Fragment key={label}>
              {i > 0 && (i < parts.length - 1 ? ', ' : ' or ')}
              <Anchor component={Link} href={page + hash} inherit underline="always">
                {label}
              </Anchor>
            </Fragment>
          ))}
        </Text>
      </Group>
      <Show query={request}>{data => <Request request={data} isNarrow />}</Show>
    </OpenDrawer>
  )
}
