import { Button, Group, Stack, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { OpenModal } from './dialogs.tsx'
import { Failure } from './states.tsx'

/** Asks before something that cannot be taken back. */
export function Confirm({
  title,
  children,
  action,
  pending,
  error,
  danger = true,
  dismiss = 'Cancel',
  onConfirm,
  onClose,
}: {
  title: string
  children: ReactNode
  /** What the button does, as a verb: "Revoke key". */
  action: string
  pending: boolean
  error: Error | null
  danger?: boolean
  /** What the button that changes nothing says. */
  dismiss?: string
  onConfirm: () => void
  onClose: () => void
}) {
  return (
    <OpenModal onClose={onClose} title={title} centered>
      <Stack>
        <Text size="sm" component="div">
          {children}
        </Text>
        {error && <Failure error={error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} data-autofocus={danger || undefined}>
            {dismiss}
          </Button>
          <Button
            color={danger ? 'red.9' : undefined}
            loading={pending}
            onClick={onConfirm}
            data-autofocus={!danger || undefined}
          >
            {action}
          </Button>
        </Group>
      </Stack>
    </OpenModal>
  )
}
