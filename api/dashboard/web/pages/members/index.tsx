import { Button, Group, Select, Stack, Text, Title, VisuallyHidden } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call, callAuth, queryText } from '../../api.ts'
import { Page } from '../../components/page.tsx'
import { Failure, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { day } from '../../format.ts'
import { type Place, usePlace } from '../../session.tsx'
import { InviteForm } from './invite-form.tsx'
import { type Member, useMembers } from './member.ts'
import { Removal } from './removal.tsx'

type Invitation = { id: string; email: string; role: string; status: string; expiresAt: string }

export default function Members() {
  const place = usePlace()
  const members = useMembers()
  const isAdmin = place.may('admin')
  return (
    <Page
      title="Members"
      description="Members can view everything and manage the API keys that they created. Admins manage all API keys, webhooks and members. Owners also manage billing and other owners."
    >
      <Show query={members}>{({ members: list }) => <MemberTable members={list} />}</Show>
      {isAdmin && (
        <>
          <Title order={2}>Invitations</Title>
          <InviteForm />
          <Invitations />
        </>
      )}
    </Page>
  )
}

function MemberTable({ members }: { members: Member[] }) {
  const place = usePlace()
  const [leaving, setLeaving] = useState<Member | null>(null)
  return (
    <>
      <DataTable
        label="Members"
        rows={members}
        columns={columns(place, setLeaving)}
        rowKey={({ id }) => id}
        minWidth={560}
      />
      {leaving && <Removal member={leaving} onClose={() => setLeaving(null)} />}
    </>
  )
}

const columns = (place: Place, onRemove: (member: Member) => void): Column<Member>[] => [
  {
    header: 'Member',
    kind: 'rowHeader',
    cell: ({ userId, user }) => (
      <>
        <Text size="sm" fw={500}>
          {user.name}
          {userId === place.me.id && ' (you)'}
        </Text>
        <Text size="xs" c="dimmed">
          {user.email}
        </Text>
      </>
    ),
  },
  { header: 'Role', cell: member => <RoleCell member={member} /> },
  { header: 'Joined', cell: ({ createdAt }) => <Time at={createdAt} /> },
  {
    header: 'Actions',
    kind: 'actions',
    cell: member =>
      (member.userId === place.me.id || mayChange(place, member)) && (
        <Button size="compact-sm" variant="subtle" color="red" onClick={() => onRemove(member)}>
          {member.userId === place.me.id ? 'Leave' : 'Remove'}
          <VisuallyHidden> {member.user.email}</VisuallyHidden>
        </Button>
      ),
  },
]

/** Only owners can change owners. */
function mayChange({ may }: Place, member: Member): boolean {
  return may(member.role === 'owner' ? 'owner' : 'admin')
}

function RoleCell({ member }: { member: Member }) {
  const place = usePlace()
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (role: string) =>
      callAuth('organization/update-member-role', { memberId: member.id, role, organizationId: place.id }),
    onSuccess: () => queries.invalidateQueries({ queryKey: [place.id, 'members'] }),
    onError: error => notifications.show({ color: 'red', title: 'The role was not changed', message: error.message }),
  })
  if (member.userId === place.me.id || !mayChange(place, member)) return <Text size="sm">{member.role}</Text>
  return (
    <Select
      aria-label={`Role of ${member.user.email}`}
      size="xs"
      w={120}
      allowDeselect={false}
      data={place.may('owner') ? ['member', 'admin', 'owner'] : ['member', 'admin']}
      value={member.role}
      disabled={change.isPending}
      onChange={role => role && change.mutate(role)}
    />
  )
}

function Invitations() {
  const place = usePlace()
  const queries = useQueryClient()
  const key = [place.id, 'invitations']
  const invitations = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      call<Invitation[]>(
        `/dashboard/api/auth/organization/list-invitations${queryText({ organizationId: place.id })}`,
        { signal },
      ),
  })
  const cancel = useMutation({
    mutationFn: (invitationId: string) => callAuth('organization/cancel-invitation', { invitationId }),
    onSuccess: () => queries.invalidateQueries({ queryKey: key }),
  })
  return (
    <Stack>
      {cancel.error && <Failure error={cancel.error} />}
      <Show query={invitations} rows={1}>
        {list => {
          const pending = list.filter(
            ({ status, expiresAt }) => status === 'pending' && new Date(expiresAt) > new Date(),
          )
          if (pending.length === 0)
            return (
              <Text size="sm" c="dimmed">
                No pending invitations.
              </Text>
            )
          return (
            <Stack gap="xs">
              {pending.map(({ id, email, role, expiresAt }) => (
                <Group key={id} justify="space-between">
                  <Text size="sm">
                    {email} as {role}, expires {day(expiresAt)}
                  </Text>
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => cancel.mutate(id)}
                    loading={cancel.isPending && cancel.variables === id}
                  >
                    Revoke<VisuallyHidden> the invitation of {email}</VisuallyHidden>
                  </Button>
                </Group>
              ))}
            </Stack>
          )
        }}
      </Show>
    </Stack>
  )
}
