import { Anchor, Button, Group, Stack } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import type { KeysAnswer } from '../../../wire/keys.ts'
import { call, queryText } from '../../api.ts'
import { useModels } from '../../catalog.ts'
import { CodeBox, Snippets } from '../../components/copy.tsx'
import { Failure } from '../../components/states.tsx'
import { createFirstKey, forgetFirstKey, isSecretKept, noteSecretKept, readFirstKey } from '../../first-key.ts'
import { usePlace } from '../../session.tsx'
import { RollDialog } from '../keys/roll.tsx'
import { snippetsOf } from '../keys/snippets.ts'

type FirstKey = ReturnType<typeof useFirstKey>

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
  const [isKept, setKept] = useState(() => isSecretKept(id))
  const keep = () => {
    noteSecretKept(id)
    forgetFirstKey()
    setKept(true)
    setAnswer(null)
  }
  return { answer, create, isKept, keep, show: setAnswer }
}

/** The secret with example requests; else a button that creates the key, or one that gives the key another secret. */
export function FirstKeyStep({ firstKey, keyExists }: { firstKey: FirstKey; keyExists: boolean }) {
  const { home, may } = usePlace()
  const models = useModels().data ?? []
  const { answer, create, keep } = firstKey
  if (!answer && keyExists) return <LostSecret firstKey={firstKey} />
  if (!answer)
    return (
      <Stack gap="xs" align="flex-start">
        {may('own') ? (
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
        <Button size="compact-sm" variant="default" onClick={keep}>
          I have copied it
        </Button>
      </Group>
    </Stack>
  )
}

/** For a key whose secret was shown once, and perhaps not copied: only a new secret helps then. */
function LostSecret({ firstKey: { keep, show } }: { firstKey: FirstKey }) {
  const { id, base, home } = usePlace()
  const [isRolling, setRolling] = useState(false)
  const { data: key } = useQuery({
    queryKey: [id, 'keys', 'first'],
    queryFn: async ({ signal }) => {
      const { data } = await call<KeysAnswer>(`${base}/keys${queryText({ limit: 20, order: 'asc' })}`, { signal })
      return data.find(one => one.environment === 'test' && one.status === 'active' && one.may_manage) ?? null
    },
  })
  return (
    <Stack gap="xs">
      <div>
        The secret of {key ? `“${key.name}” (…${key.last4})` : 'your key'} was shown once and is not stored. If you have
        it, go on; if not, roll the key to get a new secret.
      </div>
      <Group gap="xs">
        <Button size="compact-sm" variant="default" onClick={keep}>
          I have the secret
        </Button>
        {key ? (
          <Button size="compact-sm" onClick={() => setRolling(true)}>
            Roll the key
          </Button>
        ) : (
          <Anchor component={Link} href={`${home}/keys`} inherit underline="always">
            Open API keys
          </Anchor>
        )}
      </Group>
      {key && isRolling && (
        <RollDialog apiKey={key} onRolled={show} onDone={() => setRolling(false)} onClose={() => setRolling(false)} />
      )}
    </Stack>
  )
}
