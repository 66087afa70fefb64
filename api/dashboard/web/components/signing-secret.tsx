import { Code, Group, Stack, Text } from '@mantine/core'
import { Copy } from './copy.tsx'
import { OpenModal } from './dialogs.tsx'

/** Shows a new signing secret, once. */
export function SigningSecret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <OpenModal onClose={onClose} title="Signing secret" centered>
      <Stack>
        <Text size="sm">Copy this secret now: it is shown only once. Your receiver verifies signatures with it.</Text>
        <Group gap={4} wrap="nowrap">
          <Code style={{ overflowWrap: 'anywhere' }}>{secret}</Code>
          <Copy value={secret} label="signing secret" />
        </Group>
      </Stack>
    </OpenModal>
  )
}
