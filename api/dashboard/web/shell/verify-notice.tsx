import { Alert, Button, Group, Text } from '@mantine/core'
import { IconMailExclamation } from '@tabler/icons-react'
import { useMutation } from '@tanstack/react-query'
import type { Me } from '../../wire/person.ts'
import { callAuth } from '../api.ts'
import { usePublicSettings } from '../session.tsx'

/** A notice that the email address is not confirmed, with a button that resends the link. */
export function VerifyNotice({ me }: { me: Me }) {
  const settings = usePublicSettings()
  const resend = useMutation({ mutationFn: () => callAuth('send-verification-email', { email: me.email }) })
  return (
    <Alert color="yellow" variant="light" icon={<IconMailExclamation aria-hidden />} title="Confirm your email address">
      <Group gap="sm">
        <Text size="sm">
          We sent a link to {me.email}. Confirm it to create live keys, add credits and invite members.
        </Text>
        <Button
          size="compact-sm"
          variant="default"
          loading={resend.isPending}
          disabled={resend.isSuccess}
          onClick={() => resend.mutate()}
        >
          {resend.isSuccess ? 'Sent' : 'Resend link'}
        </Button>
        {settings.data?.outbox && (
          <Button size="compact-sm" variant="default" component="a" href="/dashboard/outbox">
            Open the development outbox
          </Button>
        )}
        {resend.error && (
          <Text size="sm" c="red" role="alert">
            {resend.error.message}
          </Text>
        )}
      </Group>
    </Alert>
  )
}
