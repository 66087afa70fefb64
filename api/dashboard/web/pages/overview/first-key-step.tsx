import { Anchor, Button, Group, Stack } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { useModels } from '../../catalog.ts'
import { CodeBox, Snippets } from '../../components/copy.tsx'
import { Failure } from '../../components/states.tsx'
import { createFirstKey, forgetFirstKey, readFirstKey } from '../../first-key.ts'
import { usePlace } from '../../session.tsx'
import { snippetsOf } from '../keys/snippets.ts'

export type FirstKey = ReturnType<typeof useFirstKey>

/** The organisation's first test key, whose secret is shown until it is dismissed. */
export function useFirstKey() {
  const { id } = usePlace()
  const queries = useQueryClient()
  const [answer, setAnswer] = useState(() => readFirstKey(id))
  const create = useMutation({
    mutationFn: () => createFirstKey(id),
    // The secret is not kept in the cache.
    gcTime: 0,
    onSuccess: async created => {
      setAnswer(created)
      await queries.invalidateQueries({ queryKey: [id] })
    },
  })
  const dismiss = () => {
    forgetFirstKey()
    setAnswer(null)
  }
  return { answer, create, dismiss }
}

/** The secret with example requests, or a button that creates the key. */
export function FirstKeyStep({ firstKey: { answer, create, dismiss } }: { firstKey: FirstKey }) {
  const { home, may } = usePlace()
  const models = useModels().data ?? []
  if (!answer)
    return (
      <Stack gap="xs" align="flex-start">
        {may('owner') ? (
          <Button size="compact-sm" loading={create.isPending} onClick={() => create.mutate()}>
            Create test key
          </Button>
        ) : (
          <Anchor component={Link} href={`${home}/keys`} inherit underline="always">
            Create one under API keys
          </Anchor>
        )}
        {create.error && <Failure error={create.error} />}
      </Stack>
    )
  return (
    <Stack gap="xs">
      <div>
        Copy the secret now: it is not shown again, because the gateway stores only a hash. Test keys use the sandbox
        and are free.
      </div>
      <CodeBox code={answer.key} label="Secret" />
      <Snippets snippets={snippetsOf(answer.data, answer.key, models)} />
      <Group>
        <Button size="compact-sm" variant="default" onClick={dismiss}>
          I have copied it
        </Button>
      </Group>
    </Stack>
  )
}
