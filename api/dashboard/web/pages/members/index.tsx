import { Anchor, Button, Group, Stack, Text, Title, VisuallyHidden } from '@mantine/core'
import { IconSearch, IconUserPlus } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import type { Budget } from '../../../wire/members.ts'
import { call, callAuth, queryText } from '../../api.ts'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Failure, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { Together } from '../../components/together.tsx'
import { count, day, usd } from '../../format.ts'
import { type Place, usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'
import { BudgetDialog, type BudgetOwner, BudgetSpend, EditButton, OrganisationBudget, useBudgets } from './budgets.tsx'
import { InviteForm, invitedEmails } from './invite-form.tsx'
import { type Member, useMembers } from './member.ts'
import { Removal } from './removal.tsx'
import { mayChange, RoleCell } from './role.tsx'

type Invitation = { id: string; email: string; role: string; status: string; expiresAt: string }

export default function Members() {
  const place = usePlace()
  const members = useMembers()
  const isAdmin = place.may('manage')
  const budgets = useBudgets()
  const [owner, setOwner] = useState<BudgetOwner | null>(null)
  return (
    <Page
      title="Members"
      description="Members can view everything and manage the API keys that they created. The role billing sees and pays what is spent, and nothing else. Admins manage all API keys, webhooks and members. Owners also manage billing, who has that role, and other owners."
      actions={
        isAdmin && (
          // Below a list that may be long.
          <Button
            leftSection={<IconUserPlus size={16} aria-hidden />}
            onClick={() => document.getElementById(invitedEmails)?.focus()}
          >
            Invite members
          </Button>
        )
      }
    >
      <Together>
        <OrganisationBudget onEdit={setOwner} />
        <Show query={members}>
          {list => <MemberTable members={list} budgets={budgets.data ?? []} onBudget={setOwner} />}
        </Show>
        {isAdmin && (
          <>
            <Title order={2}>Invitations</Title>
            <InviteForm />
            <Invitations />
          </>
        )}
      </Together>
      {owner && (
        <BudgetDialog
          owner={owner}
          budget={budgets.data?.find(({ scope }) => scope === owner.scope)}
          onClose={() => setOwner(null)}
        />
      )}
    </Page>
  )
}

type Budgets = { budgets: Budget[]; onBudget: (owner: BudgetOwner) => void }

/** Members up to this number are listed without a search field. */
const maxUnsearched = 10

function MemberTable({ members, ...budgets }: { members: Member[] } & Budgets) {
  const place = usePlace()
  const [search] = useFilter('search')
  const [leaving, setLeaving] = useState<Member | null>(null)
  return (
    <>
      {(members.length > maxUnsearched || search !== '') && (
        <TextFilter
          name="search"
          aria-label="Search members"
          placeholder="Name or email"
          leftSection={<IconSearch size={16} aria-hidden />}
          w={{ base: '100%', xs: 280 }}
        />
      )}
      <DataTable
        label="Members"
        rows={members.filter(({ name, email }) => `${name} ${email}`.toLowerCase().includes(search.toLowerCase()))}
        empty={<Empty title="No members found">Search for part of a name or of an email address.</Empty>}
        columns={columns(place, members, budgets, setLeaving)}
        rowKey={({ id }) => id}
        minWidth={820}
      />
      {leaving && <Removal member={leaving} onClose={() => setLeaving(null)} />}
    </>
  )
}

function columns(
  place: Place,
  members: Member[],
  { budgets, onBudget }: Budgets,
  onRemove: (member: Member) => void,
): Column<Member>[] {
  const { me, home } = place
  const isAdmin = place.may('manage')
  const ownerOf = ({ user_id: scope, name }: Member) => ({ scope, name })
  const budgetOf = ({ user_id: id }: Member) => budgets.find(({ scope }) => scope === id)
  return [
    {
      header: 'Member',
      kind: 'rowHeader',
      card: 'lead',
      maxWidth: 280,
      cell: member => <Name member={member} isOwn={member.user_id === me.id} />,
    },
    { header: 'Role', card: 'aside', cell: member => <RoleCell member={member} /> },
    {
      header: 'API keys',
      kind: 'number',
      card: 'labelled',
      cell: ({ user_id, name, keys }) =>
        place.has('keys') ? (
          <Anchor component={Link} href={`${home}/keys?member=${user_id}`} size="sm">
            {count(keys)}
            <VisuallyHidden> API keys of {name}</VisuallyHidden>
          </Anchor>
        ) : (
          count(keys)
        ),
    },
    {
      header: 'Spend this month',
      kind: 'number',
      card: 'labelled',
      cell: ({ user_id, name, spend_month_usd }) => (
        <Anchor component={Link} href={`${home}/usage?member=${user_id}`} size="sm">
          {usd(spend_month_usd)}
          <VisuallyHidden> spent by the API keys of {name}</VisuallyHidden>
        </Anchor>
      ),
    },
    ...(budgets.some(({ scope }) => scope !== 'organisation')
      ? [
          {
            header: 'Monthly budget',
            card: 'labelled' as const,
            cell: (member: Member) => <BudgetSpend owner={ownerOf(member)} budget={budgetOf(member)} />,
          },
        ]
      : []),
    ...(members.some(({ account }) => account !== null) ? accountColumns : []),
    { header: 'Joined', nowrap: true, cell: ({ joined_at }) => <Time at={joined_at} /> },
    {
      header: 'Actions',
      kind: 'actions',
      card: 'line',
      cell: member => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          {isAdmin && <EditButton owner={ownerOf(member)} onEdit={onBudget} />}
          {(member.user_id === me.id || mayChange(place, member)) && (
            <Button size="compact-sm" variant="subtle" color="red" onClick={() => onRemove(member)}>
              {member.user_id === me.id ? 'Leave' : 'Remove'}
              <VisuallyHidden> {member.email}</VisuallyHidden>
            </Button>
          )}
        </Group>
      ),
    },
  ]
}

/** For admins only. */
const accountColumns: Column<Member>[] = [
  { header: 'Last active', nowrap: true, cell: ({ account }) => <Time at={account?.last_active_at ?? null} /> },
  {
    header: 'Two-factor',
    cell: ({ account }) => (
      <Text size="sm" c={account?.two_factor ? undefined : 'dimmed'}>
        {account?.two_factor ? 'yes' : 'no'}
      </Text>
    ),
  },
]

function Name({ member: { name, email }, isOwn }: { member: Member; isOwn: boolean }) {
  return (
    <>
      <Text size="sm" fw={500}>
        {name}
        {isOwn && ' (you)'}
      </Text>
      <Text size="xs" c="dimmed">
        {email}
      </Text>
    </>
  )
}

function Invitations() {
  const place = usePlace()
  const invitations = useQuery({
    queryKey: [place.id, 'invitations'],
    queryFn: ({ signal }) =>
      call<Invitation[]>(
        `/dashboard/api/auth/organization/list-invitations${queryText({ organizationId: place.id })}`,
        { signal },
      ),
  })
  const cancel = useChange({ path: '', queryKey: ['invitations'] }, (_, invitationId: string) =>
    callAuth('organization/cancel-invitation', { invitationId }),
  )
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
