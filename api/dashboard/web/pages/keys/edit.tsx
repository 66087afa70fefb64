import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { type FormEvent, type ReactNode, useState } from 'react'
import type { DashboardKey, KeySecretAnswer } from '../../../wire/keys.ts'
import { Confirm } from '../../components/confirm.tsx'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Failure, Show } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { moment, percent } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { changedFields, draftOf, isComplete } from './draft.ts'
import { KeyState } from './key-state.tsx'
import { MissingChoices, PolicyFields } from './policy-fields.tsx'
import { useKey, usePatch, useRevoke } from './queries.ts'
import { RollDialog } from './roll.tsx'
import { Spend } from './spend.tsx'

type Handlers = { onRolled: (answer: KeySecretAnswer) => void; onClose: () => void }

/** One API key: its policy and its actions. */
export function KeyDrawer({ name, ...handlers }: { name: string } & Handlers) {
  const key = useKey(name)
  return (
    <OpenDrawer onClose={handlers.onClose} title={key.data?.name ?? 'API key'}>
      <Show query={key}>
        {data => (
          <Stack>
            <Facts apiKey={data} />
            <StateNote apiKey={data} />
            {data.may_manage && (
              <KeyActions apiKey={data} onRolled={handlers.onRolled} onDone={handlers.onClose} size="compact-sm" />
            )}
            <PolicyForm apiKey={data} />
          </Stack>
        )}
      </Show>
    </OpenDrawer>
  )
}

/** Revocation is permanent. */
function isChangeable({ status, disabled }: DashboardKey): boolean {
  return disabled || status !== 'revoked'
}

function Facts({ apiKey }: { apiKey: DashboardKey }) {
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <KeyState apiKey={apiKey} />
        <Status value={apiKey.environment} />
        <Text size="xs" ff="monospace">
          {apiKey.prefix}…{apiKey.last4}
        </Text>
      </Group>
      <Group gap="xl">
        <Fact label="Spend this month">
          <Spend {...apiKey} />
        </Fact>
        {apiKey.cache_hit_share !== null && (
          <Fact label="Cache hits this month">{percent(apiKey.cache_hit_share)} of input tokens</Fact>
        )}
        <Fact label="Last used">
          <Time at={apiKey.last_used_at} />
        </Fact>
        {apiKey.previous_secret_valid_until !== null && (
          <Fact label="Old secret">
            …{apiKey.previous_secret_last4} works until {moment(apiKey.previous_secret_valid_until)}
          </Fact>
        )}
        <Fact label="Created">
          <Time at={apiKey.created_at} />
          {apiKey.created_by !== null && ` by ${apiKey.mine ? 'you' : apiKey.created_by}`}
        </Fact>
      </Group>
    </Stack>
  )
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {label}
      </Text>
      <Text size="sm" component="div">
        {children}
      </Text>
    </div>
  )
}

function StateNote({ apiKey }: { apiKey: DashboardKey }) {
  if (apiKey.status_reason === 'blocked')
    return (
      <Alert color="red" variant="light" title="Blocked by cost control">
        Requests of this key cost more than was reserved for them: the ledger lists the amounts as “Usage above its
        reservation”. Look at these requests, then{' '}
        {apiKey.may_manage
          ? 'enable the key again.'
          : 'ask its creator or an admin of the organisation to enable it again.'}
      </Alert>
    )
  if (!isChangeable(apiKey))
    return (
      <Alert color="gray" variant="light" title="Revoked">
        Revocation is permanent. The key’s requests and spend stay visible.
      </Alert>
    )
  if (!apiKey.may_manage)
    return (
      <Alert color="gray" variant="light" title="Read-only">
        Members can change the keys that they created. Ask an admin of the organisation to change this one.
      </Alert>
    )
  return null
}

function PolicyForm({ apiKey }: { apiKey: DashboardKey }) {
  const { suspended } = usePlace()
  /** The key that the draft began with, so that concurrent changes of others are not reverted. */
  const [begun, setBegun] = useState(apiKey)
  const [draft, setDraft] = useState(() => draftOf(begun))
  const [isTried, setTried] = useState(false)
  const patch = usePatch(apiKey.id)
  const changes = changedFields(draft, begun)
  const isFixed = suspended || !apiKey.may_manage || !isChangeable(apiKey)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (patch.isPending || !isComplete(draft)) return
    patch.mutate(changes, {
      onSuccess: ({ data }) => {
        setBegun(data)
        setDraft(draftOf(data))
        notifications.show({ title: 'API key saved', message: 'Changes apply to the next request.' })
      },
    })
  }
  return (
    <form onSubmit={submit}>
      <Stack>
        <PolicyFields keyId={apiKey.id} draft={draft} onChange={setDraft} disabled={isFixed} />
        {isTried && <MissingChoices draft={draft} />}
        {patch.error && <Failure error={patch.error} />}
        {!isFixed && (
          <Group justify="flex-end">
            <Button type="submit" loading={patch.isPending} disabled={Object.keys(changes).length === 0}>
              Save changes
            </Button>
          </Group>
        )}
      </Stack>
    </form>
  )
}

/** What can be done to a key. `onDone` is called after it was rolled or revoked. */
export function KeyActions({
  apiKey,
  onRolled,
  onDone,
  size,
}: {
  apiKey: DashboardKey
  onRolled: (answer: KeySecretAnswer) => void
  onDone: () => void
  size?: 'compact-sm'
}) {
  const { suspended } = usePlace()
  const [asked, setAsked] = useState<'roll' | 'disable' | 'revoke' | null>(null)
  const toggle = usePatch(apiKey.id)
  const revoke = useRevoke(apiKey.id)
  const shown = `${apiKey.prefix}…${apiKey.last4}`
  const finish = () => {
    setAsked(null)
    onDone()
  }
  // The parent keeps it mounted, because it handles the result of the revocation.
  if (suspended || !isChangeable(apiKey)) return null
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Button
          size={size}
          variant="default"
          loading={toggle.isPending && asked === null}
          onClick={() => (apiKey.disabled ? toggle.mutate({ disabled: false }) : setAsked('disable'))}
        >
          {apiKey.disabled ? 'Enable' : 'Disable'}
        </Button>
        <Button size={size} variant="default" onClick={() => setAsked('roll')}>
          Roll secret
        </Button>
        <Button size={size} variant="light" color="red" onClick={() => setAsked('revoke')}>
          Revoke
        </Button>
      </Group>
      {asked === null && toggle.error && <Failure error={toggle.error} />}
      {asked === 'roll' && (
        <RollDialog apiKey={apiKey} onRolled={onRolled} onDone={finish} onClose={() => setAsked(null)} />
      )}
      {asked === 'disable' && (
        <Confirm
          title={`Disable “${apiKey.name}”`}
          action="Disable key"
          pending={toggle.isPending}
          error={toggle.error}
          onConfirm={() => toggle.mutate({ disabled: true }, { onSuccess: () => setAsked(null) })}
          onClose={() => setAsked(null)}
        >
          Requests with {shown} are refused with 401 immediately, and running streams end. You can enable it again.
        </Confirm>
      )}
      {asked === 'revoke' && (
        <Confirm
          title={`Revoke “${apiKey.name}”`}
          action="Revoke key"
          pending={revoke.isPending}
          error={revoke.error}
          onConfirm={() => revoke.mutate(undefined, { onSuccess: finish })}
          onClose={() => setAsked(null)}
        >
          {shown} stops working immediately{apiKey.previous_secret_last4 !== null && ', and so does its old secret'}.
          This cannot be undone. To block it temporarily, disable it instead.
        </Confirm>
      )}
    </Stack>
  )
}
