import { Button, Group, Stack, Text } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Me } from '../../../wire/person.ts'
import { callAuth } from '../../api.ts'
import { CodeInput, codeOf } from '../../components/code-input.tsx'
import { CodeBox } from '../../components/copy.tsx'
import { useFocusFirst } from '../../components/focus-first.ts'
import { Form } from '../../components/form.tsx'
import { ProofInput, proofOf } from '../../components/proof.tsx'
import { QrCode } from '../../components/qr-code.tsx'
import { BackupCodes } from './backup-codes.tsx'

type Begun = { totpURI: string; backupCodes: string[] }

/** Sets up an authenticator app in three steps: the password, the secret and its first code, the backup codes. */
export function SetUp({ me, onDone, onCancel }: { me: Me; onDone: () => void; onCancel?: () => void }) {
  const queries = useQueryClient()
  const [proof, setProof] = useState('')
  const [code, setCode] = useState('')
  const begin = useMutation({ mutationFn: () => callAuth<Begun>('two-factor/enable', proofOf(me, proof)) })
  const confirm = useMutation({ mutationFn: () => callAuth('two-factor/verify-totp', { code: codeOf(code) }) })
  const part = useFocusFirst(confirm.isSuccess ? 'codes' : begin.data ? 'code' : 'proof', { initially: true })
  const done = async () => {
    await queries.invalidateQueries()
    onDone()
  }
  if (confirm.isSuccess)
    return (
      <div ref={part}>
        <BackupCodes codes={begin.data!.backupCodes} onDone={() => void done()} />
      </div>
    )
  const cancel = onCancel && (
    <Button variant="default" onClick={onCancel}>
      Cancel
    </Button>
  )
  if (!begin.data)
    return (
      <Stack ref={part} maw={440} gap="xs">
        <Form mutation={begin} submit="Continue" w="fit-content">
          <ProofInput me={me} value={proof} onChange={setProof} />
        </Form>
        <Group>{cancel}</Group>
      </Stack>
    )
  const { totpURI } = begin.data
  return (
    <Stack ref={part} maw={440} gap="sm">
      <Text size="sm">Scan the QR code with an authenticator app on your phone, or enter the secret manually.</Text>
      <QrCode text={totpURI} label="QR code of the secret, which is shown below" />
      <CodeBox code={secretOf(totpURI)} label="Secret" />
      <Form mutation={confirm} submit="Confirm" w="fit-content">
        <CodeInput value={code} onChange={setCode} />
      </Form>
      <Group>{cancel}</Group>
    </Stack>
  )
}

function secretOf(totpURI: string): string {
  return new URL(totpURI).searchParams.get('secret') ?? ''
}
