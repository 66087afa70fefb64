import { Text } from '@mantine/core'
import { useSearchParams } from 'wouter'

/** For those who came by the link of an invitation, which is shown to the person whom it was sent to. */
export function InvitationNote() {
  const [search] = useSearchParams()
  if (!search.get('next')?.startsWith('/dashboard/invitations/')) return null
  return (
    <Text size="sm">
      You are invited to an organisation. Sign in or create an account with the email address that the invitation was
      sent to.
    </Text>
  )
}
