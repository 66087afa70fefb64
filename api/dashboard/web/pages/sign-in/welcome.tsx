import { Anchor, Button, Divider, Stack, Text, TextInput, Title } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, Redirect, useLocation } from 'wouter'
import { callAuth } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { Pending } from '../../components/states.tsx'
import { useTitle } from '../../components/title.ts'
import { createFirstKey } from '../../first-key.ts'
import { useMe } from '../../session.tsx'

/** The first page of a new account: accept an invitation, or create an organisation. */
export default function Welcome() {
  useTitle('Welcome')
  const me = useMe()
  const queries = useQueryClient()
  const [, navigate] = useLocation()
  const [name, setName] = useState('')
  const wanted = new URLSearchParams(location.search).has('new')
  const create = useMutation({
    // The gateway assigns the slug; the one that must be sent is ignored.
    mutationFn: async () => {
      const { id } = await callAuth<{ id: string }>('organization/create', { name: name.trim(), slug: 'new' })
      // Without the key the organisation is complete as well: its first steps offer to create one.
      await createFirstKey(id).catch(() => null)
      return id
    },
    onSuccess: async id => {
      await queries.invalidateQueries({ queryKey: ['me'] })
      navigate(`/${id}`)
    },
  })
  if (!me.data) return <Pending query={me} rows={3} />
  const { organisations, invitations } = me.data
  if (organisations.length > 0 && !wanted && !create.isSuccess)
    return <Redirect to={`/${lastVisited(organisations.map(({ id }) => id))}`} replace />
  return (
    <Stack>
      <Title order={1}>Welcome, {me.data.name}</Title>
      {invitations.map(invitation => (
        <Button key={invitation.id} component={Link} href={`/invitations/${invitation.id}`} variant="light">
          Join {invitation.organisation_name} as {invitation.role}
        </Button>
      ))}
      {invitations.length > 0 && <Divider label="or" />}
      <Text size="sm" c="dimmed">
        An organisation has its own wallet, keys and members.
      </Text>
      <Form mutation={create} submit="Create organisation" fullWidth>
        <TextInput
          label="Organisation name"
          autoComplete="organization"
          required
          maxLength={100}
          value={name}
          onChange={event => setName(event.currentTarget.value)}
        />
      </Form>
      {organisations.length > 0 && (
        <Anchor component={Link} href={`/${organisations[0]!.id}`} size="sm">
          Back
        </Anchor>
      )}
    </Stack>
  )
}

function lastVisited(ids: string[]): string {
  const last = localStorage.getItem('headgate-organisation')
  return last !== null && ids.includes(last) ? last : ids[0]!
}
