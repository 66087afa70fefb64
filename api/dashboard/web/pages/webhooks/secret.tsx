import { Button, Code, Group, Stack, Text, Title } from '@mantine/core'
import { useState } from 'react'
import { Confirm } from '../../components/confirm.tsx'
import { Copy } from '../../components/copy.tsx'
import { Show } from '../../components/states.tsx'
import { moment } from '../../format.ts'
import { useRotate, useSecret } from './queries.ts'

/** The signing secret of webhooks, hidden until requested. */
export function Secret() {
  const [shown, setShown] = useState(false)
  const [asked, setAsked] = useState(false)
  const rotate = useRotate()
  const replace = () =>
    rotate.mutate(undefined, {
      onSuccess: () => {
        setAsked(false)
        setShown(true)
      },
    })
  return (
    <Stack component="section" gap="sm" aria-labelledby="webhook-secret">
      <div>
        <Title order={2} id="webhook-secret">
          Signing secret
        </Title>
        <Text size="sm" c="dimmed" maw={640}>
          Events are signed with this secret, following Standard Webhooks. Verify the signature of the raw body before
          you trust an event, with the standardwebhooks package for your language.
        </Text>
      </div>
      {shown && <ShownSecret />}
      <Group gap="xs">
        <Button variant="default" aria-expanded={shown} onClick={() => setShown(!shown)}>
          {shown ? 'Hide secret' : 'Show secret'}
        </Button>
        <Button variant="default" onClick={() => setAsked(true)}>
          Rotate secret
        </Button>
      </Group>
      {asked && (
        <Confirm
          title="Rotate the signing secret"
          action="Rotate secret"
          danger={false}
          pending={rotate.isPending}
          error={rotate.error}
          onConfirm={replace}
          onClose={() => setAsked(false)}
        >
          Creates a new secret. For 24 hours, events are signed with both secrets so that you can update your receivers.
          If you rotate again within that time, the oldest secret expires immediately.
        </Confirm>
      )}
    </Stack>
  )
}

function ShownSecret() {
  const secret = useSecret()
  return (
    <Show query={secret} rows={1}>
      {({ secret, previous_valid_until }) => (
        <div>
          <Group gap={4} wrap="nowrap">
            <Code style={{ overflowWrap: 'anywhere' }}>{secret}</Code>
            <Copy value={secret} label="signing secret" />
          </Group>
          {previous_valid_until !== null && (
            <Text size="sm" mt="xs">
              The previous secret is also used until {moment(previous_valid_until)}.
            </Text>
          )}
        </div>
      )}
    </Show>
  )
}
