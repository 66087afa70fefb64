import { Select, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { type Role, rolesGivenBy } from '../../../../../shared/base/roles.ts'
import { callAuth } from '../../api.ts'
import { Confirm } from '../../components/confirm.tsx'
import { type Place, usePlace } from '../../session.tsx'
import type { Member } from './member.ts'

/** Only owners can change owners. */
export function mayChange({ may }: Place, member: Member): boolean {
  return may(member.role === 'owner' ? 'own' : 'manage')
}

/** The roles that the user may give, and the member's own. */
function choices({ role }: Place, member: Member): Role[] {
  const given = rolesGivenBy(role)
  return given.includes(member.role) ? given : [...given, member.role]
}

/** The role of a member, and its change by those who may. A new owner is confirmed. */
export function RoleCell({ member }: { member: Member }) {
  const place = usePlace()
  const queries = useQueryClient()
  const [isPromoting, setPromoting] = useState(false)
  const change = useMutation({
    mutationFn: (role: Role) =>
      callAuth('organization/update-member-role', { memberId: member.id, role, organizationId: place.id }),
    onSuccess: () => {
      setPromoting(false)
      return queries.invalidateQueries({ queryKey: [place.id, 'members'] })
    },
    onError: (error, role) =>
      role !== 'owner' &&
      notifications.show({ color: 'red', title: 'The role was not changed', message: error.message }),
  })
  if (member.user_id === place.me.id || !mayChange(place, member)) return <Text size="sm">{member.role}</Text>
  return (
    <>
      <Select
        aria-label={`Role of ${member.email}`}
        size="xs"
        w={120}
        allowDeselect={false}
        data={choices(place, member)}
        value={member.role}
        disabled={change.isPending}
        onChange={role => (role === 'owner' ? setPromoting(true) : role && change.mutate(role as Role))}
      />
      {isPromoting && (
        <Confirm
          title={`Make ${member.name} an owner`}
          action="Make owner"
          pending={change.isPending}
          error={change.error}
          onConfirm={() => change.mutate('owner')}
          onClose={() => setPromoting(false)}
        >
          {member.email} will be able to pay, to appoint other owners, and to remove any owner, including you.
        </Confirm>
      )}
    </>
  )
}
