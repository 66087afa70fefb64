import { Button, Group, Stack, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { OpenModal } from './dialogs.tsx'
import { Failure } from './states.tsx'

/** A confirmation dialog for an action that cannot be undone. */
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
  /** The label of the confirming button, a verb: "Revoke key". */
  action: string
  pending: boolean
  error: Error | null
  danger?: boolean
  /** The label of the cancelling button. */
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
