import { Select, TextInput } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import { callAuth } from '../../api.ts'
import { RowForm } from '../../components/form.tsx'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'
import { rolesGivenBy } from './member.ts'

/** Invites a user by email. */
export function InviteForm() {
  const place = usePlace()
  const [email, setEmail] = useState('')
  const [role, setRole] = useState('member')
  const invite = useChange<void, unknown>(
    { path: '', queryKey: ['invitations'] },
    () => callAuth('organization/invite-member', { email, role, organizationId: place.id }),
    () => {
      notifications.show({ title: 'Invitation sent', message: `${email} can join for seven days.` })
      setEmail('')
    },
  )
  return (
    <RowForm mutation={invite} submit="Invite">
      <TextInput
        label="Email"
        type="email"
        required
        w={280}
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
      />
      <Select
        label="Role"
        w={120}
        allowDeselect={false}
        data={rolesGivenBy(place)}
        value={role}
        onChange={value => setRole(value ?? 'member')}
      />
    </RowForm>
  )
}
