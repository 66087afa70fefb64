import { Badge, Button, Group, Stack, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Me } from '../../../wire/person.ts'
import { callAuth } from '../../api.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { useFocusFirst } from '../../components/focus-first.ts'
import { Form } from '../../components/form.tsx'
import { ProofInput, proofOf } from '../../components/proof.tsx'
import { BackupCodes } from './backup-codes.tsx'
import { SetUp } from './set-up.tsx'

/** The user's authenticator app: set up, new backup codes, turn off. */
export function TwoFactor({ me }: { me: Me }) {
  const [dialog, setDialog] = useState<'codes' | 'off' | null>(null)
  const [isSettingUp, setSettingUp] = useState(false)
  // The set-up has a focus of its own.
  const part = useFocusFirst(isSettingUp ? '' : 'over', { initially: false })
  const close = () => setSettingUp(false)
  if (isSettingUp) return <SetUp me={me} onDone={close} onCancel={close} />
  if (!me.two_factor)
    return (
      <Stack ref={part} gap="sm" align="flex-start">
        <Text size="sm">
          Require a code from an app on your phone in addition to your password, so that your password alone is not
          enough to sign in.
        </Text>
        <Button variant="default" onClick={() => setSettingUp(true)}>
          Set up an authenticator app
        </Button>
      </Stack>
    )
  return (
    <Stack ref={part} gap="sm" align="flex-start">
      <Group gap="xs">
        <Badge color="teal">on</Badge>
        <Text size="sm">Signing in with your password requires a code from your authenticator app.</Text>
      </Group>
      <Group gap="xs">
        <Button variant="default" onClick={() => setDialog('codes')}>
          New backup codes
        </Button>
        <Button variant="subtle" color="red" onClick={() => setDialog('off')}>
          Turn off
        </Button>
      </Group>
      {dialog === 'codes' && <NewCodes me={me} onClose={() => setDialog(null)} />}
      {dialog === 'off' && <TurnOff me={me} onClose={() => setDialog(null)} />}
    </Stack>
  )
}

function NewCodes({ me, onClose }: { me: Me; onClose: () => void }) {
  const [proof, setProof] = useState('')
  const replace = useMutation({
    mutationFn: () => callAuth<{ backupCodes: string[] }>('two-factor/generate-backup-codes', proofOf(me, proof)),
  })
  const codes = replace.data?.backupCodes
  return (
    <OpenModal
      title="New backup codes"
      onClose={onClose}
      closeOnClickOutside={!codes}
      closeOnEscape={!codes}
      withCloseButton={!codes}
    >
      {codes ? (
        <BackupCodes codes={codes} onDone={onClose} />
      ) : (
        <Form mutation={replace} submit="Generate new codes">
          <Text size="sm">Your current codes will stop working.</Text>
          <ProofInput me={me} value={proof} onChange={setProof} />
        </Form>
      )}
    </OpenModal>
  )
}

function TurnOff({ me, onClose }: { me: Me; onClose: () => void }) {
  const queries = useQueryClient()
  const [proof, setProof] = useState('')
  const turnOff = useMutation({
    mutationFn: () => callAuth('two-factor/disable', proofOf(me, proof)),
    onSuccess: async () => {
      notifications.show({ title: 'Two-factor sign-in is off', message: 'You can sign in with your password only.' })
      await queries.invalidateQueries()
      onClose()
    },
  })
  return (
    <OpenModal title="Turn off two-factor sign-in" onClose={onClose}>
      <Form mutation={turnOff} submit="Turn off" color="red.9">
        <Text size="sm">You will sign in with your password only, and your backup codes will stop working.</Text>
        <ProofInput me={me} value={proof} onChange={setProof} />
      </Form>
    </OpenModal>
  )
}
