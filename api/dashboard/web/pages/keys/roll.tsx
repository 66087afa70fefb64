import { Radio, Stack } from '@mantine/core'
import { useState } from 'react'
import type { DashboardKey, KeySecretAnswer } from '../../../wire/keys.ts'
import { Confirm } from '../../components/confirm.tsx'
import { moment } from '../../format.ts'
import { useRoll } from './queries.ts'

const overlaps = [
  { hours: 0, label: 'Stop it now', description: 'Choose this if the secret leaked.' },
  { hours: 1, label: 'Works for 1 more hour' },
  { hours: 24, label: 'Works for 24 more hours' },
]

/** Asks how long the old secret of a key keeps working, and rolls it. `onDone` is called after `onRolled`. */
export function RollDialog({
  apiKey,
  onRolled,
  onDone,
  onClose,
}: {
  apiKey: DashboardKey
  onRolled: (answer: KeySecretAnswer) => void
  onDone: () => void
  onClose: () => void
}) {
  const [hours, setHours] = useState(0)
  const roll = useRoll(apiKey.id, onRolled)
  const { prefix, last4, previous_secret_last4: older, previous_secret_valid_until: until } = apiKey
  return (
    <Confirm
      title={`Roll the secret of “${apiKey.name}”`}
      action="Roll secret"
      danger={hours === 0}
      pending={roll.isPending}
      error={roll.error}
      onConfirm={() => roll.mutate(hours, { onSuccess: onDone })}
      onClose={onClose}
    >
      <Stack gap="sm">
        <span>
          The key gets a new secret and keeps its policy and history.{' '}
          {hours === 0
            ? 'Requests with the old secret are refused immediately, so be ready to deploy the new one.'
            : 'Until it stops, both secrets work; limits, cap and spend count the requests of both.'}
        </span>
        <Radio.Group
          label={`Old secret ${prefix}…${last4}`}
          value={String(hours)}
          onChange={value => setHours(Number(value))}
        >
          <Stack gap="xs" mt="xs">
            {overlaps.map(({ hours, ...option }) => (
              <Radio key={hours} value={String(hours)} {...option} />
            ))}
          </Stack>
        </Radio.Group>
        {until !== null && (
          <span>
            The secret …{older}, which an earlier roll left working until {moment(until)}, stops working now.
          </span>
        )}
      </Stack>
    </Confirm>
  )
}
