import { Button, Group, Radio, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { callAuth } from '../../api.ts'
import { Confirm } from '../../components/confirm.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'
import { type Member, useMembers } from './member.ts'

type RemovedMemberKeyAction = 'revoke' | 'hand_over'

/** Confirms the removal of a member, and asks what happens to the API keys that they created. */
export function Removal({ member, onClose }: { member: Member; onClose: () => void }) {
  const place = usePlace()
  const [keys, setKeys] = useState<RemovedMemberKeyAction>('revoke')
  const isSelf = member.user_id === place.me.id
  const remove = useChange<void, unknown>(
    { path: '', queryKey: ['members'] },
    () =>
      isSelf
        ? callAuth('organization/leave', { organizationId: place.id, keys })
        : callAuth('organization/remove-member', { memberIdOrEmail: member.id, organizationId: place.id, keys }),
    () => (isSelf ? location.assign('/dashboard/') : onClose()),
  )
  const members = useMembers()
  const owners = (members.data ?? []).filter(({ role }) => role === 'owner')
  if (isSelf && owners.length === 1 && owners[0]!.user_id === member.user_id)
    return (
      <OpenModal onClose={onClose} title={`Leave ${place.name}`} centered>
        <Stack>
          <Text size="sm">
            You are the only owner. Make another member an owner first, under Members: an organisation without one could
            not be managed any more.
          </Text>
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose} data-autofocus>
              Close
            </Button>
          </Group>
        </Stack>
      </OpenModal>
    )
  const whose = isSelf ? 'you' : 'they'
  return (
    <Confirm
      title={isSelf ? `Leave ${place.name}` : `Remove ${member.name}`}
      action={isSelf ? 'Leave' : 'Remove'}
      pending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <Stack gap="sm">
        <Text size="sm">{isSelf ? 'You lose access immediately.' : `${member.email} loses access immediately.`}</Text>
        <Radio.Group
          label={`The API keys that ${whose} created here`}
          value={keys}
          onChange={value => setKeys(value as RemovedMemberKeyAction)}
        >
          <Stack gap="xs" mt="xs">
            <Radio
              value="revoke"
              label="Revoke them"
              description="They stop working immediately. This cannot be undone."
            />
            <Radio
              value="hand_over"
              label="Transfer them to the admins"
              description={`They keep working, and the admins manage them. Roll them, because ${whose} may know their secrets.`}
            />
          </Stack>
        </Radio.Group>
      </Stack>
    </Confirm>
  )
}
