import { Button, Stack, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import { call } from '../../api.ts'
import { Confirm } from '../../components/confirm.tsx'
import { count } from '../../format.ts'
import { useChange } from '../../use-change.ts'

/** Removes the cached answers of the organisation, after a confirmation. */
export function ResponseCache() {
  const [isAsked, setAsked] = useState(false)
  const clear = useChange<void, { cleared: number }>(
    { path: '/response-cache', queryKey: ['audit'] },
    base => call(base, { method: 'DELETE' }),
    ({ cleared }) => {
      setAsked(false)
      notifications.show({
        message: cleared === 1 ? 'One cached answer was removed' : `${count(cleared)} cached answers were removed`,
      })
    },
  )
  return (
    <Stack maw={640}>
      <Text size="sm">
        API keys whose policy has a response cache answer equal requests from it, free. The page of a request shows
        whether it was a hit.
      </Text>
      <Button variant="default" w="fit-content" disabled={clear.isRefused} onClick={() => setAsked(true)}>
        Clear cache
      </Button>
      {isAsked && (
        <Confirm
          title="Clear the response cache"
          action="Clear cache"
          danger={false}
          pending={clear.isPending}
          error={clear.error}
          onConfirm={() => clear.mutate()}
          onClose={() => setAsked(false)}
        >
          Removes the cached answers of all API keys of this organisation, live and test. The next equal requests are
          run and charged.
        </Confirm>
      )}
    </Stack>
  )
}
