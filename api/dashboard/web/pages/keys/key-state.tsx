import { Text } from '@mantine/core'
import type { DashboardKey } from '../../../wire/keys.ts'
import { Status } from '../../components/status.tsx'
import { stateOf } from './state.ts'

/** The state of a key, and what to know about it. */
export function KeyState({ apiKey }: { apiKey: DashboardKey }) {
  const { value, note } = stateOf(apiKey)
  return (
    <>
      <Status value={value} />
      {note !== null && (
        <Text size="xs" c="dimmed">
          {note}
        </Text>
      )}
    </>
  )
}
