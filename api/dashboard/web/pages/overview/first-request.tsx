import { Anchor, Button, Group, Loader, Text } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { Link } from 'wouter'
import type { FirstRequestAnswer } from '../../../wire/first-steps.ts'
import { call } from '../../api.ts'
import { usePlace } from '../../session.tsx'

const pollMs = 2_000
/** About ten minutes, after which a click polls again. */
const maxPolls = 300

/** Waits for the organisation's first request, then links to its page. */
export function FirstRequest() {
  const { id, base, home } = usePlace()
  const queries = useQueryClient()
  const [lastPoll, setLastPoll] = useState(maxPolls)
  const queryKey = [id, 'first-request']
  const { data, isError } = useQuery({
    queryKey,
    queryFn: async ({ signal }) => (await call<FirstRequestAnswer>(`${base}/first-request`, { signal })).data,
    refetchInterval: ({ state }) => {
      const polls = state.dataUpdateCount + state.errorUpdateCount
      return state.data || polls >= lastPoll ? false : pollMs
    },
  })
  const arrivedId = data?.id
  useEffect(() => {
    if (arrivedId) void queries.invalidateQueries({ queryKey: [id, 'overview'] })
  }, [arrivedId, id, queries])
  if (data)
    return (
      <Text size="sm" role="status">
        Your first request has arrived:{' '}
        <Anchor component={Link} href={`${home}/requests/${data.id}`} inherit underline="always">
          see what happened to it
        </Anchor>
      </Text>
    )
  const polls = queries.getQueryState(queryKey)
  const isWaiting = !polls || polls.dataUpdateCount + polls.errorUpdateCount < lastPoll
  return (
    <Group gap="xs" role="status">
      {isWaiting ? (
        <>
          <Loader size={14} type="dots" aria-hidden />
          <Text size="sm">
            {isError ? 'The gateway does not answer. Trying again…' : 'Waiting for your first request…'}
          </Text>
        </>
      ) : (
        <Button
          size="compact-sm"
          variant="default"
          onClick={() => {
            setLastPoll((polls?.dataUpdateCount ?? 0) + (polls?.errorUpdateCount ?? 0) + maxPolls)
            void queries.invalidateQueries({ queryKey })
          }}
        >
          Check for requests again
        </Button>
      )}
    </Group>
  )
}
