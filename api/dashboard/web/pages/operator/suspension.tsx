import { Alert, Text, Textarea } from '@mantine/core'
import { type UseMutationResult, useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import type { Suspension } from '../../../wire/operator.ts'
import { Confirm } from '../../components/confirm.tsx'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { moment } from '../../format.ts'

const maxReason = 500

/** What a suspension is about, and what it does. */
type Subject = { name: string; effect: string; resumed: string; reasonShownTo: string }
/** Suspends with a reason; null resumes. */
type Change = UseMutationResult<unknown, Error, string | null>

export const organisationSubject = (name: string): Subject => ({
  name,
  effect:
    'Its API and provisioning keys stop working at once; queued jobs fail without a charge, running ones finish. Members can only read its data. Webhooks are still sent.',
  resumed: 'Its keys work again at once.',
  reasonShownTo: 'Shown to its members and in the audit log.',
})

export const personSubject = (email: string): Subject => ({
  name: email,
  effect: 'They are signed out and cannot sign in. Their organisations and the API keys they created are not affected.',
  resumed: 'They can sign in again.',
  reasonShownTo: 'Shown in the audit log of operators.',
})

/** The dialog that suspends, or resumes what is suspended. */
export function SuspensionDialog({
  subject,
  suspension,
  change,
  onClose,
}: {
  subject: Subject
  suspension: Suspension
  change: Change
  onClose: () => void
}) {
  if (suspension === null) return <Suspending subject={subject} change={change} onClose={onClose} />
  return (
    <Confirm
      title={`Resume ${subject.name}?`}
      action="Resume"
      danger={false}
      pending={change.isPending}
      error={change.error}
      onConfirm={() => change.mutate(null)}
      onClose={onClose}
    >
      {subject.resumed}
    </Confirm>
  )
}

function Suspending({ subject, change, onClose }: { subject: Subject; change: Change; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const submission = useMutation({ mutationFn: () => change.mutateAsync(reason) })
  return (
    <OpenModal onClose={onClose} title={`Suspend ${subject.name}`} centered>
      <Form mutation={submission} submit="Suspend" color="red.9" disabled={reason.trim() === ''}>
        <Text size="sm">{subject.effect}</Text>
        <Textarea
          label="Reason"
          description={subject.reasonShownTo}
          required
          autosize
          minRows={2}
          maxLength={maxReason}
          value={reason}
          onChange={event => setReason(event.currentTarget.value)}
          data-autofocus
        />
      </Form>
    </OpenModal>
  )
}

/** Since when and why something is suspended. */
export function SuspensionAlert({ suspension }: { suspension: NonNullable<Suspension> }) {
  return (
    <Alert color="red" variant="light" title={`Suspended since ${moment(suspension.at)}`}>
      {suspension.reason}
    </Alert>
  )
}
