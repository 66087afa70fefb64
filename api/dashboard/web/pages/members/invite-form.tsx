import { Button, Group, Select, Stack, TextInput } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { callAuth } from '../../api.ts'
import { Failure } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'

/** Invites a user by email. */
export function InviteForm() {
  const place = usePlace()
  const queries = useQueryClient()
  const [email, setEmail] = useState('')
  const [role, setRole] = useState('member')
  const invite = useMutation({
    mutationFn: () => callAuth('organization/invite-member', { email, role, organizationId: place.id }),
    onSuccess: async () => {
      notifications.show({ title: 'Invitation sent', message: `${email} can join for seven days.` })
      setEmail('')
      await queries.invalidateQueries({ queryKey: [place.id, 'invitations'] })
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    invite.mutate()
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="xs">
        <Group align="flex-end">
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
            data={place.may('owner') ? ['member', 'admin', 'owner'] : ['member', 'admin']}
            value={role}
            onChange={value => setRole(value ?? 'member')}
          />
          <Button type="submit" loading={invite.isPending}>
            Invite
          </Button>
        </Group>
        {invite.error && <Failure error={invite.error} />}
      </Stack>
    </form>
  )
}
