import { Button, Group, Stack, Text, Title } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useLocation, useParams } from 'wouter'
import { call, callAuth, queryText } from '../../api.ts'
import { Failure, Pending, Show } from '../../components/states.tsx'
import { useTitle } from '../../components/title.ts'
import { day } from '../../format.ts'
import { useMe } from '../../session.tsx'
import { VerifyNotice } from '../../shell/verify-notice.tsx'

type Invitation = {
  id: string
  organizationId: string
  organizationName: string
  inviterEmail: string
  role: string
  email: string
  expiresAt: string
}

export default function InvitationPage() {
  useTitle('Invitation')
  const { id } = useParams<{ id: string }>()
  const me = useMe()
  const queries = useQueryClient()
  const [, navigate] = useLocation()
  const invitation = useQuery({
    queryKey: ['invitation', id],
    queryFn: () => call<Invitation>(`/dashboard/api/auth/organization/get-invitation${queryText({ id })}`),
    enabled: me.data?.email_verified === true,
  })
  const answer = useMutation({
    mutationFn: (verb: 'accept' | 'reject') => callAuth(`organization/${verb}-invitation`, { invitationId: id }),
    onSuccess: async (_, verb) => {
      await queries.invalidateQueries({ queryKey: ['me'] })
      navigate(verb === 'accept' ? `/${invitation.data!.organizationId}` : '/welcome')
    },
  })
  return (
    <Stack>
      <Title order={1}>Invitation</Title>
      {!me.data && <Pending query={me} rows={2} />}
      {me.data && !me.data.email_verified && <VerifyNotice me={me.data} />}
      {me.data?.email_verified && (
        <Show query={invitation} rows={2}>
          {({ organizationName, inviterEmail, role, expiresAt }) => (
            <Stack>
              <Text>
                {inviterEmail} invites you to <b>{organizationName}</b> as {role}. The invitation expires{' '}
                {day(expiresAt)}.
              </Text>
              {answer.error && <Failure error={answer.error} />}
              <Group>
                <Button
                  loading={answer.isPending && answer.variables === 'accept'}
                  disabled={answer.isPending}
                  onClick={() => answer.mutate('accept')}
                >
                  Join {organizationName}
                </Button>
                <Button
                  variant="default"
                  loading={answer.isPending && answer.variables === 'reject'}
                  disabled={answer.isPending}
                  onClick={() => answer.mutate('reject')}
                >
                  Decline
                </Button>
              </Group>
            </Stack>
          )}
        </Show>
      )}
      {me.data && (
        <Text size="sm" c="dimmed">
          You are signed in as {me.data.email}. <Link href="/welcome">Back to the dashboard</Link>
        </Text>
      )}
    </Stack>
  )
}
