import { Alert, Button, Group, Text } from '@mantine/core'
import { IconMailExclamation } from '@tabler/icons-react'
import { useMutation } from '@tanstack/react-query'
import type { Me } from '../../wire/person.ts'
import { callAuth } from '../api.ts'
import { usePublicSettings } from '../session.tsx'

/** Says that the address is not confirmed yet, and sends the link again. */
export function VerifyNotice({ me }: { me: Me }) {
  const settings = usePublicSettings()
  const again = useMutation({ mutationFn: () => callAuth('send-verification-email', { email: me.email }) })
  return (
    <Alert color="yellow" variant="light" icon={<IconMailExclamation aria-hidden />} title="Confirm your email address">
      <Group gap="sm">
        <Text size="sm">We sent a link to {me.email}. Keys can be created once the address is confirmed.</Text>
        <Button
          size="compact-sm"
          variant="default"
          loading={again.isPending}
          disabled={again.isSuccess}
          onClick={() => again.mutate()}
        >
          {again.isSuccess ? 'Sent' : 'Send the link again'}
        </Button>
        {settings.data?.outbox && (
          <Button size="compact-sm" variant="default" component="a" href="/dashboard/outbox">
            Open the development outbox
          </Button>
        )}
        {again.error && (
          <Text size="sm" c="red" role="alert">
            {again.error.message}
          </Text>
        )}
      </Group>
    </Alert>
  )
}
