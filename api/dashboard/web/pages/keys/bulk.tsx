import { Button, Checkbox, Group, List, Stack, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import type { DashboardKey } from '../../../wire/keys.ts'
import { Confirm } from '../../components/confirm.tsx'
import { count, usd } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { type BulkAction, type Failed, requestOf, useBulkChange } from './bulk-change.ts'
import { CapInput } from './policy-fields.tsx'

const maxNamed = 8

/** Whether a key can be selected: one that the viewer may change. Revocation is permanent. */
export function isSelectable({ may_manage, status, disabled }: DashboardKey): boolean {
  return may_manage && (disabled || status !== 'revoked')
}

const keysWord = (keys: readonly unknown[]) => (keys.length === 1 ? '1 key' : `${count(keys.length)} keys`)

const texts: Record<BulkAction, { button: string; done: string; consequence: string }> = {
  disable: {
    button: 'Disable',
    done: 'disabled',
    consequence: 'Their requests are refused with 401 immediately, and running streams end. You can enable them again.',
  },
  enable: { button: 'Enable', done: 'enabled', consequence: 'They work again immediately, unless they have expired.' },
  cap: { button: 'Set cap', done: 'capped', consequence: 'The cap replaces the one that each of these keys has.' },
  revoke: {
    button: 'Revoke',
    done: 'revoked',
    consequence:
      'All their secrets stop working immediately. This cannot be undone. To block keys temporarily, disable them instead.',
  },
}

type Selection = { keys: DashboardKey[]; selected: DashboardKey[]; onSelect: (keys: DashboardKey[]) => void }

/** The keys of a list that are selected, and what can be done to them. */
export function BulkBar({ keys, selected, onSelect }: Selection) {
  const { suspended } = usePlace()
  const [asked, setAsked] = useState<{ action: BulkAction; keys: DashboardKey[] } | null>(null)
  const selectable = keys.filter(isSelectable)
  if ((suspended || selectable.length === 0) && !asked) return null
  const isAll = selected.length === selectable.length
  return (
    <Group gap="sm" mih={30}>
      <Checkbox
        label={selected.length === 0 ? 'Select all' : `${keysWord(selected)} selected`}
        checked={isAll}
        indeterminate={selected.length > 0 && !isAll}
        onChange={() => onSelect(isAll ? [] : selectable)}
      />
      {selected.length > 0 && (
        <Group gap="xs" role="group" aria-label="Selected keys">
          {(['disable', 'enable', 'cap'] as const).map(one => (
            <Button
              key={one}
              size="compact-sm"
              variant="default"
              onClick={() => setAsked({ action: one, keys: selected })}
            >
              {texts[one].button}
            </Button>
          ))}
          <Button
            size="compact-sm"
            variant="light"
            color="red"
            onClick={() => setAsked({ action: 'revoke', keys: selected })}
          >
            {texts.revoke.button}
          </Button>
        </Group>
      )}
      {asked && (
        <BulkDialog
          {...asked}
          onFailed={failed => onSelect(failed.map(({ key }) => key))}
          onClose={() => setAsked(null)}
        />
      )}
    </Group>
  )
}

/** Confirms a change of several keys, makes it, and lists what failed: those keys stay selected, so that it can be repeated. */
function BulkDialog({
  action,
  keys,
  onFailed,
  onClose,
}: {
  action: BulkAction
  keys: DashboardKey[]
  onFailed: (failed: Failed[]) => void
  onClose: () => void
}) {
  const [capUsd, setCapUsd] = useState<number | string>('')
  const change = useBulkChange()
  const failed = change.data ?? []
  const { button, done, consequence } = texts[action]
  const label = `${button}${action === 'cap' ? ' of' : ''} ${keysWord(keys)}`
  // An empty field removes the caps, so the button says that until an amount is entered.
  const isUncapping = action === 'cap' && capUsd === ''
  const apply = () =>
    change.mutate(
      { keys: failed.length > 0 ? failed.map(({ key }) => key) : keys, request: requestOf(action, capUsd) },
      {
        onSuccess: failures => {
          onFailed(failures)
          if (failures.length > 0) return
          notifications.show({ title: `${keysWord(keys)} ${done}`, message: 'Changes apply to the next request.' })
          onClose()
        },
      },
    )
  return (
    <Confirm
      title={failed.length > 0 ? `${keysWord(failed)} not ${done}` : label}
      action={failed.length > 0 ? 'Try again' : isUncapping ? `Remove cap of ${keysWord(keys)}` : label}
      danger={action === 'revoke' || action === 'disable' || isUncapping}
      dismiss={failed.length > 0 ? 'Close' : 'Cancel'}
      pending={change.isPending}
      error={change.error}
      onConfirm={apply}
      onClose={onClose}
    >
      {failed.length > 0 ? (
        <Failures failed={failed} />
      ) : (
        <Stack gap="sm">
          <span>{consequence}</span>
          {action === 'cap' && <CapInput value={capUsd} onChange={setCapUsd} hasFocus />}
          {action === 'cap' && <Stopped keys={keys} capUsd={capUsd} />}
          <Names keys={keys} />
        </Stack>
      )}
    </Confirm>
  )
}

function Names({ keys }: { keys: DashboardKey[] }) {
  return (
    <List size="sm" aria-label="Keys to change">
      {keys.slice(0, maxNamed).map(({ id, name, prefix, last4 }) => (
        <List.Item key={id} style={{ overflowWrap: 'anywhere' }}>
          {name}{' '}
          <Text span size="xs" ff="monospace" c="dimmed">
            {prefix}…{last4}
          </Text>
        </List.Item>
      ))}
      {keys.length > maxNamed && <List.Item>and {count(keys.length - maxNamed)} more</List.Item>}
    </List>
  )
}

/** The keys that a cap blocks until the next month. Test keys spend nothing. */
function Stopped({ keys, capUsd }: { keys: DashboardKey[]; capUsd: number | string }) {
  const spent =
    capUsd === '' ? [] : keys.filter(key => key.environment === 'live' && key.spend_month_usd >= Number(capUsd))
  if (spent.length === 0) return null
  return (
    <Text size="sm" c="orange.9" role="status">
      {keysWord(spent)} spent {usd(Number(capUsd))} or more this month and will be refused with 402 until the next one
      (UTC).
    </Text>
  )
}

function Failures({ failed }: { failed: Failed[] }) {
  return (
    <Stack gap="sm" role="alert">
      <span>All other keys were changed. These were not, and stay selected:</span>
      <List size="sm">
        {failed.map(({ key: { id, name }, error }) => (
          <List.Item key={id} style={{ overflowWrap: 'anywhere' }}>
            {name}: {error.message}
          </List.Item>
        ))}
      </List>
    </Stack>
  )
}
