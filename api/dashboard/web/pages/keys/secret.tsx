import { Alert, Button, Group, Stack, Text, Title } from '@mantine/core'
import { IconAlertTriangle } from '@tabler/icons-react'
import type { KeySecretAnswer } from '../../../wire/keys.ts'
import { useModels } from '../../catalog.ts'
import { CodeBox, Snippets } from '../../components/copy.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { noteSecretKept } from '../../first-key.ts'
import { usePlace } from '../../session.tsx'
import { ConnectAgent } from './connect.tsx'
import { snippetsOf } from './snippets.ts'

/** Shows a new secret once, until it is dismissed explicitly. */
export function SecretDialog({ answer, onClose }: { answer: KeySecretAnswer; onClose: () => void }) {
  const models = useModels().data ?? []
  const { id } = usePlace()
  const { data, key } = answer
  const close = () => {
    noteSecretKept(id)
    onClose()
  }
  return (
    <OpenModal
      onClose={onClose}
      size="lg"
      title={`Secret of “${data.name}”`}
      closeOnClickOutside={false}
      closeOnEscape={false}
      withCloseButton={false}
    >
      <Stack>
        <Alert color="yellow" variant="light" icon={<IconAlertTriangle aria-hidden />} title="Copy your secret now">
          It will not be shown again, because the gateway stores only a hash. If you lose it, roll the key.
        </Alert>
        <CodeBox code={key} label="Secret" />
        <div>
          <Title order={3}>First request</Title>
          <Text size="sm" c="dimmed" mb="xs">
            {data.environment === 'test'
              ? 'Test keys are answered by the sandbox, and nothing is charged.'
              : 'Live keys call real providers and spend the organisation’s credits.'}
          </Text>
          <Snippets snippets={snippetsOf(data, key, models)} />
        </div>
        {(data.scopes === '*' || data.scopes.split(',').includes('chat')) && (
          <div>
            <Title order={3}>Connect an agent</Title>
            <ConnectAgent limits={data} secret={key} />
          </div>
        )}
        <Group justify="flex-end">
          <Button onClick={close}>I have copied it</Button>
        </Group>
      </Stack>
    </OpenModal>
  )
}
