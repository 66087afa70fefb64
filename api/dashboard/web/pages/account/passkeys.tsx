import { Button, Stack, Text, TextInput, VisuallyHidden } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Me } from '../../../wire/person.ts'
import { call, callAuth } from '../../api.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { ProofInput, proofOf } from '../../components/proof.tsx'
import { Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { browserOf } from './browser.ts'
import { createPasskey, type NewPasskey } from './webauthn.ts'

type Passkey = { id: string; name: string | null; createdAt: string }
type Dialog = { kind: 'add' } | { kind: 'rename' | 'remove'; passkey: Passkey }

const nameOf = ({ name }: Passkey) => name ?? 'Passkey'

/** The user's passkeys. */
export function Passkeys({ me }: { me: Me }) {
  const [dialog, setDialog] = useState<Dialog | null>(null)
  const close = () => setDialog(null)
  const passkeys = useQuery({
    queryKey: ['passkeys'],
    queryFn: ({ signal }) => call<Passkey[]>('/dashboard/api/auth/passkey/list-user-passkeys', { signal }),
  })
  return (
    <Stack gap="sm" align="flex-start">
      <Text size="sm" maw={560}>
        Sign in with your device’s fingerprint, face recognition or PIN instead of a password and a code.
      </Text>
      <Show query={passkeys} rows={1}>
        {list => (
          <DataTable label="Passkeys" rows={list} columns={columns(setDialog)} rowKey={({ id }) => id} minWidth={420} />
        )}
      </Show>
      <Button variant="default" onClick={() => setDialog({ kind: 'add' })}>
        Add a passkey
      </Button>
      {dialog?.kind === 'add' && <Add me={me} onClose={close} />}
      {dialog?.kind === 'rename' && <Rename passkey={dialog.passkey} onClose={close} />}
      {dialog?.kind === 'remove' && <Remove me={me} passkey={dialog.passkey} onClose={close} />}
    </Stack>
  )
}

const columns = (onChoose: (dialog: Dialog) => void): Column<Passkey>[] => [
  { header: 'Passkey', card: 'lead', kind: 'rowHeader', maxWidth: 320, cell: nameOf },
  { header: 'Added', card: 'labelled', cell: ({ createdAt }) => <Time at={createdAt} /> },
  {
    header: 'Actions',
    card: 'line',
    kind: 'actions',
    cell: passkey => (
      <>
        <Button size="compact-sm" variant="default" onClick={() => onChoose({ kind: 'rename', passkey })}>
          Rename<VisuallyHidden> {nameOf(passkey)}</VisuallyHidden>
        </Button>{' '}
        <Button size="compact-sm" variant="subtle" color="red" onClick={() => onChoose({ kind: 'remove', passkey })}>
          Remove<VisuallyHidden> {nameOf(passkey)}</VisuallyHidden>
        </Button>
      </>
    ),
  },
]

function useChange<T>(change: () => Promise<T>, onClose: () => void) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['passkeys'] })
      onClose()
    },
  })
}

function Add({ me, onClose }: { me: Me; onClose: () => void }) {
  const [name, setName] = useState(() => browserOf(navigator.userAgent))
  const [proof, setProof] = useState('')
  // After a wrong password the device keeps its new passkey, which the next attempt uses.
  const [created, setCreated] = useState<NewPasskey | null>(null)
  const add = useChange(async () => {
    const response = created ?? (await createPasskey())
    setCreated(response)
    return callAuth('passkey/verify-registration', { ...proofOf(me, proof), name: name.trim(), response })
  }, onClose)
  return (
    <OpenModal title="Add a passkey" onClose={onClose}>
      <Form mutation={add} submit="Add passkey">
        <NameInput name={name} onChange={setName} />
        <ProofInput me={me} value={proof} onChange={setProof} />
      </Form>
    </OpenModal>
  )
}

function Rename({ passkey, onClose }: { passkey: Passkey; onClose: () => void }) {
  const [name, setName] = useState(nameOf(passkey))
  const rename = useChange(() => callAuth('passkey/update-passkey', { id: passkey.id, name: name.trim() }), onClose)
  return (
    <OpenModal title={`Rename “${nameOf(passkey)}”`} onClose={onClose}>
      <Form mutation={rename} submit="Rename">
        <NameInput name={name} onChange={setName} />
      </Form>
    </OpenModal>
  )
}

function Remove({ me, passkey, onClose }: { me: Me; passkey: Passkey; onClose: () => void }) {
  const [proof, setProof] = useState('')
  const remove = useChange(() => callAuth('passkey/delete-passkey', { ...proofOf(me, proof), id: passkey.id }), onClose)
  return (
    <OpenModal title={`Remove “${nameOf(passkey)}”`} onClose={onClose}>
      <Form mutation={remove} submit="Remove" color="red.9">
        <Text size="sm">You can no longer sign in with it. Delete it on your device as well.</Text>
        <ProofInput me={me} value={proof} onChange={setProof} />
      </Form>
    </OpenModal>
  )
}

function NameInput({ name, onChange }: { name: string; onChange: (name: string) => void }) {
  return (
    <TextInput
      label="Passkey name"
      required
      maxLength={100}
      value={name}
      onChange={event => onChange(event.currentTarget.value)}
    />
  )
}
