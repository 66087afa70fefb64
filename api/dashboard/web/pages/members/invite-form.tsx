import { List, Select, Textarea } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { useState } from 'react'
import { rolesGivenBy } from '../../../../../shared/base/roles.ts'
import { callAuth } from '../../api.ts'
import { RowForm } from '../../components/form.tsx'
import { usePlace } from '../../session.tsx'
import { useChange } from '../../use-change.ts'

const maxAtOnce = 50
/** The id of the field of addresses. */
export const invitedEmails = 'invited-emails'

type Outcome = { email: string; error: string | null }

/** The addresses in a text, each once: separated by commas, semicolons or white space, as lists are copied from elsewhere. */
function addressesIn(text: string): string[] {
  const words = text.split(/[\s,;]+/).map(word => word.replace(/^<|>$/g, ''))
  return [...new Set(words.filter(word => word !== ''))]
}

/** Invites people by email, one or many at once. Those that fail stay in the field. */
export function InviteForm() {
  const place = usePlace()
  const [text, setText] = useState('')
  const [role, setRole] = useState('member')
  const [failed, setFailed] = useState<Outcome[]>([])
  const emails = addressesIn(text)
  const wrong = emails.filter(email => !/^[^@]+@[^@]+\.[^@]+$/.test(email))
  const problem =
    emails.length > maxAtOnce
      ? `At most ${maxAtOnce} at once`
      : wrong.length > 0 && /[\s,;]$/.test(text)
        ? `Not an email address: ${wrong[0]}`
        : null
  const invite = useChange<void, Outcome[]>(
    { path: '', queryKey: ['invitations'] },
    () => inviteAll(place.id, role, emails),
    outcomes => {
      const refused = outcomes.filter(({ error }) => error !== null)
      const sent = outcomes.length - refused.length
      if (sent > 0)
        notifications.show({
          title: sent === 1 ? 'Invitation sent' : `${sent} invitations sent`,
          message: `${outcomes.find(({ error }) => error === null)!.email}${sent > 1 ? ' and others' : ''} can join for seven days.`,
        })
      setFailed(refused)
      setText(refused.map(({ email }) => email).join('\n'))
    },
  )
  return (
    <RowForm mutation={invite} submit={emails.length > 1 ? `Invite ${emails.length}` : 'Invite'}>
      <Textarea
        id={invitedEmails}
        label="Email"
        placeholder="One or more addresses"
        required
        autosize
        minRows={1}
        maxRows={6}
        w={280}
        value={text}
        onChange={event => setText(event.currentTarget.value)}
        error={problem}
      />
      <Select
        label="Role"
        w={120}
        allowDeselect={false}
        data={rolesGivenBy(place.role)}
        value={role}
        onChange={value => setRole(value ?? 'member')}
      />
      {failed.length > 0 && (
        <div role="alert">
          <List size="sm" c="var(--mantine-color-error)">
            {failed.map(({ email, error }) => (
              <List.Item key={email}>
                {email}: {error}
              </List.Item>
            ))}
          </List>
        </div>
      )}
    </RowForm>
  )
}

/** One after the other, as each is checked against the limit of the organisation. */
async function inviteAll(organizationId: string, role: string, emails: readonly string[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const email of emails.slice(0, maxAtOnce)) {
    const error = await callAuth('organization/invite-member', { email, role, organizationId }).then(
      () => null,
      (cause: Error) => cause.message,
    )
    outcomes.push({ email, error })
  }
  return outcomes
}
