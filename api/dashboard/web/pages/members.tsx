import { Button, Group, Select, Stack, Table, Text, Title, VisuallyHidden } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Role } from '../../wire/person.ts'
import { call, callAuth, queryText } from '../api.ts'
import { Page } from '../components/page.tsx'
import { Failure, Show } from '../components/states.tsx'
import { Time } from '../components/time.tsx'
import { day } from '../format.ts'
import { usePlace } from '../session.tsx'
import { InviteForm, RenameForm } from './members/forms.tsx'
import type { Member } from './members/member.ts'
import { Removal } from './members/removal.tsx'
import { TwoFactorSwitch } from './members/two-factor-switch.tsx'

type Invitation = { id: string; email: string; role: string; status: string; expiresAt: string }

const mostMembers = 500

export default function Members() {
  const place = usePlace()
  const members = useQuery({
    queryKey: [place.id, 'members'],
    queryFn: ({ signal }) =>
      call<{ members: Member[] }>(
        `/dashboard/api/auth/organization/list-members${queryText({ organizationId: place.id, limit: mostMembers, sortBy: 'createdAt' })}`,
        { signal },
      ),
  })
  const isAdmin = place.may('admin')
  return (
    <Page
      title="Members"
      description="Members see everything and manage the keys they made. Admins manage all keys, webhooks and members. Owners also pay, and make owners."
    >
      <Show query={members}>{({ members: list }) => <MemberTable members={list} />}</Show>
      {isAdmin && (
        <>
          <Title order={2}>Invitations</Title>
          <InviteForm />
          <Invitations />
          <Title order={2}>Organisation</Title>
          <RenameForm />
          <TwoFactorSwitch />
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
      <Table.ScrollContainer minWidth={560}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Member</Table.Th>
              <Table.Th>Role</Table.Th>
              <Table.Th>Joined</Table.Th>
              <Table.Th>
                <VisuallyHidden>Actions</VisuallyHidden>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {members.map(member => {
              const isSelf = member.userId === place.me.id
              return (
                <Table.Tr key={member.id}>
                  <Table.Td>
                    <Text size="sm" fw={500}>
                      {member.user.name}
                      {isSelf && ' (you)'}
                    </Text>
                    <Text size="xs" c="dimmed">
                      {member.user.email}
                    </Text>
                  </Table.Td>
                  <Table.Td>
                    <RoleCell member={member} />
                  </Table.Td>
                  <Table.Td>
                    <Time at={member.createdAt} />
                  </Table.Td>
                  <Table.Td ta="right">
                    {(isSelf || mayChange(place.role, member)) && (
                      <Button size="compact-sm" variant="subtle" color="red" onClick={() => setLeaving(member)}>
                        {isSelf ? 'Leave' : `Remove`}
                        <VisuallyHidden> {member.user.email}</VisuallyHidden>
                      </Button>
                    )}
                  </Table.Td>
                </Table.Tr>
              )
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {leaving && <Removal member={leaving} onClose={() => setLeaving(null)} />}
    </>
  )
}

/** Only owners touch owners. */
function mayChange(role: Role, member: Member): boolean {
  return role === 'owner' || (role === 'admin' && member.role !== 'owner')
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
  if (member.userId === place.me.id || !mayChange(place.role, member)) return <Text size="sm">{member.role}</Text>
  return (
    <Select
      aria-label={`Role of ${member.user.email}`}
      size="xs"
      w={120}
      allowDeselect={false}
      data={place.role === 'owner' ? ['member', 'admin', 'owner'] : ['member', 'admin']}
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
                No invitation is open.
              </Text>
            )
          return (
            <Stack gap="xs">
              {pending.map(({ id, email, role, expiresAt }) => (
                <Group key={id} justify="space-between">
                  <Text size="sm">
                    {email} as {role}, until {day(expiresAt)}
                  </Text>
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => cancel.mutate(id)}
                    loading={cancel.isPending && cancel.variables === id}
                  >
                    Withdraw<VisuallyHidden> the invitation of {email}</VisuallyHidden>
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
