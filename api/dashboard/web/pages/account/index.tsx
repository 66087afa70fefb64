import { Badge, Button, Group, PasswordInput, Stack, Text, TextInput, VisuallyHidden } from '@mantine/core'
import { type UseMutationResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { call, callAuth } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { Page } from '../../components/page.tsx'
import { Section } from '../../components/section.tsx'
import { Failure, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Together } from '../../components/together.tsx'
import { useMe } from '../../session.tsx'
import { browserOf } from './browser.ts'
import { Passkeys } from './passkeys.tsx'
import { TwoFactor } from './two-factor.tsx'

export default function Account() {
  const me = useMe()
  return (
    <Page
      title="Account"
      actions={
        <Button component={Link} href="/welcome?new" variant="default">
          New organisation
        </Button>
      }
    >
      <Together gap="xl">
        <Show query={me}>
          {person => (
            <Stack gap="xl" maw={560}>
              <Section title="Name">
                <NameForm name={person.name} />
              </Section>
              <Section title="Email">
                <EmailForm email={person.email} isVerified={person.email_verified} />
              </Section>
              {person.has_password && (
                <Section title="Password">
                  <PasswordForm />
                </Section>
              )}
              <Section title="Two-factor sign-in">
                <TwoFactor me={person} />
              </Section>
              <Section title="Passkeys">
                <Passkeys me={person} />
              </Section>
            </Stack>
          )}
        </Show>
        <Section title="Sessions">
          <Sessions />
        </Section>
      </Together>
    </Page>
  )
}

function NameForm({ name: current }: { name: string }) {
  const queries = useQueryClient()
  const [name, setName] = useState(current)
  const save = useMutation({
    mutationFn: () => callAuth('update-user', { name: name.trim() }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['me'] }),
  })
  return (
    <Form mutation={save} submit="Save name" variant="default" w="fit-content">
      <TextInput
        label="Name"
        required
        maxLength={100}
        autoComplete="name"
        value={name}
        onChange={event => setName(event.currentTarget.value)}
      />
    </Form>
  )
}

function EmailForm({ email: current, isVerified }: { email: string; isVerified: boolean }) {
  const [email, setEmail] = useState('')
  const change = useMutation({ mutationFn: () => callAuth('change-email', { newEmail: email }) })
  return (
    <Form mutation={change} submit="Change email" variant="default" w="fit-content">
      <Text size="sm">Current address: {current}</Text>
      <TextInput
        label="New email address"
        type="email"
        required
        autoComplete="email"
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
      />
      {change.isSuccess && (
        <Text size="sm" role="status">
          {isVerified
            ? 'Open the links that we send to your current address and then to the new one to confirm the change.'
            : 'Open the link that we send to the new address to confirm the change.'}
        </Text>
      )}
    </Form>
  )
}

function PasswordForm() {
  const queries = useQueryClient()
  const [currentPassword, setCurrentPassword] = useState('')
  const [newPassword, setNewPassword] = useState('')
  const change = useMutation({
    mutationFn: () => callAuth('change-password', { currentPassword, newPassword, revokeOtherSessions: true }),
    onSuccess: () => {
      setCurrentPassword('')
      setNewPassword('')
      return queries.invalidateQueries({ queryKey: ['sessions'] })
    },
  })
  return (
    <Form mutation={change} submit="Change password" variant="default" w="fit-content">
      <PasswordInput
        label="Current password"
        required
        autoComplete="current-password"
        value={currentPassword}
        onChange={event => setCurrentPassword(event.currentTarget.value)}
      />
      <PasswordInput
        label="New password"
        description="At least 10 characters. All other sessions will be signed out."
        required
        minLength={10}
        maxLength={128}
        autoComplete="new-password"
        value={newPassword}
        onChange={event => setNewPassword(event.currentTarget.value)}
      />
      {change.isSuccess && (
        <Text size="sm" role="status">
          Password changed.
        </Text>
      )}
    </Form>
  )
}

type Session = { id: string; token: string; createdAt: string; ipAddress: string | null; userAgent: string | null }

const sessionColumns = (
  ownId: string | undefined,
  end: UseMutationResult<unknown, Error, string>,
): Column<Session>[] => [
  {
    header: 'Browser',
    card: 'lead',
    kind: 'rowHeader',
    cell: ({ id, userAgent }) => (
      <Group gap="xs">
        <Text size="sm">{browserOf(userAgent)}</Text>
        {id === ownId && <Badge>this session</Badge>}
      </Group>
    ),
  },
  { header: 'IP address', card: 'line', cell: ({ ipAddress }) => ipAddress },
  { header: 'Signed in', card: 'labelled', cell: ({ createdAt }) => <Time at={createdAt} /> },
  {
    header: 'Actions',
    card: 'aside',
    kind: 'actions',
    cell: ({ id, token, userAgent }) =>
      id !== ownId && (
        <Button
          size="compact-sm"
          variant="default"
          loading={end.isPending && end.variables === token}
          onClick={() => end.mutate(token)}
        >
          Sign out<VisuallyHidden> the session in {browserOf(userAgent)}</VisuallyHidden>
        </Button>
      ),
  },
]

function Sessions() {
  const queries = useQueryClient()
  const own = useQuery({
    queryKey: ['session'],
    queryFn: () => call<{ session: Session }>('/dashboard/api/auth/get-session'),
  })
  const sessions = useQuery({
    queryKey: ['sessions'],
    queryFn: () => call<Session[]>('/dashboard/api/auth/list-sessions'),
  })
  const end = useMutation({
    mutationFn: (token: string) => callAuth('revoke-session', { token }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['sessions'] }),
  })
  return (
    <Show query={sessions} rows={2}>
      {list => (
        <Stack gap="xs">
          {end.error && <Failure error={end.error} />}
          <DataTable
            label="Sessions"
            rows={list}
            columns={sessionColumns(own.data?.session.id, end)}
            rowKey={({ id }) => id}
            minWidth={520}
          />
        </Stack>
      )}
    </Show>
  )
}
